# SPDX-License-Identifier: MIT
"""The version of the whole project, which CMakeLists.txt alone states: in a clone it is read there,
in an installed package from the package's metadata, which the build took from there."""

import importlib.metadata
import pathlib
import re


def _version() -> str:
    source = pathlib.Path(__file__).resolve().parents[2] / "CMakeLists.txt"
    if source.exists():
        stated = re.search(r"project\(swr VERSION ([\d.]+)", source.read_text(encoding="utf-8"))
        if stated:
            return stated.group(1)
    return importlib.metadata.version("swr")


__version__ = _version()
