# SPDX-License-Identifier: MIT
"""Compiles and launches swr's Hopper GEMM kernels on PyTorch tensors, without the rest of swr."""

import concurrent.futures
import ctypes
import dataclasses
import hashlib
import os
import pathlib
import re
import subprocess

import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path("build_fp8")
DTYPES = {torch.float16: 0, torch.bfloat16: 1, torch.float8_e4m3fn: 2, torch.float8_e5m2: 3}
OUTPUTS = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2, torch.float8_e4m3fn: 3}
SMEM_LIMIT = 232448
NAMES = {
    "dtype": ("DType", "fp16 bf16 e4m3 e5m2"), "output": ("OutputType", "fp16 bf16 fp32 fp8"),
    "layout": ("GemmLayout", "nt nn tn"), "mainloop": ("GemmMainloop", "cooperative pingpong"),
    "persistence": ("Persistence", "grid persistent"), "k_order": ("Order", "cyclic sawtooth"),
    "scaling": ("Scaling", "none tensor row block"),
    "activation": ("Activation", "none gelu gelu_tanh silu"),
    "output_scaling": ("Scaling", "none tensor row block"),
    "groups": ("GemmGroups", "none offsets contiguous masked")}
FLAGS = ("reads_c", "split_k", "has_bias", "gated")


class Launch(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in (
        "dtype output layout reads_c tile_m tile_n tile_k stages mainloop consumers cluster_m "
        "cluster_n cluster_k persistence k_order split_k scaling promote_every has_bias activation "
        "gated output_scaling groups alignment_bytes raster raster_group swizzle_stride splits workers").split()]


class Strides(ctypes.Structure):
    _fields_ = [("batch", ctypes.c_longlong), ("row", ctypes.c_longlong)]


class Params(ctypes.Structure):
    _fields_ = ([(name, ctypes.c_void_p) for name in "abc"] +
                [(name, Strides) for name in ("a_strides", "b_strides", "c_strides")] +
                [(name, ctypes.c_int) for name in ("m", "n", "k", "batch")] +
                [("alpha", ctypes.c_float), ("beta", ctypes.c_float)] +
                [(name, ctypes.c_int) for name in (
                    "raster", "raster_group", "swizzle_stride", "splits")] +
                [(name, ctypes.c_void_p) for name in ("partials", "arrivals", "groups")])


class Extras(ctypes.Structure):
    _fields_ = [("a_scales", ctypes.c_void_p), ("b_scales", ctypes.c_void_p),
                ("a_scale_stride", ctypes.c_int), ("b_scale_stride", ctypes.c_int),
                ("bias", ctypes.c_void_p), ("addend", ctypes.c_void_p),
                ("c_scales", ctypes.c_void_p), ("c_scale_stride", ctypes.c_int)]


@dataclasses.dataclass(frozen=True)
class Config:
    """Members of HopperGemmConfig, in its order, and what is chosen at launch."""
    tile: tuple = (128, 128)
    dtype: str = "e4m3"
    output: str = "bf16"
    reads_c: bool = False
    tile_k: int = 128
    stages: int = 0  # 0: as many as fit; -1: one less, so that C has more room.
    mainloop: str = "cooperative"
    consumers: int = 2
    cluster: tuple = (1, 1, 1)
    persistence: str = "persistent"
    splits: int = 1
    scaling: str = "tensor"
    promote_every: int = 0
    has_bias: bool = False
    activation: str = "none"
    gated: bool = False
    output_scaling: str = "none"
    groups: str = "none"
    alignment: int = 16
    layout: str = "nt"
    raster: int = 1  # along_m
    raster_group: int = 1
    swizzle_stride: int = 0

    def launch(self):
        value = lambda name, spelling: NAMES[name][1].split().index(spelling)
        of = Launch(
            value("dtype", self.dtype), value("output", self.output), value("layout", self.layout), self.reads_c, *self.tile,
            self.tile_k, self.stages if self.stages > 0 else 12, value("mainloop", self.mainloop), self.consumers,
            *self.cluster, value("persistence", self.persistence), 0, self.splits > 1,
            value("scaling", self.scaling), self.promote_every, self.has_bias,
            value("activation", self.activation), self.gated,
            value("output_scaling", self.output_scaling), value("groups", self.groups), self.alignment,
            self.raster, self.raster_group,
            self.swizzle_stride, self.splits, 132)
        while self.stages <= 0 and library().smem_bytes(ctypes.byref(of)) > SMEM_LIMIT:
            of.stages -= 1
        of.stages += min(self.stages, 0)
        return of

    def header(self):
        launch = self.launch()
        fields = []
        for name, _ in Launch._fields_[:24]:
            number = getattr(launch, name)
            if name in NAMES:
                text = f"{NAMES[name][0]}::{NAMES[name][1].split()[number]}"
            else:
                text = ("true" if number else "false") if name in FLAGS else str(number)
            fields.append(f".{name} = {text}")
        return ('#pragma once\n#include "gemm/hopper/config.h"\nnamespace swr {\n'
                f"inline constexpr HopperGemmConfig kConfig{{{', '.join(fields)}}};\n}}\n")

    def __str__(self):
        return (f"{self.tile[0]}x{self.tile[1]} {self.mainloop[:4]} c{''.join(map(str, self.cluster))}"
                f" k{self.tile_k} s{self.launch().stages} r{self.raster}/{self.raster_group}"
                f" p{self.promote_every}" + (f" split{self.splits}" if self.splits > 1 else "") +
                (" grid" if self.persistence == "grid" else ""))


_library = None


def made(target, command):
    """Runs `command(file)`, whose file becomes `target` at once: another process may have loaded the last."""
    file = target.with_name(f"{os.getpid()}-{target.name}")
    subprocess.run(command(str(file)), check=True)
    file.replace(target)


def library():
    global _library
    if _library is None:
        (BUILD / "common").mkdir(parents=True, exist_ok=True)
        made(BUILD / "common/wgmma_widths.cuh", lambda out: [f"{ROOT}/scripts/write_wgmma", out])
        target = BUILD / "launcher.so"
        made(target, lambda out: [
            "g++", "-std=c++20", "-O2", "-shared", "-fPIC", f"-I{ROOT}", f"-I{ROOT}/include",
            f"-I{ROOT}/templates", "-I/usr/local/cuda/include",
            str(pathlib.Path(__file__).with_name("launcher.cpp")), "-o", out,
            "-L/usr/local/cuda/lib64/stubs", "-lcuda"])
        _library = ctypes.CDLL(str(target.resolve()))
        _library.load.restype = ctypes.c_void_p
        _library.load.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
        _library.launch.argtypes = [ctypes.c_void_p] * 5
        _library.workspace_bytes.restype = ctypes.c_longlong
    return _library


def compile_one(config):
    """The cubin and what is wrong with it ("" when nothing spills or serialises)."""
    header = config.header()
    folder = BUILD / hashlib.sha256(header.encode()).hexdigest()[:16]
    log_file = folder / "log"
    if log_file.exists():
        return judged(str(folder / "kernel.cubin"), log_file.read_text())
    folder.mkdir(exist_ok=True)
    (folder / "selected_hopper_gemm_config.h").write_text(header)
    cubin = folder / "kernel.cubin"
    done = subprocess.run(
        ["nvcc", "-std=c++20", "-gencode=arch=compute_90a,code=sm_90a", "-cubin", f"-I{folder}",
         f"-I{ROOT}/include", f"-I{ROOT}/templates", f"-I{BUILD}", "--resource-usage", "-o", str(cubin),
         f"{ROOT}/templates/gemm/hopper/gemm.cu"], capture_output=True, text=True)
    log = done.stdout + done.stderr
    if done.returncode:
        return None, log[-2000:]
    log_file.write_text(log)
    return judged(str(cubin), log)


def judged(cubin, log):
    spilled = sum(map(int, re.findall(r"(\d+) bytes spill stores", log)))
    serial = "serialized" if re.search(r"C75\d\d", log) else ""
    return cubin, (f"spills {spilled} " if spilled else "") + serial


class Kernels:
    """Compiled kernels by what is compiled into them."""

    def __init__(self):
        self.cubins = {}
        self.functions = {}

    @staticmethod
    def _key(config):
        return config.header()

    def compile(self, configs, jobs=16, keep_spilled=False):
        library()
        wanted = {self._key(config): config for config in configs}
        wanted = {key: config for key, config in wanted.items() if key not in self.cubins}
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for (key, config), (cubin, wrong) in zip(
                    wanted.items(), pool.map(compile_one, wanted.values())):
                if wrong:
                    print("left out" if cubin is None or not keep_spilled else "note", config, config.scaling, wrong, flush=True)
                self.cubins[key] = cubin if not wrong or keep_spilled else None

    def has(self, config):
        return self.cubins.get(self._key(config)) is not None

    def launcher(self, config, a, b, c, a_scales=None, b_scales=None, bias=None, addend=None,
                 c_scales=None, alpha=1.0, beta=0.0, a_scale_stride=0, b_scale_stride=0, groups=None):
        """A function that enqueues C = ... on the current stream. b is [groups, n, k] where the numbers
        `groups` tell whose rows are whose."""
        key = self._key(config)
        launch = config.launch()
        if key not in self.functions:
            self.functions[key] = library().load(self.cubins[key].encode(), ctypes.byref(launch))
            assert self.functions[key], f"{config} cannot be loaded"
        pointer = lambda tensor: None if tensor is None else tensor.data_ptr()
        strides = [Strides(t.stride(0) if t.dim() == 3 else 0, t.stride(-2)) for t in (a, b, c)]
        params = Params(a.data_ptr(), b.data_ptr(), c.data_ptr(), *strides, c.shape[-2], c.shape[-1],
                        a.shape[-2 if config.layout == "tn" else -1], b.shape[0] if b.dim() == 3 else 1, alpha, beta)
        params.groups = pointer(groups)
        extras = Extras(pointer(a_scales), pointer(b_scales), a_scale_stride, b_scale_stride,
                        pointer(bias), pointer(addend), pointer(c_scales),
                        c_scales.stride(0) if c_scales is not None and c_scales.dim() > 1 else 0)
        params.splits = config.splits
        kept = [a, b, c, a_scales, b_scales, bias, addend, c_scales, params, extras, launch,
                groups]
        needed = library().workspace_bytes(ctypes.byref(launch), ctypes.byref(params))
        if needed > 0:
            partials = torch.empty(needed, dtype=torch.uint8, device="cuda")
            arrivals = torch.zeros(1 << 16, dtype=torch.int32, device="cuda")
            params.partials, params.arrivals = partials.data_ptr(), arrivals.data_ptr()
            kept += [partials, arrivals]
        arguments = (self.functions[key], ctypes.addressof(launch), ctypes.addressof(params),
                     ctypes.addressof(extras))

        def run(_kept=kept):
            status = library().launch(*arguments, torch.cuda.current_stream().cuda_stream)
            if status:
                raise RuntimeError(f"{config}: status {status}")
        return run
