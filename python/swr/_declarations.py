# SPDX-License-Identifier: MIT
"""What the headers of the C interface declare (swr/swr_c.h and those beside it), for ctypes: they say
each structure and function once, for C and for this package."""

import ctypes
import pathlib
import re
from ctypes import POINTER, c_char_p, c_void_p
from typing import Any

_HEADERS = ("swr_c.h", "swr_backward_c.h", "swr_serving_c.h", "swr_kernel_c.h")
_SCALARS = {"int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64,
            "float": ctypes.c_float, "double": ctypes.c_double, "char": ctypes.c_char}
_RESULTS = {"void": None, "const char*": c_char_p, "swr_status": ctypes.c_int, "int32_t": ctypes.c_int32}

_STRUCTURE = re.compile(r"typedef struct (\w+) \{(.*?)\} \1;", re.DOTALL)
_ENUMERATION = re.compile(r"enum (\w*) ?\{(.*?)\}", re.DOTALL)
_ENUMERATOR = re.compile(r"(SWR_\w+) = (\d+)")
_FUNCTION = re.compile(r"^([\w ]+\*?) ?(swr_\w+)\(([^()]*)\);", re.MULTILINE)
_DECLARATOR = re.compile(r"(const )?(\w+)(\**) (\w+)(?:\[(\d+)\])?$")


def _text() -> str:
    """The headers of the clone that this package lies in, or those that a wheel carries."""
    here = pathlib.Path(__file__).resolve().parent
    of_clone = here.parent.parent / "include" / "swr"
    folder = of_clone if (of_clone / _HEADERS[0]).exists() else here / "include"
    text = "".join((folder / name).read_text(encoding="utf-8") for name in _HEADERS)
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def _declarations(text: str, separator: str) -> list[tuple[str, ...]]:
    """const or nothing, type, stars, name and length, of each member or parameter."""
    parts = (" ".join(part.split()) for part in text.split(separator))
    return [_DECLARATOR.match(part).groups() for part in parts if part not in ("", "void")]


class Declarations:
    """By their names in C: structures, values of enumerators, of all and by enumeration, and results and
    parameters of functions."""

    def __init__(self, text: str) -> None:
        self.enumerations = {name: {each: int(value) for each, value in _ENUMERATOR.findall(values)}
                             for name, values in _ENUMERATION.findall(text)}
        self.enumerators = {each: int(value) for each, value in _ENUMERATOR.findall(text)}
        self.structures: dict[str, Any] = {}
        for name, members in _STRUCTURE.findall(text):
            fields = [(member, self._member(kind, stars, length))
                      for _, kind, stars, member, length in _declarations(members, ";")]
            self.structures[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
        self.functions = {name: (result.strip(), _declarations(parameters, ","))
                          for result, name, parameters in _FUNCTION.findall(text)}

    def _member(self, kind, stars, length):
        if stars:
            return c_char_p if kind == "char" else c_void_p
        plain = _SCALARS.get(kind) or self.structures[kind]
        return plain * int(length) if length else plain

    def _parameter(self, const, kind, stars):
        if not stars:
            return _SCALARS[kind]
        if stars == "**":
            return POINTER(c_void_p)
        if kind in self.structures:
            return POINTER(self.structures[kind])
        if kind == "char":
            return c_char_p
        return POINTER(_SCALARS[kind]) if kind in _SCALARS and not const else c_void_p

    def declare(self, function: Any, name: str, takes_addresses: bool) -> bool:
        """Says to ctypes what the function takes and gives, pointers as plain addresses where it
        `takes_addresses`. True where it gives a status."""
        result, parameters = self.functions[name]
        function.restype = _RESULTS[result]
        function.argtypes = [c_void_p if stars and takes_addresses else
                             self._parameter(const, kind, stars)
                             for const, kind, stars, _, _ in parameters]
        return result == "swr_status"


declared = Declarations(_text())
