"""A job that another process began ends with it, also when that one was killed and could say nothing."""

from __future__ import annotations

import os
import signal
import threading
import time

PARENT = "LIMBECK_PARENT"  # who waits for a job: its process id, in the job's environment
_EVERY = 1.0  # seconds from one look to the next


def end_with_parent() -> None:
    """Watches the parent that the environment names, if any; without it the job ends as by Ctrl-C."""
    parent = os.environ.pop(PARENT, "")  # which is not the parent of what the job starts itself
    if parent:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a job that a script put into the background
            signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Thread(target=_watch, args=(int(parent),), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_EVERY)
    os.kill(os.getpid(), signal.SIGINT)
