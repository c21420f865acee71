"""Sources without targets that join train, for the teacher to translate.

What stands in dev or test is never learnt from: such sources are left out, as are those of train and repeats, and all
are counted for each file, as `text.transfer` does with texts without labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from limbeck.core.errors import DataError
from limbeck.core.record import SourceCard
from limbeck.data.columns import Roles
from limbeck.data.settings import DataSettings, ParallelSettings
from limbeck.data.sources.parallel import Columns, sources_alone
from limbeck.data.sources.tables import Table
from limbeck.data.sources.unlabelled import read_unlabelled
from limbeck.data.splits import RowSelection, draw
from limbeck.data.text.rows import TextRow
from limbeck.data.text.transfer import (
    UNLABELLED,
    Key,
    Transfer,
    _fates,
    _fresh,
    _uids,
    _with_limit,
    language_note,
)

_BARE = "1"  # the column of plain text, as of files without a header


def read_monolingual(
    settings: DataSettings, pairs: ParallelSettings, follow: Columns | None, known: Mapping[str, Sequence[Key]]
) -> Transfer:
    """The rows of every file of --unlabelled that are not `known`: where (dev, test, train) → (source, "") of rows.

    `follow` are the columns of the pairs, whose names count first."""
    taken = {f"also in {where}": _uids(keys) for where, keys in known.items()}
    seen = np.empty(0, dtype=np.int64)
    rows: list[TextRow] = []
    sources, notes = [], list[str]()
    for table in read_unlabelled(settings, [_BARE]):
        found = sources_alone(table, settings, pairs, follow)
        part = _select(found.table)
        uids = _uids(row.key for row in part.rows)
        fresh, dropped = _fresh(uids, {**taken, "repeated": seen}, part.dropped)
        seen = np.concatenate([seen, uids[fresh]])
        new = [part.rows[place] for place in np.flatnonzero(fresh).tolist()]
        rows += new
        notes += filter(None, [*found.notes, language_note(new, known.get("train", ()), table.source)])
        sources.append(
            SourceCard(source=table.source, gives=UNLABELLED, read=part.read, used=len(new), dropped=dropped)
        )
    if not rows:
        raise DataError(f"{settings.unlabelled}: no source of it is new ({_fates(sources)})", "give other texts")
    what = "unlabelled: {} of {} rows (--data.limit-unlabelled)"
    if drawn := draw(seen, settings.limit_unlabelled, notes, what):
        rows, sources = [rows[place] for place in drawn], _with_limit(sources, drawn)
    return Transfer(rows, sources, Roles(found.columns[0]), notes)


def _select(table: Table) -> RowSelection[TextRow]:
    sources = table.columns["source"]
    rows = [TextRow.of(table, index, source) for index, source in enumerate(sources) if source]
    return RowSelection.of(table, rows, {"empty source": len(table) - len(rows)})
