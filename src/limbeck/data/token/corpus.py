"""Token classification: sentences read, split, their tags named, and cut into windows of tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from limbeck.core.errors import DataError
from limbeck.core.progress import Silent, Watcher
from limbeck.core.task import TaskInfo
from limbeck.data.match import match
from limbeck.data.settings import DataSettings, WindowSettings
from limbeck.data.sources.conll import SUFFIXES as CONLL
from limbeck.data.sources.conll import is_conll, read_conll
from limbeck.data.sources.files import SUFFIXES
from limbeck.data.sources.gather import Tables, gather
from limbeck.data.sources.squad import read_squad
from limbeck.data.sources.tables import Table
from limbeck.data.splits import RowSelection, divide, in_order, log_card, whole_as_test
from limbeck.data.token.sentences import (
    Sentence,
    alphabet,
    check_known,
    is_plain,
    scheme,
    select_sentences,
    tag_names,
)
from limbeck.data.token.windows import tag_windows
from limbeck.data.windows import WindowCorpus, WindowRows, build_rows, check_fast, encode_windows, limit_train

Parts = dict[str, RowSelection[Sentence]]


def read_sentences(
    settings: DataSettings,
    windows: WindowSettings,
    data: object | None = None,
    known: Sequence[str] = (),
    only_test: bool = False,
) -> WindowRows[Sentence]:
    """Sentences in train, dev and test. `known` are the tags of a model, in its order.

    With `only_test` the whole file is the test split, and train and dev are empty."""
    tables, given, columns = _select(settings, windows, data)
    table = tables.tables["train"]
    if only_test:
        chosen = whole_as_test(given, "name the column with --windows.tag-column")
        table = next(tables.tables[split] for split, part in given.items() if part is chosen["test"])
        given = chosen
    division = divide(given, settings, "sentence", tables.named)
    task, parts = _named_tags(division.parts, table, columns.get("tags", ""), settings, known)
    notes = [*tables.notes, *division.notes, _tag_note(parts["test" if only_test else "train"].rows, task)]
    division = limit_train(replace(division, parts=parts), settings.limit, notes)

    def per_class(rows: Sequence[Sentence]) -> dict[str, int]:
        counts = Counter(tag for row in rows for tag in row.tags)
        return {label: counts[label] for label in task.labels}

    return build_rows(division, task, columns, notes, "sentence", per_class=per_class)


def encode_sentences(
    found: WindowRows[Sentence],
    tokenizer: Any,
    settings: DataSettings,
    windows: WindowSettings,
    watcher: Watcher = Silent(),  # noqa: B008
) -> WindowCorpus:
    """Cuts into windows; logs what was chosen and what became of every row."""
    check_fast(tokenizer)
    length = min(settings.max_length, tokenizer.model_max_length)
    stride = max(min(windows.stride, length // 2 - tokenizer.num_special_tokens_to_add()), 0)
    rows, notes = encode_windows(
        found,
        length,
        lambda part, times: (tag_windows(part, times, tokenizer, found.task, length, stride), 0),
        "sentences hold no word the tokenizer sees",
    )
    card = found.card.but(notes=[*found.card.notes, *notes])
    log_card(watcher, card, str(found.task), unit="sentences")
    return WindowCorpus(**rows, card=card, task=found.task, rows=found)


def timing_sentences(settings: DataSettings, windows: WindowSettings) -> list[tuple[str, str]]:
    """Every sentence of a file, with tags or without."""
    return [row.texts for row in _select(settings, windows, None)[1]["train"].rows]


def _select(
    settings: DataSettings, windows: WindowSettings, data: object | None
) -> tuple[Tables, Parts, dict[str, str]]:
    def read(path: Path, settings: DataSettings) -> Table:
        return read_conll(path, settings, windows) if is_conll(path) else read_squad(path, settings)

    tables = gather(settings, data, read, {*SUFFIXES, *CONLL})
    found = {split: select_sentences(table, settings, windows) for split, table in in_order(tables.tables).items()}
    return tables, {split: part for split, (part, _) in found.items()}, next(columns for _, columns in found.values())


def _named_tags(
    parts: Parts, table: Table, column: str, settings: DataSettings, known: Sequence[str]
) -> tuple[TaskInfo, Parts]:
    """The task, and the sentences with their tags spelt as the task spells them."""
    first = next(part for part in parts.values() if len(part))
    names = tag_names(first.rows, table, column, settings) or tuple(known)
    if not names:
        raise DataError(
            f"{table.source}: no word has a tag, so the tags are unknown",
            "name the column with --windows.tag-column, or the tags with --data.classes",
        )
    task = TaskInfo(kind="tag", labels=names)
    spelt = {name: name for name in names}
    if known:
        rows = (row for part in parts.values() for row in part.rows)
        used = names if settings.classes else alphabet(rows) or tuple(known)
        task, ids = match(
            replace(task, labels=used), [str(name) for name in known], "the model", bool(settings.classes)
        )
        spelt = {name: task.labels[place] for name, place in zip(used, ids, strict=True)}
    for part in parts.values():
        check_known(part.rows, list(spelt), "--data.classes" if settings.classes else "train")
    return task, {
        split: replace(part, rows=[row.with_gold([spelt.get(tag, tag) for tag in row.tags]) for row in part.rows])
        for split, part in parts.items()
    }


def _tag_note(train: Sequence[Sentence], task: TaskInfo) -> str:
    if not is_plain(task.labels):
        return f"tags are {scheme((row.tags for row in train), task.labels)}: F1 is of whole entities"
    numbers = "; if they stand for names such as B-PER, list these with --data.classes"
    return f"tags are plain: F1 is of words{numbers if all(map(str.isdecimal, task.labels)) else ''}"
