# SPDX-License-Identifier: MIT
"""Tuning, by the program swr-tune: it measures in processes of its own, so that a kernel that
faults does not take the caller's GPU context with it."""

import json
import os
import subprocess
import sys
from typing import Any, Optional, Sequence, Union

from . import _program
from ._library import Error


Path = Union[str, "os.PathLike[str]", None]


def tune(seq: int, *, seq_kv: Optional[int] = None, heads: int = 1, kv_heads: Optional[int] = None, batch: int = 1,
         head_dim: int = 64, dtype: str = "fp16", causal: bool = False, gpu: str = "auto", database: Path = None,
         progress: Optional[bool] = None, arguments: Sequence[str] = (),
         program: Optional[str] = None) -> dict[str, Any]:
    """Tunes one attention problem and stores what was found; returns swr-tune's report as a dictionary.

    Names and defaults are those of the command line. `progress` shows swr-tune's on standard error; by default
    where that is a terminal. `arguments` are further options of swr-tune, such as ("--budget", "40"). `program`
    is its path; without one SWR_TUNE, the program of the wheel and then the search path are looked at.
    """
    problem = ["--seq", seq, "--seq-kv", seq_kv, "--heads", heads, "--kv-heads", kv_heads, "--batch", batch,
               "--head-dim", head_dim, "--dtype", dtype, "--causal", causal]
    return _run(problem, gpu, database, progress, arguments, program)


def tune_gemm(m: int, n: int, k: int, *, batch: int = 1, dtype: str = "fp16", output: Optional[str] = None,
              layout: str = "nt", reads_c: bool = False, gpu: str = "auto", database: Path = None,
              progress: Optional[bool] = None, arguments: Sequence[str] = (),
              program: Optional[str] = None) -> dict[str, Any]:
    """The same of one GEMM. Scales, a bias and the like are options among `arguments`."""
    problem = ["--op", "gemm", "--m", m, "--n", n, "--k", k, "--batch", batch, "--dtype", dtype, "--output", output,
               "--layout", layout, "--reads-c", reads_c]
    return _run(problem, gpu, database, progress, arguments, program)


def tune_missed(database: "os.PathLike[str]", options: list[str], progress: Optional[bool],
                program: Optional[str]) -> None:
    """Tunes the questions noted beside a database. Raises Error."""
    shows = sys.stderr.isatty() if progress is None else progress
    command = [program or _program.program(), "tune", "--missed", "--db", os.fspath(database), "--json"]
    _output(command + ([] if shows else ["--quiet"]) + options, shows)


def _output(command: list[str], shows: bool) -> str:
    """What a run prints; its progress goes to standard error where it `shows`. Raises Error."""
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, env=_program.environment(),
                          stderr=None if shows else subprocess.PIPE, encoding="utf-8", errors="replace")
    if done.returncode != 0:
        raise Error("tune_failed", (done.stderr or "").strip() or f"swr-tune ended with {done.returncode}")
    return done.stdout


def _run(problem: list[Any], gpu: str, database: Path, progress: Optional[bool], arguments: Sequence[str],
         program: Optional[str]) -> dict[str, Any]:
    """`problem` is a list of options and values; of None and False they are left out."""
    shows = sys.stderr.isatty() if progress is None else progress
    command = [program or _program.program(), "--gpu", gpu, "--json", *([] if shows else ["--quiet"])]
    for option, value in zip(problem[::2], problem[1::2]):
        if value is True:
            command.append(option)
        elif value not in (None, False):
            command += [option, str(value)]
    command += ["--db", os.fspath(database)] if database else []
    return json.loads(_output(command + list(arguments), shows))
