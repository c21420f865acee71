"""The files of token classification and extractive QA: those with labels, and those of --unlabelled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from limbeck.data.settings import DataSettings
from limbeck.data.sources.files import SUFFIXES
from limbeck.data.sources.gather import Reader, Tables, gather
from limbeck.data.sources.tables import Table
from limbeck.data.sources.unlabelled import held_out_tables, stands_alone
from limbeck.data.splits import SPLITS, Division, RowSelection, in_order
from limbeck.data.transfer import Key, Transfer, UnlabelledFile, select_new, with_sources
from limbeck.data.windows import WindowRow, limit_rows

R = TypeVar("R", bound=WindowRow)
Columns = Mapping[str, str]  # role → column


@dataclass(frozen=True)
class WindowFiles(Generic[R]):
    """How files of sentences or of questions are read."""

    settings: DataSettings
    unit: str  # what a row is called
    reader: Reader
    select: Callable[[Table], tuple[RowSelection[R], dict[str, str]]]  # the rows of a table, and its columns
    unlabelled: Callable[[Columns], Iterator[UnlabelledFile[R]]]  # those of --unlabelled; train's columns count first
    uid_of: Callable[[Key], int]  # rows of one uid are the same
    suffixes: Collection[str] = SUFFIXES

    def read(self, data: object | None) -> FoundRows[R]:
        alone = stands_alone(self.settings, data)
        if alone:
            source = held_out_tables(self.settings, self.reader)
        else:
            source = gather(self.settings, data, self.reader, self.suffixes)
        found = {split: self.select(table) for split, table in in_order(source.tables).items()}
        given = {split: part for split, (part, _) in found.items()}
        columns = next((columns for _, columns in found.values()), {})
        if not alone:
            return FoundRows(source, given, columns)
        transfer = self.new_rows(columns, given)
        source = replace(source, notes=(*source.notes, *transfer.notes))
        return FoundRows(source, {"train": transfer.selection(), **given}, {**columns, **transfer.columns}, transfer)

    def limit_and_join(self, found: FoundRows[R], whole: Division[R], notes: list[str]) -> Division[R]:
        """With the rows that limits leave of every split, and in train those of --unlabelled besides.

        A row of dev or test is not learnt from even where a limit leaves it out; one that is left out of train is."""
        limited = limit_rows(whole, self.settings, notes)
        if found.transfer:
            return with_sources(limited, found.transfer, alone=True)
        if not self.settings.unlabelled:
            return limited
        train = limited.parts["train"]
        added = self.new_rows(found.columns, {**whole.parts, "train": train})
        notes += added.notes
        parts = {**limited.parts, "train": replace(train, rows=[*train.rows, *added.rows])}
        return with_sources(replace(limited, parts=parts), added)

    def new_rows(self, columns: Columns, known: Mapping[str, RowSelection[R]]) -> Transfer[R]:
        """Those of --unlabelled that are not in the `known` splits."""
        keys = {split: [row.key for row in known[split].rows] for split in reversed(SPLITS) if split in known}
        return select_new(self.unlabelled(columns), self.settings, keys, self.uid_of, self.unit)


@dataclass(frozen=True)
class FoundRows(Generic[R]):
    """The rows of every file, before dev and test are cut."""

    source: Tables
    given: dict[str, RowSelection[R]]
    columns: dict[str, str]  # role → column
    transfer: Transfer[R] | None = None  # rows without labels that stand for the whole of train
