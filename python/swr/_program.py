# SPDX-License-Identifier: MIT
"""Where swr-tune, NVIDIA's run-time compiler and the kernels that ship are: beside this package where a
wheel brought them, else wherever the system has them."""

import importlib.util
import os
import pathlib
import shutil
import sys
from typing import NoReturn, Optional

from ._library import Error

_BUNDLED = pathlib.Path(__file__).with_name("bin") / "swr-tune"


def _nvidia_libraries() -> list[pathlib.Path]:
    """Directories of libraries that NVIDIA's Python packages brought."""
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations or []) if spec else []
    # Packages of CUDA 13 share cu13/lib; older ones have a directory each.
    return [directory for root in roots
            for directory in sorted(pathlib.Path(root).glob("*/lib")) if directory.is_dir()]


def nvrtc() -> Optional[str]:
    """Path of NVIDIA's run-time compiler: SWR_NVRTC, else that of nvidia-cuda-nvrtc; None leaves the
    search to the program."""
    named = os.environ.get("SWR_NVRTC")
    if named:
        return named
    for directory in _nvidia_libraries():
        for name in ("libnvrtc.so.13", "libnvrtc.so.12"):
            if (directory / name).exists():
                return str(directory / name)
    return None


def kernels() -> Optional[str]:
    """Path of the archive of the package swr-kernels; None leaves the search to the library, which
    looks for what SWR_KERNELS names first."""
    if os.environ.get("SWR_KERNELS"):
        return None
    spec = importlib.util.find_spec("swr_kernels")
    for root in (spec.submodule_search_locations or []) if spec else []:
        if (file := pathlib.Path(root) / "swr-kernels.bin").exists():
            return str(file)
    return None


def program() -> str:
    """Path of swr-tune: SWR_TUNE, the one of this package, or the one on the PATH."""
    named = os.environ.get("SWR_TUNE")
    found = named or (str(_BUNDLED) if _BUNDLED.exists() else shutil.which("swr-tune"))
    if not found:
        raise Error("not_found", "swr-tune was not found; install the wheel, put swr-tune on the "
                    "PATH, or name it in SWR_TUNE")
    return found


def environment() -> dict[str, str]:
    """The environment in which swr-tune finds NVIDIA's libraries and the kernels that ship."""
    variables = dict(os.environ)
    compiler = nvrtc()
    if compiler:
        variables["SWR_NVRTC"] = compiler
    archive = kernels()
    if archive:
        variables["SWR_KERNELS"] = archive
    searched = [str(directory) for directory in _nvidia_libraries()]
    if searched:
        known = [part for part in [variables.get("LD_LIBRARY_PATH")] if part]
        variables["LD_LIBRARY_PATH"] = os.pathsep.join(known + searched)
    return variables


def main() -> NoReturn:
    """The command swr-tune of the wheel: the program itself, in this process."""
    if not _BUNDLED.exists():
        sys.exit("swr-tune: error: this installation has no swr-tune of its own; install the wheel, "
                 "or build the program with scripts/build")
    os.execve(_BUNDLED, [str(_BUNDLED), *sys.argv[1:]], environment())
