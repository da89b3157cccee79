# SPDX-License-Identifier: MIT
"""The version of the whole project, which CMakeLists.txt alone states: in a clone it is read there,
in an installed package from the package's metadata, which the build took from there. A folder that was copied
has neither, and works all the same."""

import importlib.metadata
import pathlib
import re


def _version() -> str:
    source = pathlib.Path(__file__).resolve().parents[2] / "CMakeLists.txt"
    if source.exists():
        stated = re.search(r"project\(swr VERSION ([\d.]+)", source.read_text(encoding="utf-8"))
        if stated:
            return stated.group(1)
    try:
        return importlib.metadata.version("swr")
    except importlib.metadata.PackageNotFoundError:
        return "0+unknown"


__version__ = _version()
