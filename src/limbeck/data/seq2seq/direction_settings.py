"""Directions of translation, each with its teacher and texts, and the tags by which one student tells them apart."""

from __future__ import annotations

import re
from collections.abc import Mapping

from limbeck.core.errors import KnobError
from limbeck.data.settings import DirectionSettings

_LANGUAGE = r"[A-Za-z0-9_]+"


def tag_of(language: str) -> str:
    """The token before a source that names the target language: <2de>."""
    if not re.fullmatch(_LANGUAGE, language):
        raise KnobError(f"a language cannot be called '{language}'", "use letters and digits, as in de or zh_Hant")
    return f"<2{language}>"


def prefix_of(language: str) -> str:
    return f"{tag_of(language)} "


def target_language(direction: str) -> str:
    """de of en-de."""
    if not re.fullmatch(f"{_LANGUAGE}-{_LANGUAGE}", direction):
        raise KnobError(
            f"a direction cannot be called '{direction}'", "name it by two languages and one dash, as in en-de"
        )
    return direction.rpartition("-")[2]


def check_directions(directions: Mapping[str, DirectionSettings]) -> None:
    """Refuses what can be refused before anything is opened."""
    for name, direction in directions.items():
        target_language(name)
        for knob_name in ("teacher", "train"):
            if not getattr(direction, knob_name):
                raise KnobError(
                    f"the direction {name} has no {knob_name}", f"give it as {knob_name} = … in [directions.{name}]"
                )
