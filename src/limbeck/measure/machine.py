"""The machine that the figures were measured on, and resident memory at its highest.

Linux counts into a child's ru_maxrss what its parent held when it started the child, so a small program started from
a big one looks big. VmHWM belongs to the program itself; and a small launcher stands between to measure others.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from limbeck.core.errors import LimbeckError

if TYPE_CHECKING:
    from limbeck.core.record import Machine

PACKAGES = (
    *("limbeck", "torch", "transformers", "tokenizers", "datasets", "accelerate", "safetensors", "numpy"),
    "onnxruntime",
)

# Starts argv as its own child, small as it is, and reports exit code and ru_maxrss as the last line of its stderr.
_LAUNCHER = """
import os, sys
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
sys.stderr.write(f"\\n{os.waitstatus_to_exitcode(status)} {usage.ru_maxrss}")
"""


def machine() -> Machine:
    from limbeck.core.record import Machine  # a process that times a model has no use for it

    return Machine(
        system=platform.platform(),
        processor=_processor(),
        cores=usable_cores(),
        memory_bytes=memory_bytes(),
        python=platform.python_version(),
        versions=_versions(),
    )


def usable_cores() -> int:
    """Physical cores this process may run on; two threads of one core count once."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    allowed = os.sched_getaffinity(0)
    cores = {
        (entry["physical id"], entry["core id"])
        for entry in _cpuinfo()
        if "core id" in entry and "physical id" in entry and int(entry["processor"]) in allowed
    }
    return len(cores) or len(allowed)


def threads_to_use() -> int:
    """As many as the person allows by OMP_NUM_THREADS, else one for each core."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # of nested levels, the outermost
    return int(first) if first.isdecimal() and int(first) else usable_cores()


def _processor() -> str:
    names = [entry["model name"] for entry in _cpuinfo() if "model name" in entry]
    return names[0] if names else platform.processor() or platform.machine()


def _cpuinfo() -> list[dict[str, str]]:
    """One entry per logical processor; nothing where there is no /proc."""
    file = Path("/proc/cpuinfo")
    blocks = file.read_text().strip().split("\n\n") if file.exists() else []
    entries = [
        {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in block.splitlines())}
        for block in blocks
    ]
    return [entry for entry in entries if "processor" in entry]


def memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def queued_seconds() -> float:
    """How long the threads of this process, all together, were ready to run while others had the cores.

    Linux counts it; elsewhere it is 0."""
    nanoseconds = 0
    for file in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(OSError):  # a thread that has just ended
            nanoseconds += int(file.read_text().split()[1])
    return nanoseconds / 1e9


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
    output, _, last = launched.stderr.rpartition("\n")
    code, _, maxrss = last.partition(" ")
    if launched.returncode or code != "0":
        tail = "\n".join(output.strip().splitlines()[-20:]) or f"it ended with code {code}"
        raise LimbeckError(f"{' '.join(argv)} failed:\n{tail}", "run it by itself to see what is wrong")
    return _bytes(int(maxrss))


def _bytes(maxrss: int) -> int:
    """ru_maxrss is in bytes on macOS and in KiB elsewhere."""
    return maxrss if sys.platform == "darwin" else maxrss * 1024
