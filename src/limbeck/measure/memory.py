"""Resident memory at its highest.

Linux counts into a child's ru_maxrss what its parent held when it started the child, so a small program started from
a big one looks big. VmHWM belongs to the program itself; and a small launcher stands between to measure others.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from limbeck.core.errors import LimbeckError

# Starts argv as its own child, small as it is, and reports exit code and ru_maxrss as the last line of its stderr.
_LAUNCHER = """
import os, sys
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
sys.stderr.write(f"\\n{os.waitstatus_to_exitcode(status)} {usage.ru_maxrss}")
"""


def peak_rss() -> int:
    """Bytes this process has held in memory at most."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource

    return _bytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def peak_of(argv: Sequence[str]) -> int:
    """Runs a command to its end and gives the bytes it held in memory at most; children of its own are not added."""
    launched = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _LAUNCHER, *argv], capture_output=True, text=True, errors="replace"
    )
    said, _, last = launched.stderr.rpartition("\n")
    code, _, maxrss = last.partition(" ")
    if launched.returncode or code != "0":
        tail = "\n".join(said.strip().splitlines()[-20:]) or f"it ended with code {code}"
        raise LimbeckError(f"{' '.join(argv)} failed:\n{tail}", "run it by itself to see what is wrong")
    return _bytes(int(maxrss))


def _bytes(maxrss: int) -> int:
    """ru_maxrss is in bytes on macOS and in KiB elsewhere."""
    return maxrss if sys.platform == "darwin" else maxrss * 1024
