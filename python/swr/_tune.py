# SPDX-License-Identifier: MIT
"""Tuning, by the program swr-tune: it measures in processes of its own, so that a kernel that
faults does not take the caller's GPU context with it."""

import json
import os
import shutil
import subprocess

from ._library import Error


def tune(seq, *, heads=1, kv_heads=None, batch=1, seq_kv=None, head_dim=64, dtype="fp16",
         causal=False, gpu="auto", database=None, arguments=(), program=None):
    """Tunes one problem and stores what was found; returns swr-tune's report as a dictionary.

    `arguments` are further options of swr-tune, such as ("--budget", "40"). `program` is its path;
    without one SWR_TUNE and then the search path are looked at.
    """
    program = program or os.environ.get("SWR_TUNE") or shutil.which("swr-tune")
    if not program:
        raise Error("not_found", "swr-tune was not found; put it on the PATH, or name it in SWR_TUNE")
    command = [program, "--seq", str(seq), "--heads", str(heads), "--batch", str(batch),
               "--head-dim", str(head_dim), "--dtype", dtype, "--gpu", gpu, "--json", "--quiet"]
    command += ["--kv-heads", str(kv_heads)] if kv_heads else []
    command += ["--seq-kv", str(seq_kv)] if seq_kv else []
    command += ["--causal"] if causal else []
    command += ["--db", os.fspath(database)] if database else []
    done = subprocess.run(command + list(arguments), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Error("tune_failed", done.stderr.strip() or f"swr-tune ended with {done.returncode}")
    return json.loads(done.stdout)
