"""Sources without targets that join train, for the teacher to translate: which column of a file holds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from limbeck.data.settings import DataSettings, ParallelSettings
from limbeck.data.sources.new_rows import read_new
from limbeck.data.sources.parallel import Columns, sources_alone
from limbeck.data.sources.tables import Table
from limbeck.data.sources.unlabelled import read_unlabelled
from limbeck.data.splits import RowSelection
from limbeck.data.text.rows import TextRow
from limbeck.data.transfer import Key, Transfer, UnlabelledFile, select_new
from limbeck.data.uids import text_uid

_BARE = "1"  # the column of plain text, as of files without a header


def read_monolingual(
    settings: DataSettings, pairs: ParallelSettings, follow: Columns | None, known: Mapping[str, Sequence[Key]]
) -> Transfer[TextRow]:
    """The rows of every file of --unlabelled that are not `known`: where (dev, test, train) → (source, "") of rows.

    `follow` are the columns of the pairs, whose names count first."""
    return select_new(_files(settings, pairs, follow), settings, known, _uid, "source")


def _uid(key: Key) -> int:
    source, pair = key
    return text_uid(source, pair, 0, "")


def _files(
    settings: DataSettings, pairs: ParallelSettings, follow: Columns | None
) -> Iterator[UnlabelledFile[TextRow]]:
    for table in read_unlabelled(settings, _BARE, read_new):
        found = sources_alone(table, settings, pairs, follow)
        yield UnlabelledFile(_select(found.table), {"source": found.columns[0]}, found.notes)


def _select(table: Table) -> RowSelection[TextRow]:
    sources = table.columns["source"]
    rows = [TextRow.of(table, index, source) for index, source in enumerate(sources) if source]
    return RowSelection.of(table, rows, {"empty source": len(table) - len(rows)})
