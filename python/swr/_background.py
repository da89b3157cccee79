# SPDX-License-Identifier: MIT
"""Tuning while a program serves: a child of low priority tunes what no measurement answered, and the
program then takes what it found. Needs neither PyTorch nor, with predictions, a GPU."""

import logging
import os
import pathlib
import signal
import subprocess
import threading
from typing import Callable, Optional, Sequence, Union

from . import _program

_log = logging.getLogger("swr")


def missed_file(database: Union[str, "os.PathLike[str]"]) -> pathlib.Path:
    """Where questions without an exact answer are noted: beside the database, as swr-tune has it."""
    return pathlib.Path(os.fspath(database) + ".missed")


class BackgroundTuning:
    """A thread that starts `swr-tune tune --missed` whenever a question was noted, one child at a time, and
    calls `swap` after each that stored something. A child works `seconds` at most, and rests `pause_s`
    afterwards. Failures are logged to the logger `swr` and end nothing."""

    def __init__(self, database: Union[str, "os.PathLike[str]"], swap: Callable[[], object], *,
                 seconds: float = 60.0, pause_s: float = 10.0, niceness: int = 19,
                 arguments: Sequence[str] = (), program: Optional[str] = None) -> None:
        self._missed = missed_file(database)
        self._command = ["nice", "-n", str(niceness), program or _program.program(), "tune", "--missed",
                         "--db", os.fspath(database), "--within", str(seconds), "--quiet", *arguments]
        self._swap = swap
        self._pause_s = pause_s
        self._child: Optional[subprocess.Popen[str]] = None
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="swr tuning", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the child, whose results so far are stored, and the thread."""
        with self._lock:
            self._stopped.set()
            if self._child is not None:
                self._child.send_signal(signal.SIGINT)
        if self._thread is not threading.current_thread():  # `swap` may end what called it.
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._pause_s):
            try:
                if self._missed.stat().st_size > 0:
                    self._tune()
            except FileNotFoundError:
                pass  # Nothing was missed so far.
            except Exception as error:  # pylint: disable=broad-except
                _log.warning("tuning in the background: %s", error)

    def _tune(self) -> None:
        with self._lock:
            if self._stopped.is_set():
                return
            self._child = subprocess.Popen(self._command, stdout=subprocess.DEVNULL,
                                           stderr=subprocess.PIPE, env=_program.environment(),
                                           encoding="utf-8", errors="replace")
        _, errors = self._child.communicate()
        with self._lock:
            code, self._child = self._child.returncode, None
        if code == 0:
            self._swap()
        elif not self._stopped.is_set():
            _log.warning("tuning in the background ended with %d: %s", code, errors.strip())
