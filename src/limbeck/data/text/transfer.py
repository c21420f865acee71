"""A transfer set of texts or pairs: which columns of an unlabelled file hold them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from limbeck.data.columns import LABELS, NO_LABELS, Roles, choose, plain
from limbeck.data.settings import DataSettings
from limbeck.data.sources.new_rows import read_new
from limbeck.data.sources.tables import Table
from limbeck.data.sources.unlabelled import read_unlabelled
from limbeck.data.text.rows import TextRow, select_texts
from limbeck.data.transfer import Key, Transfer, UnlabelledFile, passed_over, select_new
from limbeck.data.uids import text_uid


def read_transfer(
    settings: DataSettings, follow: Roles | None, known: Mapping[str, Sequence[Key]]
) -> Transfer[TextRow]:
    """The rows of every file of --unlabelled that are not `known`: where (dev, test, train) → (text, pair) of rows.

    `follow` are the columns of train, whose names count first."""
    return select_new(_files(settings, follow), settings, known, _uid)


def _uid(key: Key) -> int:
    text, pair = key
    return text_uid(text, pair, 0, "")


def _files(settings: DataSettings, follow: Roles | None) -> Iterator[UnlabelledFile[TextRow]]:
    for table in read_unlabelled(settings, follow.text if follow else "text", read_new):
        follow, ignored = _roles(table, settings, follow)
        part = select_texts(table, replace(follow, labels=()))
        notes = [*passed_over(table.source, ignored), *table.notes]
        yield UnlabelledFile(part, {"text": follow.text, "pair": follow.pair}, notes)


def _roles(table: Table, settings: DataSettings, follow: Roles | None) -> tuple[Roles, str]:
    """The columns of the texts: train's names, else known ones, else the only one; and a label column passed over."""
    pairs = bool(follow.pair if follow else settings.pair_column)
    if len(table.columns) == 1 and not pairs:
        return Roles(next(iter(table.columns))), ""
    named = settings.but(label_column=NO_LABELS)
    if follow is None and not {settings.text_column, settings.pair_column} - {""} <= set(table.columns):
        named = named.but(text_column="", pair_column="")
    roles = choose(table, named, follow=follow)
    labels = {*(follow.labels if follow else ()), *settings.label_column.split(",")}
    others = [name for name in table.columns if name not in (roles.text, roles.pair)]
    ignored = next((name for name in others if name in labels or plain(name) in LABELS), "")
    return replace(roles, labels=follow.labels if follow else ()), ignored
