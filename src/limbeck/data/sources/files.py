"""One file becomes one Table, or one text: CSV, TSV, JSONL, Parquet, plain text, and gzip of these.

A name says the format; where it does not, the content does.
"""

from __future__ import annotations

import codecs
import difflib
import gzip
import json
import zlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from limbeck.core.errors import DataError
from limbeck.data.settings import DataSettings
from limbeck.data.sources import delimited
from limbeck.data.sources.tables import Table, from_arrow, from_records

SUFFIXES = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".json", ".parquet")
PLAIN = (".txt", ".text", ".raw", ".md")  # running text
HEAD = 2**20  # bytes that tell the format of a file, and the columns of a large one
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
_LEAST = 1024  # bytes that show what a file is
_BOMS = {  # UTF-32's first: it begins with UTF-16's
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def read_file(path: Path | str, settings: DataSettings) -> Table:
    path = Path(path).expanduser()
    if not path.exists():
        raise missing(path)
    data = unzipped(path)
    if not data:
        raise _empty(path)
    known = suffix_of(path) in SUFFIXES
    suffix = suffix_of(path) if known else sniff(data[:HEAD])
    if not suffix:
        raise DataError(
            f"{path} is of a kind that Limbeck does not read: neither its name nor its content says which",
            f"give one of {', '.join(SUFFIXES)}, or gzip of these",
        )
    notes = [] if known else [f"{path} is read as {suffix[1:].upper()}, by its content"]
    if suffix == ".parquet":
        return replace(_parquet(data, str(path)), notes=tuple(notes))
    text = decode(data, str(path), settings.encoding)
    if settings.encoding == "auto" and (encoding := _by_bom(data)):
        notes.append(f"{path} is read as {encoding.upper()}, by its byte order mark")
    if not text.strip():
        raise _empty(path)
    if suffix in (".csv", ".tsv", ".txt"):
        return replace(delimited.parse(text, suffix, str(path), settings), notes=tuple(notes))
    return replace(_json(text, str(path)), notes=tuple(notes))


def read_head(path: Path | str, settings: DataSettings) -> Table | None:
    """A small file whole; of a large one the columns and perhaps some rows. None where only reading all of it tells."""
    path = Path(path).expanduser()
    if not path.exists() or path.stat().st_size < HEAD:
        return read_file(path, settings)
    suffix = format_of(path)
    if suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        with suppress(pa.ArrowException, OSError, ValueError):  # read_file explains it
            return Table(str(path), {name: [] for name in pq.read_schema(path).names})
    elif suffix in (".csv", ".tsv", ".txt"):
        lines, _, _ = unzipped(path, HEAD).rpartition(b"\n")
        with suppress(DataError):  # the cut may go through a field in quotes
            return delimited.parse(decode(lines, str(path), settings.encoding), suffix, str(path), settings)
    return None


def _empty(path: Path) -> DataError:
    return DataError(f"{path} is empty", "give a file with a header and at least one row")


def format_of(path: Path) -> str:
    """The suffix that says the format: the file's own, or, where that says nothing, by its content; "" for none."""
    known = suffix_of(path) in SUFFIXES or not path.is_file()
    return suffix_of(path) if known else sniff(unzipped(path, HEAD))


def sniff(data: bytes) -> str:
    """The format of a file by how it begins: Parquet, JSON, TSV or CSV; "" for anything else."""
    if data.startswith(_PARQUET):
        return ".parquet"
    text = data.decode(_by_bom(data) or "utf-8-sig", errors="replace")
    if text.lstrip().startswith(("{", "[")):
        return ".json"
    return delimited.sniff(text)


def _by_bom(data: bytes) -> str:
    return next((name for bom, name in _BOMS.items() if data.startswith(bom)), "")


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
    if encoding == "auto":
        encoding = _by_bom(data) or encoding  # no guess
        _refuse_utf16(data, source, encoding)
    try:
        return data.decode("utf-8-sig" if encoding.lower() in ("auto", "utf-8", "utf8") else encoding)
    except LookupError:
        raise DataError(f"there is no encoding '{encoding}'", "try --data.encoding utf-8, cp1252 or utf-16") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        name = "UTF-8" if encoding == "auto" else encoding
        raise DataError(
            f"{source}, line {line}: the byte 0x{data[error.start]:02x} is not {name}",
            "if the whole file is Latin-1 or from Windows, pass --data.encoding cp1252; if only some lines are, mend "
            f"line {line}",
        ) from None


def _refuse_utf16(data: bytes, source: str, encoding: str) -> None:
    """UTF-16 without a byte order mark is valid UTF-8 with a zero beside every letter, and would be read as that."""
    head = data[:2000]
    for name, zeros in (("utf-16-le", head[1::2]), ("utf-16-be", head[::2])):
        if encoding == "auto" and len(zeros) > 1 and zeros.count(0) > 0.4 * len(zeros):
            raise DataError(f"{source} is UTF-16 without a byte order mark", f"pass --data.encoding {name}")


def unzipped(path: Path, size: int = -1) -> bytes:
    """The bytes of a file, or its first `size`."""
    try:
        with path.open("rb") as file:
            data = file.read(size if size < 0 else max(size, _LEAST))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}", "check its permissions") from None
    if not data.startswith(_GZIP):
        if path.name.lower().endswith(".gz") and data:
            raise DataError(f"{path} is named .gz but is not gzip", "rename it, or copy it again")
        return data if size < 0 else data[:size]
    try:
        return gzip.decompress(data) if size < 0 else zlib.decompressobj(31).decompress(data, size)
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
