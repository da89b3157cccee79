# SPDX-License-Identifier: MIT
"""Asking a database for the best stored variant."""

import ctypes
import dataclasses
import os
from typing import Union

from ._library import Device, GemmProblem, Problem, RawAnswer, RawGemmAnswer, encoded, library


@dataclasses.dataclass(frozen=True)
class Answer:
    """Which variant to run and what to expect of it; docs/runtime.md explains the members."""

    variant: str
    match: str
    on_same_device: bool
    distance: float
    time_us: float | None
    l2_misses: int | None
    result_id: int

    @property
    def shipped(self) -> bool:
        """True when what answers was measured where swr was made and came with it."""
        return self.result_id == 0 and self.match not in ("modelled", "default_only")

    @staticmethod
    def from_c(raw: Union[RawAnswer, RawGemmAnswer]) -> "Answer":
        return Answer(variant=raw.variant.decode(), match=library.swr_match_text(raw.match).decode(),
                      on_same_device=bool(raw.on_same_device), distance=raw.distance,
                      time_us=None if raw.time_us < 0 else raw.time_us,
                      l2_misses=None if raw.l2_misses < 0 else raw.l2_misses,
                      result_id=raw.result_id)


def present_device(ordinal: int = 0) -> Device:
    """A GPU of this machine."""
    device = Device()
    library.swr_present_device(ordinal, device)
    return device


def profiled_device(name: str) -> Device:
    """A GPU by the id of its built-in profile, such as "h200"; it need not be present."""
    device = Device()
    library.swr_profiled_device(name.encode(), device)
    return device


class Lookup:
    """The best stored variants of a database file; any number of threads may ask. Results that were
    timed on a warm L2 answer, or with l2="cold" those on a cold one. Below them those answer that
    come with swr, alone where no file is named."""

    def __init__(self, database: Union[str, "os.PathLike[str]", None] = None,
                 l2: str = "warm") -> None:
        self._handle = ctypes.c_void_p()
        library.swr_lookup_open(encoded(database), encoded(l2), self._handle)

    def best(self, problem: Union[Problem, GemmProblem], device: Device) -> Answer:
        """The variant for a Problem or a GemmProblem."""
        if isinstance(problem, GemmProblem):
            of_gemm = RawGemmAnswer()
            library.swr_lookup_best_gemm(self._handle, problem, device, of_gemm)
            return Answer.from_c(of_gemm)
        answer = RawAnswer()
        library.swr_lookup_best(self._handle, problem, device, answer)
        return Answer.from_c(answer)

    def refresh(self) -> bool:
        """Reads the file again when it has changed; True when it had."""
        changed = ctypes.c_int32()
        library.swr_lookup_refresh(self._handle, changed)
        return bool(changed.value)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        self._handle = None  # Called again, as finalizers may be, it closes nothing twice.
        if handle:
            library.swr_lookup_close(handle)
