"""SQuAD files: articles of paragraphs of questions, version 1.1 or 2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from limbeck.core.errors import DataError
from limbeck.data.settings import DataSettings
from limbeck.data.sources.files import file_text, format_of, read_file
from limbeck.data.sources.tables import Table

_SHAPE = "write it as SQuAD does: data → paragraphs → context, qas → question, answers → text, answer_start"


def read_squad(path: Path, settings: DataSettings) -> Table:
    """One row per question. A .json file that is not in SQuAD's layout is read as any table is."""
    if format_of(path) == ".json":
        try:
            found = json.loads(file_text(path, settings))
        except (ValueError, RecursionError):
            found = None  # one object per line, or an error that read_file explains
        if isinstance(found, dict) and "data" in found:
            return _table(found["data"], str(path))
    return read_file(path, settings)


def _table(articles: Any, source: str) -> Table:
    columns: dict[str, list[Any]] = {name: [] for name in ("id", "question", "context", "answers", "is_impossible")}
    for a, article in enumerate(_listed(articles, f"{source}: data")):
        where = f"{source}: data[{a}]"
        for p, paragraph in enumerate(_listed(_of(article, "paragraphs", where), f"{where}.paragraphs")):
            place = f"{where}.paragraphs[{p}]"
            context = _of(paragraph, "context", place)
            for q, entry in enumerate(_listed(_of(paragraph, "qas", place), f"{place}.qas")):
                columns["question"].append(_of(entry, "question", f"{place}.qas[{q}]"))
                columns["context"].append(context)
                columns["id"].append(entry.get("id"))
                columns["answers"].append(entry.get("answers"))
                columns["is_impossible"].append(entry.get("is_impossible", False))
    if not columns["question"]:
        raise DataError(f"{source} holds no question", _SHAPE)
    return Table(source, columns)


def _of(thing: Any, name: str, where: str) -> Any:
    if not isinstance(thing, dict) or name not in thing:
        raise DataError(f"{where} has no '{name}'", _SHAPE)
    return thing[name]


def _listed(thing: Any, where: str) -> list[Any]:
    if not isinstance(thing, list):
        raise DataError(f"{where} is a {type(thing).__name__}, not a list", _SHAPE)
    return thing
