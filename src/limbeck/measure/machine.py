"""The machine that the figures were measured on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from limbeck.core.record import Machine

PACKAGES = (
    "limbeck",
    "torch",
    "transformers",
    "tokenizers",
    "datasets",
    "accelerate",
    "safetensors",
    "numpy",
)


def machine() -> Machine:
    return Machine(
        system=platform.platform(),
        processor=_processor(),
        cores=usable_cores(),
        memory_bytes=_memory(),
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


def _memory() -> int:
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
