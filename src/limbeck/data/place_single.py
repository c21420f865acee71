"""One table of sentences or questions, all of it to be measured on: nothing is cut, and a model's tags are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from limbeck.core.errors import DataError
from limbeck.core.progress import Silent, Watcher
from limbeck.core.record import DataCard
from limbeck.core.task import ENDS, TaskInfo, WindowKind
from limbeck.data.place_corpus import (
    PlaceCorpus,
    Places,
    encode_places,
    is_nullable,
    parts_of,
    settled_tags,
    split_card,
    tell_places,
    texts_of,
)
from limbeck.data.place_sources import gather_places
from limbeck.data.place_split import Part
from limbeck.data.settings import DataSettings
from limbeck.data.sources import Splits
from limbeck.data.window_settings import WindowSettings

_CHOICE = ("test", "dev", "train")  # of a source with several splits, the first that has labels


def load_single_places(
    settings: DataSettings,
    places: WindowSettings,
    kind: WindowKind,
    tokenizer: Any,
    data: object | None = None,
    watcher: Watcher = Silent(),  # noqa: B008
    known_labels: Sequence[str] = (),
) -> PlaceCorpus:
    corpus = encode_places(read_single_places(settings, places, kind, data, known_labels), tokenizer, settings, places)
    tell_places(watcher, corpus)
    return corpus


def read_single_places(
    settings: DataSettings,
    places: WindowSettings,
    kind: WindowKind,
    data: object | None = None,
    known_labels: Sequence[str] = (),
) -> Places:
    """The rows of `settings.train` as the test split of a corpus whose other splits are empty."""
    given = gather_places(settings, places, kind, data)
    parts, columns, remarks = parts_of(given, settings, places, kind)
    name = next((name for name in _CHOICE if any(item.has_label for item in parts.get(name, Part((), "")).items)), "")
    if not name:
        raise DataError(
            f"{given.tables['train'].source} has no labels, so nothing can be measured on it",
            f"name the column with --windows.{'tag' if kind == 'tag' else 'answer'}-column",
        )
    table, part, notes, task = given.tables[name], parts[name], list[str](), TaskInfo(kind=kind, labels=ENDS)
    if kind == "tag":
        alone = Splits({"train": table})
        task, spelt, notes = settled_tags({"train": part}, alone, columns.get("tags", ""), settings, known_labels)
        part = spelt["train"]
    card = DataCard(
        source=table.source,
        columns=columns,
        read=len(table) + table.blank,
        dropped=dict(part.dropped),
        splits={"test": split_card(part, task)},
        notes=[*given.notes, *notes, *(f"{count:,} {what}" for what, count in (+remarks).items())],
    )
    return Places(task, {"train": Part((), ""), "dev": Part((), ""), "test": part}, card, is_nullable([part]))


def load_place_texts(settings: DataSettings, places: WindowSettings, kind: WindowKind) -> list[tuple[str, str]]:
    """(text, second text) of every row, labelled or not."""
    given = gather_places(settings, places, kind, None)
    return list(map(texts_of, parts_of(given, settings, places, kind)[0]["train"].items))
