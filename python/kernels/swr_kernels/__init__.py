# SPDX-License-Identifier: MIT
"""The kernels that ship with swr. The package swr finds them by itself; for others `path()` says where
they are."""

import pathlib

__version__ = "0.2.0"


def path() -> str:
    """Of the archive, for swr_runtime_use_kernels() or SWR_KERNELS."""
    return str(pathlib.Path(__file__).with_name("swr-kernels.bin"))
