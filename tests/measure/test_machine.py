from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

import pytest
import torch

from limbeck.core.errors import LimbeckError
from limbeck.measure.machine import PACKAGES, machine, peak_of, peak_rss

MB = 1_000_000


def hold(megabytes: int) -> list[str]:
    return [sys.executable, "-S", "-c", f"x = bytearray({megabytes * MB}); del x"]


def test_the_machine_is_named() -> None:
    found = machine()
    assert found.python == platform.python_version()
    assert 1 <= found.cores <= (os.cpu_count() or 1)
    assert found.processor
    assert found.memory_bytes > 100 * MB
    assert set(found.versions) == set(PACKAGES)
    assert found.versions["torch"] == torch.__version__


def test_naming_the_machine_imports_nothing_heavy() -> None:
    code = (
        "import sys, json; from limbeck.measure import machine, speed, quality, predictions, size, fidelity;"
        "machine.machine(); print(json.dumps(sorted(sys.modules)))"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = json.loads(child.stdout)
    assert "limbeck.measure.size" in loaded
    assert not {"torch", "transformers", "datasets", "sklearn", "scipy"} & set(loaded)


def test_peak_of_a_command_is_its_own() -> None:
    """A child's ru_maxrss starts at what its parent holds; this parent holds more than the child ever does."""
    ballast = bytearray(b"\1") * (250 * MB)
    assert peak_rss() > len(ballast)
    small, big = peak_of(hold(1)), peak_of(hold(150))
    assert small < 60 * MB
    assert 140 * MB < big - small < 160 * MB


def test_peak_of_this_process_in_a_child_is_its_own() -> None:
    ballast = bytearray(b"\1") * (250 * MB)
    code = "from limbeck.measure.machine import peak_rss; print(peak_rss())"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 1 * MB < int(child.stdout) < len(ballast)


def test_a_command_that_fails_is_heard() -> None:
    with pytest.raises(LimbeckError, match="it went wrong"):
        peak_of([sys.executable, "-S", "-c", "raise SystemExit('it went wrong')"])
    with pytest.raises(LimbeckError, match="no-such-program"):
        peak_of(["no-such-program"])
