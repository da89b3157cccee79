# SPDX-License-Identifier: MIT
"""Kernels of your own: a spec from Python, tuned by swr-tune, launched by libswr.so (docs/kernels.md).

    @swr.kernel(source="blur.cu", parameters={"block_size_x": [64, 128, 256]}, block="block_size_x",
                grid="div_ceil(n, block_size_x)")
    def blur(out=swr.array("float32", "n", output=True), source=swr.array("float32", "n"),
             n=swr.size(1_000_000)):
        "The mean of each element and its neighbours"

    blur.tune(n=[100_000, 1_000_000])
    blur(y, x, n)                # CUDA tensors, on the current stream
"""

import ctypes
import dataclasses
import hashlib
import inspect
import json
import os
import pathlib
import struct
import subprocess
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, Union

from . import _program
from ._library import (Device, Error, RawKernelAnswer, RawKernelArgument, RuntimeOptions, encoded,
                       library)

# C++'s names of NumPy's and PyTorch's types, and how Python packs a scalar.
_TYPES = {"float32": ("float", "f"), "float64": ("double", "d"), "int8": ("signed char", "b"),
          "uint8": ("unsigned char", "B"), "bool": ("unsigned char", "B"), "int16": ("short", "h"),
          "uint16": ("unsigned short", "H"), "int32": ("int", "i"), "uint32": ("unsigned int", "I"),
          "int64": ("long long", "q"), "uint64": ("unsigned long long", "Q"),
          "float16": ("half", "e")}
_DTYPES = {cpp: dtype for dtype, (cpp, _) in _TYPES.items() if dtype != "bool"}
_DTYPES.update({"unsigned": "uint32", "__half": "float16", "__nv_bfloat16": "bfloat16", "complex64": "complex64",
                "complex128": "complex128", "__nv_fp8_e4m3": "float8_e4m3fn", "__nv_fp8_e5m2": "float8_e5m2"})

Expression = Union[str, int, float]
Expressions = Union[Expression, Sequence[Expression]]


def _cpp_type(dtype: Any) -> str:
    """"float" of "float32", numpy.float32, torch.float32 or "float"; others, such as "float4", stay."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    name = name.removeprefix("torch.")
    of_cuda = {"bfloat16": "__nv_bfloat16", "float8_e4m3fn": "__nv_fp8_e4m3", "float8_e5m2": "__nv_fp8_e5m2"}
    return _TYPES[name][0] if name in _TYPES else of_cuda.get(name, name)


@dataclasses.dataclass(frozen=True)
class Argument:
    """A parameter of a kernel; array(), texture(), scalar() and size() make it."""

    type: str
    size: Optional[str] = None      #: Elements of a vector: an expression.
    value: Optional[Expression] = None
    usual: Optional[int] = None     #: Of a size.
    more: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def array(dtype: Any, size: Any, *, output: bool = False, constant: bool = False,
          fill: Optional[str] = None, **more: Any) -> Argument:
    """A vector. `size` is an expression, a number, or a shape; `fill` and what else belongs to it are
    those of spec files: fill="random", low=-1, high=1."""
    shape = size if isinstance(size, (tuple, list)) else (size,)
    text = " * ".join(f"({part})" if isinstance(part, str) and len(shape) > 1 else str(part) for part in shape)
    keys = dict(more, **({"output": True} if output else {}), **({"constant": True} if constant else {}))
    keys["fill"] = fill or ("zeros" if output else "random")
    cpp = _cpp_type(dtype)
    return Argument(cpp if constant else (cpp + "*" if output else f"const {cpp}*"), size=text, more=keys)


def texture(dtype: Any, extent: Expressions, *, address: str = "clamp", filter: str = "nearest",
            coordinates: str = "elements", read: str = "elements", fill: str = "random", **more: Any) -> Argument:
    """A texture over elements of a type: width, and height and depth where it has them. Calls pass a
    texture object (cudaTextureObject_t) as a number."""
    described = {"extent": _listed(extent), "address": address, "filter": filter, "coordinates": coordinates,
                 "read": read}
    return Argument(_cpp_type(dtype), more={**more, "texture": described, "fill": fill})


def scalar(dtype: Any, value: Expression) -> Argument:
    """A scalar; `value`, an expression, is what it has while tuning."""
    return Argument(_cpp_type(dtype), value=value)


def size(usual: int, dtype: Any = "int32") -> Argument:
    """A scalar that is a size of the problem: what results are stored and looked up by."""
    return Argument(_cpp_type(dtype), usual=usual)


def _listed(value: Expressions) -> Any:
    return list(value) if isinstance(value, (tuple, list)) else value


class Kernel:
    """A kernel with its spec. Immutable; calls from several threads are safe."""

    def __init__(self, spec: dict[str, Any], files: Mapping[str, str]) -> None:
        self.spec = {key: _plain(value, key) for key, value in spec.items()}
        self._files = dict(files)
        self._handle: Optional[ctypes.c_void_p] = None
        self._path: Optional[pathlib.Path] = None
        self.__doc__ = spec.get("summary")

    @property
    def name(self) -> str:
        return self.spec["name"]

    @property
    def sizes(self) -> list[str]:
        """Names of the problem's sizes, in their order."""
        return [name for name, usual in self.spec["problem"].items() if usual < 2**31]

    def write(self, folder: Union[str, "os.PathLike[str]"]) -> pathlib.Path:
        """Writes the spec and its sources to a folder; returns the spec's path, for swr-tune and for
        swr_tune_kernel() of CMake."""
        where = pathlib.Path(folder)
        where.mkdir(parents=True, exist_ok=True)
        for name, text in self._files.items():
            (where / name).parent.mkdir(parents=True, exist_ok=True)
            _replace(where / name, text)
        _replace(where / f"{self.name}.json", json.dumps(self.spec, indent=2) + "\n")
        return where / f"{self.name}.json"

    @property
    def path(self) -> pathlib.Path:
        """The spec's file, in the user's cache, by a digest of all that it says."""
        if self._path is None:
            text = json.dumps([self.spec, self._files], sort_keys=True)
            cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "swr"
            # The kernels' cache too, which swr-tune refuses where a group may write to it.
            cache.mkdir(mode=0o755, parents=True, exist_ok=True)
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            self._path = self.write(cache / "python" / f"{self.name}-{digest}")
        return self._path

    def run(self, *arguments: str, program: Optional[str] = None) -> dict[str, Any]:
        """What `swr-tune kernel SPEC ARGUMENTS --json` prints. Raises Error."""
        command = [program or _program.program(), "kernel", str(self.path), *arguments, "--json", "--quiet"]
        done = subprocess.run(command, capture_output=True, check=False, env=_program.environment(),
                              encoding="utf-8", errors="replace")
        if done.returncode != 0:
            raise Error("tune_failed", done.stderr.strip() or f"swr-tune ended with {done.returncode}")
        return json.loads(done.stdout)

    def space(self, gpu: str = "auto", **sizes: Union[int, Iterable[int]]) -> dict[str, Any]:
        """How many variants there are, and what drops others; needs no GPU where one is named."""
        return self.run("--enumerate", "--gpu", gpu, *self._asked(sizes))

    def tune(self, *, gpu: str = "auto", database: Union[str, "os.PathLike[str]", None] = None,
             budget: Optional[int] = None, seconds: Optional[float] = None, objective: Optional[str] = None,
             arguments: Sequence[str] = (), **sizes: Union[int, Iterable[int]]) -> dict[str, Any]:
        """Tunes the kernel for the sizes, or the usual ones, and stores what was found. `objective` goes
        before the spec's."""
        options = ["--gpu", gpu, *self._asked(sizes)]
        options += ["--db", os.fspath(database)] if database else []
        options += ["--budget", str(budget)] if budget else []
        options += ["--time", str(seconds)] if seconds else []
        options += ["--objective", objective] if objective else []
        return self.run(*options, *arguments)

    def best(self, device: Device, *, database: Union[str, "os.PathLike[str]", None] = None,
             **sizes: int) -> "KernelAnswer":
        """Which variant a database knows to be best on a device, which need not be present."""
        values, count = self._sizes(sizes)
        answer, runtime = RawKernelAnswer(), ctypes.c_void_p()
        options = RuntimeOptions(encoded(database), None, None, None, 1, b"warm")
        library.swr_runtime_create(options, runtime)
        try:
            library.swr_runtime_best_kernel(runtime, self._known(), values, count, device, answer)
        finally:
            library.swr_runtime_destroy(runtime)
        return KernelAnswer(answer.variant.decode(), library.swr_match_text(answer.match).decode(),
                            bool(answer.on_same_device), answer.distance,
                            None if answer.time_us < 0 else answer.time_us)

    def __call__(self, *arguments: Any, **sizes: int) -> None:
        """Launches on the current stream of the first tensor's GPU: tensors, anything with a
        `data_ptr()` or a `__cuda_array_interface__`, and Python's numbers. Sizes are those of the
        scalars of their names; others are keywords. Raises Error."""
        from . import _torch
        packed, memory, index = self.packed(arguments)
        given = {name: int(value) for name, value in zip(self._names(), arguments)
                 if name in self.spec["problem"]}
        values, count = self._sizes({**given, **sizes})
        _torch.launch(library.swr_runtime_launch_kernel, index or 0, self._known(), values, count,
                      ctypes.cast(packed, ctypes.c_void_p), len(arguments), memory)

    def packed(self, arguments: Sequence[Any]) -> tuple[Any, Optional[int], Optional[int]]:
        """The arguments as the C interface takes them, an address of device memory among them, and
        the number of its GPU. Raises Error for what does not fit the spec."""
        expected = self.spec["arguments"]
        if len(arguments) != len(expected):
            raise Error("invalid_argument", f"{self.name} takes {len(expected)} arguments "
                        f"({', '.join(self._names())}), and {len(arguments)} are given")
        packed = (RawKernelArgument * len(arguments))()
        packed.kept = []  # What the arguments point to lives as long as they do.
        memory = index = None
        for place, (given, asked) in enumerate(zip(arguments, expected)):
            if "size" in asked:
                address = _address(given, asked)
                memory = memory or address
                index = _device_index(given) if index is None else index
                raw = struct.pack("P", address)
            elif "texture" in asked:
                raw = _scalar(given, {**asked, "type": "unsigned long long"})
            else:
                raw = _scalar(given, asked)
            kept = ctypes.create_string_buffer(raw, len(raw))
            packed[place].bytes = ctypes.cast(kept, ctypes.c_void_p)
            packed[place].size = len(raw)
            packed.kept.append(kept)
        return packed, memory, index

    def _names(self) -> list[str]:
        return [argument["name"] for argument in self.spec["arguments"]]

    def _asked(self, sizes: Mapping[str, Union[int, Iterable[int]]]) -> list[str]:
        options = []
        for name, values in sizes.items():
            plain = _plain(values, name)
            texts = [str(value) for value in (plain if isinstance(plain, list) else [plain])]
            options += ["--arg", f"{name}={','.join(texts)}"]
        return options

    def _sizes(self, sizes: Mapping[str, int]) -> tuple[Any, int]:
        for name, usual in self.spec["problem"].items():
            if usual >= 2**31 and sizes.get(name, usual) != usual:
                raise Error("invalid_argument", f"{name} is {usual} for all problems, not {sizes[name]}")
        unknown = set(sizes) - set(self.spec["problem"])
        if unknown:
            raise Error("invalid_argument", f"{self.name} has no size {sorted(unknown)[0]!r}; its sizes are "
                        f"{', '.join(self.sizes) or 'none'}")
        values = [int(sizes.get(name, self.spec["problem"][name])) for name in self.sizes]
        for name, value in zip(self.sizes, values):
            if not 1 <= value < 2**31:
                raise Error("invalid_argument", f"{name} must be 1 to 2147483647, not {value}")
        return (ctypes.c_int32 * len(values))(*values), len(values)

    def _known(self) -> ctypes.c_void_p:
        if self._handle is None:
            handle = ctypes.c_void_p()
            library.swr_kernel_register(os.fsencode(self.path), handle)
            self._handle = handle
        return self._handle


@dataclasses.dataclass(frozen=True)
class KernelAnswer:
    """Which variant of a kernel runs, and what to expect of it."""

    variant: str
    match: str
    on_same_device: bool
    distance: float
    time_us: Optional[float]


def _replace(path: pathlib.Path, text: str) -> None:
    """Whole or not at all: another process may be writing the same."""
    data = text.encode("utf-8", "surrogateescape")  # Sources may have bytes of another encoding.
    if path.exists() and path.read_bytes() == data:
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(data)
    beside.replace(path)


def _base(asked: Mapping[str, Any]) -> str:
    return asked["type"].replace("const ", "").replace("*", "").strip()


def _address(given: Any, asked: Mapping[str, Any]) -> int:
    """Of a vector on the GPU. Raises Error where type, place or contiguity are wrong."""
    name = asked["name"]
    if hasattr(given, "data_ptr"):
        if not given.is_cuda:
            raise Error("invalid_argument", f"{name} must be a CUDA tensor, and is on {given.device}")
        if not given.is_contiguous():
            raise Error("invalid_argument", f"{name} must be contiguous")
        address, dtype = given.data_ptr(), str(given.dtype).removeprefix("torch.")
    elif hasattr(given, "__cuda_array_interface__"):
        described = given.__cuda_array_interface__
        if described.get("strides") is not None:
            raise Error("invalid_argument", f"{name} must be contiguous")
        address = described["data"][0]
        dtype = {"f": "float", "i": "int", "u": "uint", "b": "bool", "c": "complex"}.get(described["typestr"][1], "?")
        dtype += "" if dtype == "bool" else str(8 * int(described["typestr"][2:]))
    else:
        raise Error("invalid_argument", f"{name} must be an array on the GPU, not {type(given).__name__}")
    wanted = _DTYPES.get(_base(asked))
    if wanted is not None and dtype not in (wanted, "bool" if wanted == "uint8" else wanted):
        raise Error("invalid_argument", f"{name} must have elements of {wanted}, not {dtype}")
    return address


def _device_index(given: Any) -> int:
    device = getattr(given, "device", None)
    index = getattr(device, "index", None)
    return index if isinstance(index, int) else getattr(device, "id", 0)


def _scalar(given: Any, asked: Mapping[str, Any]) -> bytes:
    dtype = _DTYPES.get(_base(asked))
    if dtype not in _TYPES:
        raise Error("invalid_argument", f"{asked['name']} is a {asked['type']}, which Python cannot pass")
    try:
        code = _TYPES[dtype][1]
        return struct.pack(code, float(given) if code in "efd" else int(given))
    except (struct.error, TypeError, ValueError) as error:
        raise Error("invalid_argument", f"{asked['name']} must be a number that {asked['type']} holds, "
                    f"not {given!r}") from error


def _text_of(source: Union[str, "os.PathLike[str]"], beside: pathlib.Path, usual: str) -> tuple[str, str]:
    """Name and text of a source: of the file that is named, or the text itself."""
    if isinstance(source, str) and "\n" in source:
        return usual, source
    if not isinstance(source, (str, os.PathLike)):
        raise Error("invalid_argument", f"source must be a path or a text, not {type(source).__name__}")
    path = beside / source
    try:
        return path.name, path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise Error("not_found", f"{path} cannot be read: {error.strerror}") from error


def _plain(value: Any, where: str) -> Any:
    """What a spec can hold of a value; raises Error that names the place."""
    if isinstance(value, dict):
        return {str(key): _plain(one, f"{where}[{key!r}]") for key, one in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [_plain(one, f"{where}[{place}]") for place, one in enumerate(value)]
    if callable(getattr(value, "tolist", None)):  # NumPy's numbers and arrays.
        return _plain(value.tolist(), where)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if value - value == 0:
            return value
        raise Error("invalid_argument", f"{where} is {value}, and must be a finite number")
    why = ("functions cannot be in a spec: write the expression as text, \"block_size_x > 64\""
           if callable(value) else "sets have no order: give a list" if isinstance(value, (set, frozenset))
           else f"it must be text, a number, true or false, or a list of these, not {type(value).__name__}; "
                "list(...) makes one of a generator")
    raise Error("invalid_argument", f"{where}: {why}")


def _described(name: str, argument: Argument) -> dict[str, Any]:
    described: dict[str, Any] = {"name": name, "type": argument.type}
    if argument.size is not None:
        described["size"] = argument.size
    elif "texture" not in argument.more:
        described["value"] = name if argument.usual is not None else argument.value
    return {**described, **argument.more}


def kernel(source: Union[str, "os.PathLike[str]"], *, parameters: Mapping[str, Any], block: Expressions,
           grid: Expressions, entry: Optional[str] = None, constraints: Union[str, Sequence[str]] = (),
           problem: Optional[Mapping[str, int]] = None, reference: Optional[Mapping[str, Any]] = None,
           headers: Sequence[Union[str, "os.PathLike[str]"]] = (), objective: Optional[str] = None,
           objective_higher_is_better: bool = False, **more: Any) -> Callable[..., Kernel]:
    """A decorator that makes a kernel of a function whose parameters describe the kernel's: their
    defaults are array(), texture(), scalar() and size(). The function's body is not run.

    `source` is a file beside the caller, or the text itself where it has more than a line. Values of
    `parameters` are lists, ranges, or what spec files have; expressions are text. `reference` is as
    in spec files, and its `source` a file or a text as well. `objective` is what tuning looks for:
    "time", "energy", "edp", or an expression over metrics (docs/energy.md), which is to be small, or
    large with `objective_higher_is_better`. What else spec files have is a keyword: shared_bytes,
    tolerance, options, flops, bytes, defines, deadline_s.
    """
    caller = pathlib.Path(inspect.stack()[1].filename)
    beside = caller.parent if caller.exists() else pathlib.Path.cwd()
    for word, value in (("reference", reference), ("problem", problem)):
        if not isinstance(value, (Mapping, type(None))):
            raise Error("invalid_argument", f"{word} must be a dict, as spec files have it, not {type(value).__name__}")

    def made(function: Callable[..., Any]) -> Kernel:
        name = function.__name__
        described = {parameter: value.default for parameter, value in inspect.signature(function).parameters.items()}
        for parameter, argument in described.items():
            if not isinstance(argument, Argument):
                raise Error("invalid_argument", f"{name}: the default of {parameter} must be swr.array(), "
                            "swr.texture(), swr.scalar() or swr.size(), which says what the kernel takes")
        file, text = _text_of(source, beside, f"{name}.cu")
        files = {file: text}
        for header in [headers] if isinstance(headers, (str, os.PathLike)) else headers:
            files[os.fspath(header)] = _text_of(header, beside, "")[1]
        sizes = {parameter: argument.usual for parameter, argument in described.items()
                 if argument.usual is not None}
        spec: dict[str, Any] = {
            "swr_kernel": 1, "name": name, "summary": (inspect.getdoc(function) or "").split("\n")[0],
            "source": file, "entry": entry or name, "problem": {**sizes, **(problem or {})},
            "parameters": parameters,
            "constraints": [constraints] if isinstance(constraints, str) else _listed(constraints),
            "block": _listed(block), "grid": _listed(grid),
            "arguments": [_described(parameter, argument) for parameter, argument in described.items()], **more}
        if objective is not None:
            spec["objective"] = objective
        if objective_higher_is_better:
            spec["objective_higher_is_better"] = True
        if reference is not None:
            of_reference = dict(reference)
            if "source" in of_reference:
                other, other_text = _text_of(of_reference["source"], beside, f"{name}_reference.cu")
                other = other if other != file else f"reference_{other}"
                files[other], of_reference["source"] = other_text, other
            spec["reference"] = of_reference
        return Kernel(spec, files)

    return made
