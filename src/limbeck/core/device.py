"""Which device models run on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from limbeck.core.errors import KnobError

if TYPE_CHECKING:
    import torch

DeviceName = Literal["auto", "cpu", "cuda", "mps"]


def find_device(name: DeviceName = "auto") -> torch.device:
    """The device of that name, for this process; `auto` is the accelerator, where there is one. Others are refused."""
    import torch

    here = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        kind = found.type if found else "cpu"
    elif here[name]:
        kind = name
    else:
        known = " or ".join(device for device, present in here.items() if present)
        raise KnobError(
            f"--device {name}: torch {torch.__version__} finds no {name} device on this machine",
            f"use --device {known}, or leave it out; a GPU needs its driver and a torch that was built for it",
        )
    return torch.device(kind, int(os.environ.get("LOCAL_RANK", 0))) if kind == "cuda" else torch.device(kind)
