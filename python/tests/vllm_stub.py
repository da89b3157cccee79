# SPDX-License-Identifier: MIT
"""As much of vLLM as the plug-in sees, by version: names, signatures and what base classes answer, of
vllm/v1/attention/backend.py, its selector and its registry."""

import abc
import dataclasses
import enum
import sys
import types
import typing

_ASKED = ("head_size", "dtype", "kv_cache_dtype", "block_size", "use_mla", "has_sink", "use_sparse",
          "use_mm_prefix", "use_per_head_quant_scales", "attn_type", "use_non_causal",
          "use_batch_invariant")
_ASKED_SINCE_24 = (*_ASKED, "use_kv_connector")
# What the selector asks, and whether the back end says how a cache is laid out.
VERSIONS = {
    "0.22.0": (_ASKED, True), "0.24.0": (_ASKED_SINCE_24, True),
    "0.33.0": ((*_ASKED_SINCE_24, "has_sliding_window", "use_pcp", "use_adaptive_verification",
                "use_dcp", "use_rswa"), False)}


class DeviceCapability(typing.NamedTuple):
    major: int
    minor: int


class AttentionType(str, enum.Enum):
    DECODER = "decoder"
    ENCODER_ONLY = "encoder_only"


class AttentionCGSupport(enum.Enum):
    ALWAYS = 3
    NEVER = 0


class AttentionMetadata:
    pass


class AttentionBackendEnum(enum.Enum):
    CUSTOM = None

    def get_class(self):
        module, name = _registered[self].rsplit(".", 1)
        return getattr(__import__(module, fromlist=[name]), name)


_registered = {}


def register_backend(backend, class_path=None, is_mamba=False):
    _registered[backend] = class_path


def _backend(asked, has_layout):
    class Backend(abc.ABC):
        supported_kv_cache_dtypes = ["auto", "float16", "bfloat16"]
        forward_includes_kv_cache_update = True

        @classmethod
        def supports(cls, name):
            return getattr(cls, f"supports_{name}", lambda: False)()

        @classmethod
        def validate_configuration(cls, *, device_capability, **given):
            assert set(given) <= set(asked), f"nobody asks {set(given) - set(asked)}"
            dtype = str(given["dtype"]).removeprefix("torch.")
            sizes = cls.get_supported_kernel_block_sizes()
            holds = {
                "head_size": cls.supports_head_size(given["head_size"]),
                "dtype": dtype in ("float16", "bfloat16"),
                "kv_cache_dtype": given["kv_cache_dtype"] in (None, *cls.supported_kv_cache_dtypes),
                "block_size": any(given["block_size"] % size == 0 for size in sizes),
                "compute capability": cls.supports_compute_capability(device_capability),
                "attention type": given["attn_type"] == "decoder"}
            holds.update({name: not given.get(flag) or cls.supports(name) for flag, name in (
                ("use_mla", "mla"), ("has_sink", "sink"), ("use_sparse", "sparse"),
                ("use_mm_prefix", "mm_prefix"), ("use_non_causal", "non_causal"),
                ("use_per_head_quant_scales", "per_head_quant_scales"),
                ("use_batch_invariant", "batch_invariance"), ("use_pcp", "pcp"), ("use_dcp", "dcp"),
                ("has_sliding_window", "sliding_window"), ("use_rswa", "rswa"))})
            return [f"{name} not supported" for name, right in holds.items() if not right]

    needed = ["get_name", "get_impl_cls", "get_builder_cls"]
    for name in needed + ["get_kv_cache_shape"] * has_layout:
        setattr(Backend, name, staticmethod(abc.abstractmethod(lambda: None)))
    return abc.update_abstractmethods(Backend)


class AttentionMetadataBuilder(abc.ABC):
    _cudagraph_support = AttentionCGSupport.NEVER
    supports_update_block_table = False

    @abc.abstractmethod
    def __init__(self, kv_cache_spec, layer_names, vllm_config, device):
        self.kv_cache_spec, self.layer_names = kv_cache_spec, layer_names
        self.vllm_config, self.device = vllm_config, device

    @abc.abstractmethod
    def build(self, common_prefix_len, common_attn_metadata, fast_build=False):
        pass


class AttentionImpl(abc.ABC):
    @abc.abstractmethod
    def __init__(self, num_heads, head_size, scale, num_kv_heads=None, alibi_slopes=None,
                 sliding_window=None, kv_cache_dtype="auto", logits_soft_cap=None,
                 attn_type=AttentionType.DECODER, kv_sharing_target_layer_name=None):
        pass

    @abc.abstractmethod
    def forward(self, layer, query, key, value, kv_cache, attn_metadata, output, output_scale=None,
                output_block_scale=None):
        pass


@dataclasses.dataclass
class CommonAttentionMetadata:
    query_start_loc: typing.Any
    query_start_loc_cpu: typing.Any
    seq_lens: typing.Any
    num_reqs: int
    num_actual_tokens: int
    max_query_len: int
    max_seq_len: int
    block_table_tensor: typing.Any
    slot_mapping: typing.Any
    causal: typing.Any = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class FullAttentionSpec:
    block_size: int
    num_kv_heads: int
    head_size: int
    dtype: typing.Any


op_registry_oot = {}


class UnquantizedLinearMethod:
    pass


class ReplicatedLinear:
    def __new__(cls, *arguments, **options):
        return super().__new__(op_registry_oot.get(cls.__name__, cls))

    def __init__(self, input_size, output_size, params_dtype=None, *, disable_tp=False):
        self.params_dtype = params_dtype
        self.quant_method = UnquantizedLinearMethod()

    @classmethod
    def register_oot(cls, layer, name=None):
        op_registry_oot[name or cls.__name__] = layer


class PlatformEnum(enum.Enum):
    CUDA = 0


class CutlassFP8ScaledMMLinearKernel(abc.ABC):
    def apply_scaled_mm(self, *, A, B, out_dtype, As, Bs, bias, output_shape):
        return "padded"


class CutlassFp8BlockScaledMMKernel(abc.ABC):
    def apply_block_scaled_mm(self, A, B, As, Bs):
        pass


class ColumnParallelLinear(ReplicatedLinear):
    pass


class MergedColumnParallelLinear(ColumnParallelLinear):
    pass


class QKVParallelLinear(ColumnParallelLinear):
    pass


class RowParallelLinear(ReplicatedLinear):
    pass


def modules(version):
    """By name, for sys.modules."""
    asked, has_layout = VERSIONS[version]
    config = typing.NamedTuple("AttentionSelectorConfig", [(name, typing.Any) for name in asked])
    config.__new__.__defaults__ = (False,) * (len(asked) - _ASKED.index("use_mla"))
    here = {name: value for name, value in vars(sys.modules[__name__]).items()
            if not name.startswith("_")}
    contents = {
        "vllm": {"__version__": version}, "vllm._custom_ops": {"reshape_and_cache_flash": None, "cutlass_scaled_mm": None},
        "vllm.distributed": {}, "vllm.distributed.parallel_state": {"get_tp_group": None},
        "vllm.model_executor": {}, "vllm.model_executor.layers": {}, "vllm.model_executor.kernels": {},
        "vllm.model_executor.kernels.linear": {
            **here, "_POSSIBLE_FP8_KERNELS": {PlatformEnum.CUDA: []},
            "_POSSIBLE_FP8_BLOCK_KERNELS": {PlatformEnum.CUDA: []}},
        "vllm.model_executor.layers.linear": here, "vllm.model_executor.custom_op": here,
        "vllm.platforms": {}, "vllm.platforms.interface": here, "vllm.v1": {}, "vllm.v1.attention": {},
        "vllm.v1.attention.backend": {**here, "AttentionBackend": _backend(asked, has_layout)},
        "vllm.v1.attention.selector": {"AttentionSelectorConfig": config},
        "vllm.v1.attention.backends": {}, "vllm.v1.attention.backends.registry": here,
        "vllm.v1.kv_cache_interface": here}
    if has_layout:
        contents["vllm.v1.attention.backends.utils"] = {"get_kv_cache_layout": lambda: "HND"}
    found = {}
    for name, content in contents.items():
        found[name] = types.ModuleType(name)
        found[name].__path__ = []
        vars(found[name]).update(content)
        parent, _, own = name.rpartition(".")
        if parent:
            setattr(found[parent], own, found[name])
    return found
