# SPDX-License-Identifier: MIT
"""Builds the wheel: setuptools', after CMake has built what the wheel carries. A wheel says truly
where it runs: its tag follows from the libraries and the symbols that its programs need.

SWR_CMAKE_ARGS holds further arguments for CMake, separated by spaces."""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F401,F403 pylint: disable=wildcard-import

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
BUILD = ROOT / "build" / "wheel"
CARRIED = {"libswr.so.1": ("capi/libswr.so.1", HERE / "swr" / "libswr.so.1"),
           "swr-tune": ("tuner/cli/swr-tune", HERE / "swr" / "bin" / "swr-tune")}

# What every Linux of PEP 600 has; libstdc++ and libgcc are linked into the programs.
EVERYWHERE = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
              "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def _say(text):
    print(f"swr wheel: {text}", file=sys.stderr, flush=True)


def _run(*command):
    subprocess.run([str(part) for part in command], check=True, stdout=sys.stderr)


def _build_native():
    if not (ROOT / "CMakeLists.txt").exists():
        raise RuntimeError("the wheel is built from a clone of swr: pip wheel ./python")
    static = "-static-libstdc++ -static-libgcc"
    _say(f"building swr-tune and libswr.so in {BUILD} (some minutes the first time)")
    _run("cmake", "-S", ROOT, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
         "-DSWR_BUILD_TESTS=OFF", "-DSWR_BUILD_EXAMPLES=OFF", "-DSWR_JOIN_SOURCES=ON",
         "-DSWR_STATIC_DEPENDENCIES=ON",
         f"-DCMAKE_EXE_LINKER_FLAGS={static}", f"-DCMAKE_SHARED_LINKER_FLAGS={static}",
         *os.environ.get("SWR_CMAKE_ARGS", "").split())
    _run("cmake", "--build", BUILD, "--target", "swr-tune", "swr_c")
    for built, target in CARRIED.values():
        target.parent.mkdir(exist_ok=True)
        shutil.copy(BUILD / built, target)
        _run("strip", "--strip-unneeded", target)
    for header in (ROOT / "include" / "swr").glob("swr_*c.h"):
        (HERE / "swr" / "include").mkdir(exist_ok=True)
        shutil.copy(header, HERE / "swr" / "include")


def _needs(binary):
    """Libraries that a program asks the loader for, and the newest glibc that its symbols name."""
    text = subprocess.run(["readelf", "--dynamic", "--version-info", "--wide", str(binary)],
                          check=True, capture_output=True, text=True).stdout
    libraries = set(re.findall(r"\(NEEDED\).*\[(.*)\]", text))
    versions = [tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d+\.\d+)", text)]
    return libraries, max(versions, default=(2, 17))


def _platform_tag():
    """manylinux_2_N where that is true, else linux and the reason."""
    machine = platform.machine()
    newest = (2, 17)
    for _, binary in CARRIED.values():
        libraries, glibc = _needs(binary)
        foreign = sorted(libraries - EVERYWHERE)
        if foreign:
            _say(f"tag linux_{machine}: {binary.name} needs {', '.join(foreign)}, which not every "
                 "Linux has")
            return f"linux_{machine}"
        newest = max(newest, glibc)
    return f"manylinux_{newest[0]}_{newest[1]}_{machine}"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _build_native()
    tag = _platform_tag()
    with tempfile.TemporaryDirectory() as scratch:
        # setuptools sees Python files alone and says "any".
        name = build_meta.build_wheel(scratch, config_settings, metadata_directory)
        _run(sys.executable, "-m", "wheel", "tags", "--remove", "--python-tag", "py3",
             "--abi-tag", "none", "--platform-tag", tag, pathlib.Path(scratch) / name)
        (made,) = pathlib.Path(scratch).glob("*.whl")
        _mark_as_native(made)
        shutil.copy(made, wheel_directory)
    _say(f"wrote {made.name}")
    return made.name


def _mark_as_native(wheel):
    """Root-Is-Purelib must say that the files belong beside other compiled ones."""
    with tempfile.TemporaryDirectory() as scratch:
        _run(sys.executable, "-m", "wheel", "unpack", "--dest", scratch, wheel)
        (unpacked,) = pathlib.Path(scratch).iterdir()
        (about,) = unpacked.glob("*.dist-info/WHEEL")
        about.write_text(about.read_text().replace("Root-Is-Purelib: true",
                                                   "Root-Is-Purelib: false"))
        wheel.unlink()
        _run(sys.executable, "-m", "wheel", "pack", "--dest-dir", wheel.parent, unpacked)
