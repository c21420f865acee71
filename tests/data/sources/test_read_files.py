"""Every kind of file, and every kind of broken one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from limbeck.core.errors import DataError
from limbeck.data.settings import DataSettings
from limbeck.data.sources.files import read_file

PLAIN = DataSettings()
ROWS = [{"text": "a, b", "label": "x"}, {"text": 'say "c"', "label": "y"}]
CSV = 'text,label\n"a, b",x\n"say ""c""",y\n'


def put(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def contents(kind: str) -> bytes:
    if kind == "parquet":
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(ROWS), sink)
        return sink.getvalue().to_pybytes()
    lines = "\n".join(json.dumps(row) for row in ROWS) + "\n"
    texts = {
        "csv": CSV,
        "tsv": 'text\tlabel\na, b\tx\nsay "c"\ty\n',
        "txt": 'text\tlabel\na, b\tx\nsay "c"\ty\n',
        "jsonl": lines,
        "ndjson": lines,
        "json": json.dumps(ROWS, indent=1),
    }
    return texts[kind].encode()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["csv", "tsv", "txt", "jsonl", "ndjson", "json", "parquet"])
def test_every_format_gives_the_same_table(tmp_path: Path, kind: str, packed: bool) -> None:
    data = contents(kind)
    path = put(tmp_path, f"rows.{kind}{'.gz' if packed else ''}", gzip.compress(data) if packed else data)
    table = read_file(path, PLAIN)
    assert table.columns == {"text": ["a, b", 'say "c"'], "label": ["x", "y"]}


def test_json_lines_may_be_called_json(tmp_path: Path) -> None:
    assert len(read_file(put(tmp_path, "rows.json", contents("jsonl")), PLAIN)) == 2


def test_bom_and_crlf_leave_no_trace(tmp_path: Path) -> None:
    for name, separator in (("a.csv", ","), ("a.tsv", "\t")):
        body = f"text{separator}label\r\nhello{separator}x\r\nyou{separator}y\r\n"
        table = read_file(put(tmp_path, name, b"\xef\xbb\xbf" + body.encode()), PLAIN)
        assert table.columns == {"text": ["hello", "you"], "label": ["x", "y"]}


def test_raw_tsv_keeps_its_quotes(tmp_path: Path) -> None:
    table = read_file(put(tmp_path, "a.tsv", 'text\tlabel\n"yes" he said\tx\n"no\ty\n'), PLAIN)
    assert table.columns["text"] == ['"yes" he said', '"no']


def test_quoted_tsv_loses_its_quotes_only_if_every_field_closes(tmp_path: Path) -> None:
    quoted = 'text\tlabel\n"yes ""he"" said"\tx\n"no"\ty\n'
    assert read_file(put(tmp_path, "a.tsv", quoted), PLAIN).columns["text"] == ['yes "he" said', "no"]
    raw = read_file(put(tmp_path, "a.tsv", quoted), DataSettings(quoting="none"))
    assert raw.columns["text"][1] == '"no"'


def test_quoted_line_breaks_and_the_line_of_each_row(tmp_path: Path) -> None:
    table = read_file(put(tmp_path, "a.csv", 'text,label\n"one\ntwo",x\nthree,y\n'), PLAIN)
    assert table.columns["text"] == ["one\ntwo", "three"]
    assert [table.where(row).split(", ")[-1] for row in range(2)] == ["line 2", "line 4"]


def test_unicode_line_separators_do_not_cut_rows(tmp_path: Path) -> None:
    table = read_file(put(tmp_path, "a.tsv", "text\tlabel\none\u2028two\x85three\tx\nb\ty\n"), PLAIN)
    assert table.columns["text"][0] == "one\u2028two\x85three"


def test_a_csv_may_use_tabs_or_semicolons(tmp_path: Path) -> None:
    assert read_file(put(tmp_path, "t.csv", "text\tlabel\na, b\tx\n"), PLAIN).columns["text"] == ["a, b"]
    assert read_file(put(tmp_path, "s.csv", "text;label\na, b;x\n"), PLAIN).columns["text"] == ["a, b"]


def test_very_long_text_is_read_whole(tmp_path: Path) -> None:
    long = "word " * 40_000
    for name, separator in (("a.csv", ","), ("a.tsv", "\t")):
        table = read_file(put(tmp_path, name, f"text{separator}label\n{long}{separator}x\n"), PLAIN)
        assert table.columns["text"] == [long]


def test_header_is_found_or_told(tmp_path: Path) -> None:
    bare = put(tmp_path, "a.tsv", "main\t5.000\ta man\na\t3\tb\n")
    assert list(read_file(bare, PLAIN).columns) == ["1", "2", "3"]
    wordy = put(tmp_path, "b.tsv", "good film\tpositive\nbad film\tnegative\n")
    assert len(read_file(wordy, PLAIN)) == 1
    assert len(read_file(wordy, DataSettings(header="no"))) == 2
    assert len(read_file(wordy, DataSettings(text_column="1"))) == 2


def test_blank_lines_are_counted(tmp_path: Path) -> None:
    table = read_file(put(tmp_path, "a.csv", "text,label\n\na,x\n\n\nb,y\n"), PLAIN)
    assert (len(table), table.blank) == (2, 3)
    assert table.where(1).endswith("line 6")


def test_windows_encoding_is_read_when_told(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", "text,label\ncafé,x\n".encode("cp1252"))
    assert read_file(path, DataSettings(encoding="cp1252")).columns["text"] == ["café"]


BROKEN = {
    "empty.csv": (b"", "is empty"),
    "spaces.csv": (b"\n \n", "is empty"),
    "empty.jsonl": (b"", "is empty"),
    "list.json": (b"[]", "no rows"),
    "header.csv": (b"text,label\n", "no rows"),
    "ragged.csv": (b"text,label\na,x\nb\n", "line 3 has 1 fields"),
    "ragged.tsv": (b"text\tlabel\na\tx\nb\ty\tz\n", "line 3 has 3 fields"),
    "twice.csv": (b"text,label,label\na,x,y\n", "2 columns named 'label'"),
    "twice.jsonl": (b'{"text": "a", "text": "b"}\n', "names a field twice"),
    "open.csv": (b'text,label\na,x\n"b,y\nc,z\n', "line 3: a quote"),
    "mixed.csv": ("text,label\ncafé,x\n".encode() + "déjà,y\n".encode("cp1252"), "line 3: the byte 0xe9"),
    "cut.jsonl": (b'{"text": "a"}\n{"text": ', "line 2 is not JSON"),
    "number.jsonl": (b'{"text": "a"}\n3\n', "line 2 is a int"),
    "cut.csv.gz": (gzip.compress(CSV.encode() * 50)[:-12], "cut-off gzip"),
    "false.csv.gz": (CSV.encode(), "is not gzip"),
    "cut.parquet": (contents("parquet")[:-20], "cut-off Parquet"),
    "zero.parquet": (b"", "is empty"),
    "sheet.xlsx": (b"PK", "does not read"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_by_name_with_a_remedy(tmp_path: Path, name: str) -> None:
    content, message = BROKEN[name]
    path = put(tmp_path, name, content)
    with pytest.raises(DataError) as error:
        read_file(path, PLAIN)
    assert message in error.value.problem
    assert str(path) in error.value.problem
    assert error.value.remedy


def test_missing_file_names_the_nearest(tmp_path: Path) -> None:
    put(tmp_path, "reviews.csv", CSV)
    with pytest.raises(DataError, match=r"did you mean .*reviews\.csv"):
        read_file(tmp_path / "review.csv", PLAIN)
    with pytest.raises(DataError, match=r"there is no file .*nothing"):
        read_file(tmp_path / "nothing", PLAIN)
    with pytest.raises(DataError, match="does not exist either"):
        read_file(tmp_path / "no" / "review.csv", PLAIN)


def test_unknown_encoding_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no encoding 'klingon'"):
        read_file(put(tmp_path, "a.csv", CSV), DataSettings(encoding="klingon"))
