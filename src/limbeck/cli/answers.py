"""Answers for people, as a table, and for programs, as lines. Imports nothing that a first answer would wait for."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limbeck_runtime.answers import Answer

    Answered = Iterator[tuple[tuple[str, ...], Answer]]  # a text, or two, with their answer

_TO_TRY = {"mask-fill": '"a [MASK] film"', "answer": '"a question" "a text with its answer"'}
_WHOLE_TEXTS = ("classify", "multilabel", "regress")


def answered_at_once(arguments: Sequence[str]) -> bool:
    """`limbeck predict EXPORT "a text"` without what models are trained with, if that is what is asked.

    Anything else, a mistake too, is left to the verb."""
    verb, folder, *texts = *arguments, "", ""
    texts = texts[: len(arguments) - 2]
    plain = all(one.strip() and not one.startswith("-") for one in arguments)
    if verb != "predict" or len(texts) not in (1, 2) or not plain:
        return False
    from limbeck_runtime import UnusableError, is_exported, load

    if not is_exported(folder):
        return False
    try:
        model = load(folder)
        if model.kind not in _WHOLE_TEXTS:
            return False
        answers = model.predict(texts[:1], texts[1:] or None)
    except UnusableError:
        return False
    show(iter([(tuple(texts), answers[0])]))
    return True


def try_line(folder: Path, kind: str) -> str:
    """What a person types to see a folder answer."""
    texts = _TO_TRY.get(kind, '"some text"')
    return f"limbeck predict {shlex.quote(str(folder))} {texts}"


def show(found: Answered) -> None:
    """A table for people, or a line for each text with tabs between the parts of its answer."""
    if sys.stdout.isatty():
        table(list(found))
        return
    from limbeck_runtime.answers import cell

    try:
        for _, answer in found:
            print(
                "\t".join(" ".join(cell(name, _rounded(value)).split()) for name, value in answer.items()), flush=True
            )
    except BrokenPipeError:  # whoever reads has had enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _rounded(value: object) -> object:
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def table(found: Sequence[tuple[tuple[str, ...], Answer]], title: str = "text") -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    shown = [(row, for_people(answer)) for row, answer in found]
    names = next((list(answer) for _, answer in shown if any(answer.values())), [])
    shown_rows = Table(title, *names, box=None, pad_edge=False, header_style="dim")
    for row, answer in shown:
        parts = (" " if "entities" in answer else " | ").join(row)
        shown_rows.add_row(*(escape(part) for part in (parts, *(answer.get(name, "") for name in names))))
    Console().print(shown_rows)


def for_people(answer: Answer) -> dict[str, str]:
    """An answer in few columns: a word or label stands beside its probability, and of tags only entities are shown."""
    if "entities" in answer:
        found: Any = answer["entities"] or []
        return {"entities": _listed([one["type"] for one in found], [one["text"] for one in found])}
    values = {name: value for name, value in answer.items() if not name.startswith("probability_")}
    sure: Any = values.pop("probabilities", None)
    shown = {name: _listed(value, sure) if sure is not None else _readable(value) for name, value in values.items()}
    each = {name.removeprefix("probability_"): value for name, value in answer.items() if name not in values}
    each.pop("probabilities", None)
    return shown | ({"every class": _listed(list(each), list(each.values()))} if each else {})


def _listed(names: Any, values: Any) -> str:
    """'film 0.31, plot 0.12'; of several masks, one list after the other."""
    if names and isinstance(names[0], list):
        return "; ".join(map(_listed, names, values))
    return ", ".join(f"{_readable(name)} {_readable(value)}" for name, value in zip(names, values, strict=True))


def _readable(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else "" if value is None else str(value)
