"""Files whose names, or whose first bytes, do not say what they are."""

from __future__ import annotations

import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from limbeck.core.errors import DataError
from limbeck.data.language.documents import read_documents
from limbeck.data.settings import BlockSettings, DataSettings, ParallelSettings, WindowSettings
from limbeck.data.sources import files
from limbeck.data.sources.files import read_file, read_head
from limbeck.data.sources.gather import gather
from limbeck.data.sources.parallel import gather_pairs
from limbeck.data.span.questions import timing_questions
from limbeck.data.token.sentences import timing_sentences

ROWS = {"text": ["I loved it", "It was bad"], "label": ["pos", "neg"]}


@pytest.mark.parametrize("name", ["reviews.dat", "reviews.data", "reviews", "reviews.v2.gz"])
@pytest.mark.parametrize("kind", ["csv", "semicolons", "tsv", "json", "jsonl", "parquet"])
def test_an_unknown_ending_is_read_by_its_content(name, kind, tmp_path):
    lines = [("text", "label"), *zip(*ROWS.values(), strict=True)]
    records = [dict(zip(ROWS, row, strict=True)) for row in lines[1:]]
    if kind == "parquet":
        sink = io.BytesIO()
        pq.write_table(pa.table(ROWS), sink)
        data = sink.getvalue()
    else:
        data = {
            "csv": "\n".join(map(",".join, lines)),
            "semicolons": "\n".join(map(";".join, lines)),
            "tsv": "\n".join(map("\t".join, lines)),
            "json": json.dumps(records),
            "jsonl": "\n".join(map(json.dumps, records)),
        }[kind].encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    found = gather(DataSettings(train=str(path)))
    assert found.tables["train"].columns == ROWS
    said = {"semicolons": "CSV", "jsonl": "JSON"}.get(kind, kind.upper())
    assert found.notes == (f"{path} is read as {said}, by its content",)


@pytest.mark.parametrize("text", ["Just a line.", "Some words\nand, as it goes,\nmore", "\x00\x01\x02"])
def test_what_is_no_table_is_refused(text, tmp_path):
    (tmp_path / "notes.dat").write_text(text)
    with pytest.raises(DataError, match="neither its name nor its content says which"):
        read_file(tmp_path / "notes.dat", DataSettings())


def test_utf_16_is_said_by_name(tmp_path):
    path, text = tmp_path / "a.csv", "text,label\nÜber alles,pos\nna ja,neg\n"
    path.write_bytes(text.encode("utf-16"))
    found = gather(DataSettings(train=str(path)))
    assert found.tables["train"].columns["text"] == ["Über alles", "na ja"]
    assert found.notes == (f"{path} is read as UTF-16, by its byte order mark",)
    for encoding in ("utf-16-le", "utf-16-be"):
        path.write_bytes(text.encode(encoding))
        with pytest.raises(DataError, match=f"is UTF-16 without a byte order mark\n.*--data.encoding {encoding}"):
            read_file(path, DataSettings())
        assert read_file(path, DataSettings(encoding=encoding)).columns["text"] == ["Über alles", "na ja"]
    path.write_bytes(text.encode("utf-8-sig"))
    assert list(read_file(path, DataSettings()).columns) == ["text", "label"]
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=r"line 2: the byte 0xdc is not UTF-8\n.*Latin-1.*--data.encoding cp1252"):
        read_file(path, DataSettings())


def test_the_head_of_a_large_file(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "HEAD", 100)
    (tmp_path / "a.csv").write_text("text,label\n" + "some words,pos\n" * 50)
    head = read_head(tmp_path / "a.csv", DataSettings())
    assert list(head.columns) == ["text", "label"]
    assert 0 < len(head) < 10
    (tmp_path / "b.csv").write_text('text,label\n"' + "a line\n" * 50 + '",pos\n')
    assert read_head(tmp_path / "b.csv", DataSettings()) is None  # its first row is longer
    (tmp_path / "c.jsonl").write_text('{"text": "a"}\n' * 50)
    assert read_head(tmp_path / "c.jsonl", DataSettings()) is None  # a later row may have more
    pq.write_table(pa.table({"text": ["a"] * 50, "label": ["b"] * 50}), tmp_path / "d.parquet")
    assert list(read_head(tmp_path / "d.parquet", DataSettings()).columns) == ["text", "label"]
    with pytest.raises(DataError, match="there is no file"):
        read_head(tmp_path / "e.csv", DataSettings())


def test_other_tasks_sniff_too(tmp_path):
    path = tmp_path / "rows.dat"
    settings = DataSettings(train=str(path))
    path.write_text("Ada B-PER\nruns O\n\nBo B-PER\n")
    assert timing_sentences(settings, WindowSettings()) == [("Ada runs", ""), ("Bo", "")]
    path.write_text('{"tokens": ["Ada", "runs"], "tags": ["B-PER", "O"]}\n')
    assert timing_sentences(settings, WindowSettings()) == [("Ada runs", "")]
    context = {"context": "Ada runs.", "qas": [{"question": "Who?", "answers": [{"text": "Ada", "answer_start": 0}]}]}
    path.write_text(json.dumps({"data": [{"paragraphs": [context]}]}))
    assert timing_questions(settings, WindowSettings()) == [("Who?", "Ada runs.")]
    path.write_text("a\tb\nc\td\ne\tf\n")
    pairs, notes = gather_pairs(settings, ParallelSettings())
    assert pairs["train"].table.columns["target"] == ["b", "d", "f"]
    assert f"{path} is read as TSV, by its content" in notes
    path.write_text("Some words, and more.\nOthers, too.\n" * 3)
    assert len(read_documents(settings, BlockSettings(), only_test=True).texts("test")) == 6
    path.write_text('{"text": "One."}\n{"text": "Two."}\n')
    assert read_documents(settings, BlockSettings(), only_test=True).texts("test") == ["One.", "Two."]
