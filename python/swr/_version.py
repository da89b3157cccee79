# SPDX-License-Identifier: MIT
"""The version, which is that of the whole project (CMakeLists.txt; a test compares them)."""

__version__ = "0.1.0"
