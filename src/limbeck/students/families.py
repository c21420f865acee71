"""Architectures of Limbeck's own: a BiLSTM, and encoders whose layers share weights. Their model types say so."""

from __future__ import annotations

import json
from pathlib import Path

OURS = "limbeck-"  # what the model types of ours begin with
PREFIX = "limbeck-shared-"


def register() -> None:
    """From now on AutoModel….from_pretrained opens them like any other. Twice is as good as once."""
    from limbeck.students import bilstm_from, shared

    bilstm_from.register()
    shared.register()


def register_if_ours(folder: Path) -> None:
    """The same, only if the model in a folder needs it: it imports every architecture that can share."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # whoever opens it says what is wrong
        return
    if str(config.get("model_type", "")).startswith(OURS):
        register()
