"""Parallel texts, sources and targets, split into train, dev and test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from limbeck.core.errors import DataError
from limbeck.core.progress import Silent, Watcher
from limbeck.core.record import SplitCard
from limbeck.data.seq2seq.monolingual import read_monolingual
from limbeck.data.settings import DataSettings, ParallelSettings
from limbeck.data.sources.parallel import ParallelTable, gather_pairs
from limbeck.data.sources.unlabelled import refuse_unlabelled
from limbeck.data.splits import (
    Division,
    RowSelection,
    Splits,
    card_columns,
    cut_missing,
    draw_split,
    in_order,
    log_card,
    measured_split,
    without_held_out,
)
from limbeck.data.text.rows import TextRow
from limbeck.data.transfer import Key, Transfer, with_sources
from limbeck.data.uids import source_uids


@dataclass(frozen=True)
class Parallel:
    sources: list[str]
    targets: list[str]  # "" where there is none
    uids: np.ndarray  # [n] int64: the same source has the same one wherever it stands

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def has_target(self) -> np.ndarray:
        """[n] bool."""
        return np.array([bool(target) for target in self.targets], dtype=bool)

    def take(self, indices: Sequence[int] | np.ndarray) -> Parallel:
        chosen = np.asarray(indices, dtype=np.int64)
        return Parallel([self.sources[i] for i in chosen], [self.targets[i] for i in chosen], self.uids[chosen])


ParallelCorpus = Splits[Parallel]


def read_parallel(
    settings: DataSettings,
    pairs: ParallelSettings,
    data: object = None,
    watcher: Watcher = Silent(),  # noqa: B008
    only_test: bool = False,
) -> ParallelCorpus:
    """Reads, checks and splits; logs what it chose and what became of every row.

    With `only_test` the whole file is the test split, and train and dev are empty."""
    if only_test:
        refuse_unlabelled(settings)
    tables, notes = gather_pairs(settings, pairs, data)
    tables = in_order(tables)
    given = {split: _select(found) for split, found in tables.items()}
    if only_test:
        split = measured_split(given, labelled=False)
        given, tables = {"test": given[split]}, {"test": tables[split]}
    follow = next((found.columns for found in tables.values()), None)
    added: Transfer[TextRow] | None = None
    if settings.unlabelled and "train" not in given:  # they stand for the whole of it
        added = read_monolingual(settings, pairs, follow, _keys(given, "test", "dev"))
        given = {"train": added.selection(), **given}
    division = _divide(given, settings)
    parts = dict(division.parts)
    for split, part in division.parts.items():
        if drawn := draw_split(split, source_uids([row.text for row in part.rows]), settings, notes):
            parts[split] = part.take(drawn)
    if settings.unlabelled and added is None:
        known = {**_keys(division.parts, "test", "dev"), **_keys(parts, "train")}
        added = read_monolingual(settings, pairs, follow, known)
        parts["train"] = replace(parts["train"], rows=[*parts["train"].rows, *added.rows])
    if added:  # of dev and test it tells what is measured on
        files = {split: given[split] if split == "train" else division.parts[split] for split in tables}
        division = replace(division, sources=with_sources(replace(division, given=files), added).sources)
    found = {split: _parallel(part, pairs.prefix) for split, part in parts.items()}
    card = division.card(
        card_columns(
            {split: dict(zip(("source", "target"), table.columns, strict=True)) for split, table in tables.items()}
        ),
        {
            split: SplitCard(source=parts[split].source, rows=len(part), labelled=int(part.has_target.sum()))
            for split, part in found.items()
        },
        "source",
        {split: part.sources for split, part in found.items()},
        notes=[*notes, *(added.notes if added else ())],
    )
    log_card(
        watcher,
        card,
        unlabelled="without a target, kept for the teacher to translate",
        repeated="with a source seen before",
    )
    return Splits(**found, card=card)


def _select(found: ParallelTable) -> RowSelection[TextRow]:
    """The rows that have a source. The label is the target; the source alone is hashed, so its translations stay
    together."""
    table = found.table
    pairs = enumerate(zip(table.columns["source"], table.columns["target"], strict=True))
    rows = [TextRow.of(table, index, source, label=target or None) for index, (source, target) in pairs if source]
    if not rows:
        raise DataError(f"{table.source}: no row has a text to translate", "give others, or choose other columns")
    return RowSelection.of(table, rows, {"empty source": len(table) - len(rows)})


def _divide(given: Mapping[str, RowSelection[TextRow]], settings: DataSettings) -> Division[TextRow]:
    """Cuts what is missing from the rows of train that have a target."""
    cut = cut_missing(given, settings, "text")
    whole = without_held_out(cut, [split for split in cut if split not in given])
    parts = {split: _with_target(split, part) for split, part in whole.items()}
    left_out = Counter(
        {
            "empty target": sum(len(whole[split]) - len(parts[split]) for split in parts),
            "no target, and its source is in dev or test": len(cut["train"]) - len(whole["train"]),
        }
    )
    return Division(parts, given, +left_out)


def _with_target(split: str, part: RowSelection[TextRow]) -> RowSelection[TextRow]:
    """Rows without a target are for the teacher to translate in train; in dev and test nothing is measured on them."""
    if split == "train" or not len(part):
        return part
    rows = [row for row in part.rows if row.has_label]
    bare = Counter({"empty target": len(part) - len(rows)})
    if not rows:
        raise DataError(
            f"{split} ({part.source}): no row has a target, so nothing can be measured on it",
            f"give a file that has them with --data.{split}",
        )
    return replace(part, rows=rows, dropped=part.dropped + bare)


def _keys(parts: Mapping[str, RowSelection[TextRow]], *splits: str) -> dict[str, Sequence[Key]]:
    return {split: [row.key for row in parts[split].rows] for split in splits if split in parts}


def _parallel(part: RowSelection[TextRow], prefix: str) -> Parallel:
    """The prefix is part of what a model reads, and so of a source's uid."""
    sources = [prefix + row.text for row in part.rows]
    return Parallel(sources, [str(row.label or "") for row in part.rows], source_uids(sources))
