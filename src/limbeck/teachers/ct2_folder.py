"""What stands in a folder that was converted for CTranslate2 beside its weights: facts about them, and a tokenizer."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limbeck.core.errors import KnobError, ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FACTS = "limbeck.json"
_REMEDY = "convert the model's folder again"


def facts_of(folder: Path | str) -> dict[str, Any]:
    """Refuses a folder that another program made: nothing says with which tokens its model begins and ends."""
    facts = found_facts(folder)
    if facts is None:
        raise ModelError(f"{folder} was not converted here: it has no {FACTS}", _REMEDY)
    return facts


def found_facts(folder: Path | str) -> dict[str, Any] | None:
    """What `convert` wrote about the folder; None if it did not make it."""
    try:
        facts: dict[str, Any] = json.loads((Path(folder) / FACTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return facts


def read_tokenizer(folder: Path | str) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelError(f"the tokenizer in {folder} cannot be opened: {reason}", _REMEDY) from None


def import_engine() -> Any:
    try:
        return import_module("ctranslate2")
    except ImportError:
        raise KnobError("CTranslate2 is not installed", "pip install 'limbeck[translate]'") from None
