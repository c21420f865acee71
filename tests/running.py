"""The command line as a person meets it: in this process where that suffices, in a child where it does not."""

import contextlib
import io
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from forked import Forked

QUICK = ("--epochs", "1", "--measure.no-speed", "--measure.bootstrap", "200")
BLOCKS = ("--blocks.length", "16")
WORDS = (*QUICK, *BLOCKS, "--batch-size", "16", "--learning-rate", "5e-3", "--train.threads", "1")  # on running text
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "COLUMNS": "200", "TERM": "xterm"}


class Said(NamedTuple):
    code: int
    out: str
    err: str


class Started(NamedTuple):
    """A Python process that has ended."""

    pid: int
    environment: dict[str, str]
    imported: list[str]  # modules it held at its end


TELL = """
import atexit, json, os, sys

def tell():
    said = [os.getpid(), dict(os.environ), sorted(name for name in sys.modules if "." not in name)]
    with open(os.path.join({folder!r}, str(os.getpid())), "w") as file:
        json.dump(said, file)

atexit.register(tell)
"""


def limbeck(*words: object, columns: int = 200) -> Said:
    """`limbeck …` in this process."""
    from limbeck.cli import main

    out, err, code = io.StringIO(), io.StringIO(), 0
    argv = ["limbeck", *map(str, words)]
    with (
        mock.patch.object(sys, "argv", argv),
        mock.patch.dict(os.environ, {"COLUMNS": str(columns)}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Said(code, out.getvalue(), err.getvalue())


def start(*words: object, env_path: Path | None = None, **how) -> subprocess.Popen:
    """`limbeck …` in a process and a session of its own; one that has another place to import from starts anew."""
    command = [sys.executable, "-m", "limbeck", *map(str, words)]
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | how
    if env_path is None:
        return Forked(command, env=ENVIRONMENT, **how)
    path = os.pathsep.join(filter(None, [str(env_path), ENVIRONMENT.get("PYTHONPATH", "")]))
    return subprocess.Popen(command, env=ENVIRONMENT | {"PYTHONPATH": path}, start_new_session=True, **how)


def start_at_terminal(*words: object) -> tuple[subprocess.Popen, Callable[[], str]]:
    """The same with a terminal of its own; the function tells what was on it, once the child has ended."""
    ours, theirs = pty.openpty()
    child = start(*words, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):  # how Linux says that the other end is closed
            while part := os.read(ours, 4096):
                seen.append(part)

    reader = threading.Thread(target=read)
    reader.start()

    def text() -> str:
        reader.join()
        os.close(ours)
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(seen).decode())

    return child, text


def finish(child: subprocess.Popen) -> Said:
    out, err = child.communicate(timeout=120)
    return Said(child.returncode, out, err)


def wait(child: subprocess.Popen, when: Callable[[], bool]) -> None:
    """Until `when` holds; the child must not have ended before."""
    limit = time.monotonic() + 120
    while not when():
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < limit, "the moment never came"
        time.sleep(0.005)


def stop(child: subprocess.Popen, when: Callable[[], bool], how: signal.Signals) -> Said:
    wait(child, when)
    child.send_signal(how)
    return finish(child)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
