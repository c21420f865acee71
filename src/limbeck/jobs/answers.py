"""A file of answers: the columns of the rows as they were, and beside them what was predicted."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path

from limbeck.core.errors import DataError, KnobError
from limbeck.core.files import atomic
from limbeck.data.sources.tables import Table, is_missing, unboxed
from limbeck_runtime import answers as light
from limbeck_runtime.answers import Answer

FORMATS = (".csv", ".tsv", ".jsonl", ".parquet")


def check_out(out: str, read: object) -> None:
    """Refuses a file that cannot be written, before anything is predicted."""
    path = Path(out).expanduser()
    if path.suffix.lower() not in FORMATS:
        raise KnobError(f"answers cannot be written as {path.name}", f"end the name in {', '.join(FORMATS)}")
    if path.is_dir():
        raise DataError(f"{path} is a folder", "name a file for the answers with --out")
    if isinstance(read, str | Path) and str(read) and path.resolve() == Path(read).expanduser().resolve():
        raise DataError(f"{path} is the file that is read", "name another file for the answers with --out")


def beside(table: Table, row: int, answer: Answer) -> dict[str, object]:
    """A row with its answer."""
    return light.beside({name: unboxed(values[row]) for name, values in table.columns.items()}, answer)


def write_answers(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Whole or not at all, row by row as they come."""
    suffix = path.suffix.lower()
    with atomic(path) as part:
        if suffix == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), part)
            return
        with part.open("w", encoding="utf-8", newline="") as file:
            if suffix == ".jsonl":
                file.writelines(light.as_json(row) + "\n" for row in rows)
                return
            writer = csv.writer(file, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n")
            for number, row in enumerate(rows):
                if not number:
                    writer.writerow(row)
                writer.writerow([cell(name, value) for name, value in row.items()])


def cell(name: str, value: object) -> str:
    """A value as one field of a delimited file."""
    return "" if is_missing(value) else light.cell(name, value)
