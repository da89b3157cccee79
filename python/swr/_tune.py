# SPDX-License-Identifier: MIT
"""Tuning, by the program swr-tune: it measures in processes of its own, so that a kernel that
faults does not take the caller's GPU context with it."""

import json
import os
import subprocess
from typing import Any, Optional, Sequence, Union

from . import _program
from ._library import Error


def tune(seq: int, *, heads: int = 1, kv_heads: Optional[int] = None, batch: int = 1,
         seq_kv: Optional[int] = None, head_dim: int = 64, dtype: str = "fp16",
         causal: bool = False, gpu: str = "auto",
         database: Union[str, "os.PathLike[str]", None] = None, arguments: Sequence[str] = (),
         program: Optional[str] = None) -> dict[str, Any]:
    """Tunes one problem and stores what was found; returns swr-tune's report as a dictionary.

    `arguments` are further options of swr-tune, such as ("--budget", "40"). `program` is its path;
    without one SWR_TUNE, the program of the wheel and then the search path are looked at.
    """
    command = [program or _program.program(), "--seq", str(seq), "--heads", str(heads), "--batch", str(batch),
               "--head-dim", str(head_dim), "--dtype", dtype, "--gpu", gpu, "--json", "--quiet"]
    command += ["--kv-heads", str(kv_heads)] if kv_heads else []
    command += ["--seq-kv", str(seq_kv)] if seq_kv else []
    command += ["--causal"] if causal else []
    command += ["--db", os.fspath(database)] if database else []
    done = subprocess.run(command + list(arguments), capture_output=True, text=True, check=False,
                          env=_program.environment())
    if done.returncode != 0:
        raise Error("tune_failed", done.stderr.strip() or f"swr-tune ended with {done.returncode}")
    return json.loads(done.stdout)
