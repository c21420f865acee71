"""Directions of translation, each with its teacher and texts, and the tags by which one student tells them apart."""

from __future__ import annotations

import re
from collections.abc import Mapping

from limbeck.core.errors import KnobError
from limbeck.core.knob import Settings, knob, table
from limbeck.core.task import SEQ2SEQ_KINDS

_LANGUAGE = r"[A-Za-z0-9_]+"


@table("directions", "several teachers of one student, by direction", SEQ2SEQ_KINDS, by_name=True)
class DirectionSettings(Settings):
    """One direction of several; in run files [directions.en-de]."""

    teacher: str = knob("", "the model that teaches this direction: a folder or a hub id")
    train: str = knob("", "its texts, as --data")
    target: str = knob("", "a file with the target of each line of them, as --target")
    dev: str = knob("", "as --data.dev")
    dev_target: str = knob("", "as --parallel.dev-target")
    test: str = knob("", "as --data.test")
    test_target: str = knob("", "as --parallel.test-target")
    repeat: int = knob(
        1, "how often its training rows are seen in an epoch: more than once for a small one", at_least=1
    )


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
