"""One file becomes one Table, or one text: CSV, TSV, JSONL, Parquet, plain text, and gzip of these."""

from __future__ import annotations

import codecs
import difflib
import gzip
import json
import zlib
from pathlib import Path
from typing import Any

from limbeck.core.errors import DataError
from limbeck.data.settings import DataSettings
from limbeck.data.sources import delimited
from limbeck.data.sources.tables import Table, from_arrow, from_records

SUFFIXES = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".json", ".parquet")
PLAIN = (".txt", ".text", ".raw", ".md")  # running text
_GZIP = b"\x1f\x8b"


def read_file(path: Path | str, settings: DataSettings) -> Table:
    path = Path(path).expanduser()
    if not path.exists():
        raise missing(path)
    suffix = suffix_of(path)
    if suffix not in SUFFIXES:
        raise DataError(
            f"{path} is of a kind that Limbeck does not read", f"give one of {', '.join(SUFFIXES)}, or gzip of these"
        )
    data = unzipped(path)
    if not data:
        raise DataError(f"{path} is empty", "give a file with a header and at least one row")
    if suffix == ".parquet":
        return _parquet(data, str(path))
    text = decode(data, str(path), settings.encoding)
    if not text.strip():
        raise DataError(f"{path} is empty", "give a file with a header and at least one row")
    if suffix in (".csv", ".tsv", ".txt"):
        return delimited.parse(text, suffix, str(path), settings)
    return _json(text, str(path))


def read_text(path: Path, settings: DataSettings) -> str:
    """A file whose lines end in line feeds. In a file that has them, a lone carriage return is a space."""
    text = file_text(path, settings).replace("\r\n", "\n")
    return text.replace("\r", " " if "\n" in text else "\n")


def file_text(path: Path, settings: DataSettings) -> str:
    """All of a file as it stands there, unzipped and decoded."""
    if not path.exists():
        raise missing(path)
    return decode(unzipped(path), str(path), settings.encoding)


def suffix_of(path: Path) -> str:
    """The suffix that says the format: of `train.tsv.gz`, `.tsv`."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def missing(path: Path) -> DataError:
    """A file that is not there, with the nearest name that is."""
    folder = path.parent
    if not folder.is_dir():
        return DataError(f"there is no file {path}", f"the folder {folder} does not exist either; check the path")
    close = difflib.get_close_matches(path.name, [entry.name for entry in folder.iterdir()], n=1)
    hint = f"did you mean {folder / close[0]}?" if close else f"check the path; looked in {folder.resolve()}"
    return DataError(f"there is no file {path}", hint)


def decode(data: bytes, source: str, encoding: str) -> str:
    """Text in one stated encoding. A guess would silently turn a wrong byte into a wrong letter."""
    if encoding == "auto" and data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"  # by its BOM: no guess
    try:
        return data.decode("utf-8-sig" if encoding.lower() in ("auto", "utf-8", "utf8") else encoding)
    except LookupError:
        raise DataError(f"there is no encoding '{encoding}'", "try --data.encoding utf-8, cp1252 or utf-16") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        name = "UTF-8" if encoding == "auto" else encoding
        raise DataError(
            f"{source}, line {line}: the byte 0x{data[error.start]:02x} is not {name}",
            f"if the whole file is from Windows, pass --data.encoding cp1252; if only some lines are, mend line {line}",
        ) from None


def unzipped(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}", "check its permissions") from None
    if not data.startswith(_GZIP):
        if path.name.lower().endswith(".gz") and data:
            raise DataError(f"{path} is named .gz but is not gzip", "rename it, or copy it again")
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(f"{path} is a damaged or cut-off gzip file ({error})", "copy or download it again") from None


def _parquet(data: bytes, source: str) -> Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return from_arrow(pq.read_table(pa.BufferReader(data)), source)
    except (pa.ArrowException, OSError, ValueError) as error:  # of text that is not UTF-8, a ValueError
        reason = str(error).splitlines()[0]
        raise DataError(f"{source} is a damaged or cut-off Parquet file ({reason})", "copy or write it again") from None


def _json(text: str, source: str) -> Table:
    """One object per line, or one list of objects."""
    if text.lstrip().startswith("["):
        rows = _loads(text, source, 1)
        return from_records(rows, source)
    found = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    return from_records([_loads(line, source, n) for n, line in found], source, [n for n, _ in found])


def _loads(text: str, source: str, line: int) -> Any:
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _object(pairs, source, line))
    except json.JSONDecodeError as error:
        raise DataError(
            f"{source}, line {line + error.lineno - 1} is not JSON: {error.msg} at column {error.colno}",
            "write one object per line, or one list of objects",
        ) from None
    except (RecursionError, ValueError) as error:  # ValueError: a number of thousands of digits
        what = (
            "lists or objects are nested too deeply" if isinstance(error, RecursionError) else str(error).split(";")[0]
        )
        raise DataError(f"{source}, from line {line} on: {what}", "mend or delete that row") from None


def _object(pairs: list[tuple[str, Any]], source: str, line: int) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        fields = ", ".join(name for name, _ in pairs)
        raise DataError(f"{source}, from line {line} on: an object names a field twice ({fields})", "keep one of them")
    return made
