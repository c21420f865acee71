"""Running text from files, folders, tables and Python, as documents in three splits."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import datasets
import pytest

from limbeck.core.errors import DataError, KnobError
from limbeck.data.language.documents import Documents, read_documents
from limbeck.data.settings import BlockSettings, DataSettings
from limbeck.data.text.examples import read_texts

PARAGRAPHS = [f"Paragraph {n} begins.\nIt goes on, and ends with {n * 7}." for n in range(200)]
SHARED = Path(__file__).parents[4] / "shared" / "data" / "wikitext2_raw"


def read(train: object, documents: str = "auto", **flags: Any) -> Documents:
    if isinstance(train, Path):
        return read_documents(DataSettings(train=str(train), **flags), BlockSettings(documents=documents))
    return read_documents(DataSettings(**flags), BlockSettings(documents=documents), train)


def everything(found: Documents) -> list[str]:
    return [text for split in ("train", "dev", "test") for text in found.texts(split)]


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("name", ["corpus.txt", "corpus.text", "corpus.raw", "corpus.md", "corpus"])
def test_blank_lines_end_documents(tmp_path: Path, name: str) -> None:
    found = read(write(tmp_path / name, "\n \n\t\n".join(PARAGRAPHS) + "\n\n"))
    assert sorted(everything(found)) == sorted(PARAGRAPHS)
    assert found.card.read == 200
    assert found.card.dropped == {}
    assert found.card.duplicates == 0


def test_every_line_is_a_document_where_no_line_is_blank(tmp_path: Path) -> None:
    lines = "\n".join(PARAGRAPHS).split("\n")
    found = read(write(tmp_path / "lines.txt", "\n\n" + "\n".join(lines) + "\n\n\n"))
    assert sorted(everything(found)) == sorted(lines)


def test_the_rule_can_be_given(tmp_path: Path) -> None:
    path = write(tmp_path / "corpus.txt", "\n\n".join(PARAGRAPHS))
    assert len(everything(read(path, "line"))) == 400
    assert len(everything(read(path, "blank-line"))) == 200
    assert read(path, "file").card.read == 1


def test_gzip_line_ends_and_encodings_change_nothing(tmp_path: Path) -> None:
    text = "\n\n".join(PARAGRAPHS) + "\n\nZoë naïve"
    expected = everything(read(write(tmp_path / "plain.txt", text)))
    packed = tmp_path / "wiki.train.raw.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert everything(read(packed)) == expected
    for name, data, encoding in (
        ("crlf.txt", text.replace("\n", "\r\n").encode(), "auto"),
        ("cr.txt", text.replace("\n", "\r").encode(), "auto"),
        ("bom.txt", text.encode("utf-8-sig"), "auto"),
        ("utf16.txt", text.encode("utf-16"), "auto"),
        ("windows.txt", text.encode("cp1252"), "cp1252"),
    ):
        (tmp_path / name).write_bytes(data)
        assert everything(read(tmp_path / name, encoding=encoding)) == expected, name


def test_wrong_files_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "windows.txt").write_bytes(b"fine\nna\xefve\n")
    with pytest.raises(DataError, match=r"windows\.txt, line 2: the byte 0xef is not UTF-8"):
        read(tmp_path / "windows.txt")
    with pytest.raises(DataError, match="is empty"):
        read(write(tmp_path / "empty.txt", " \n\n"))
    with pytest.raises(DataError, match=r"did you mean .*windows\.txt"):
        read(tmp_path / "window.txt")
    with pytest.raises(DataError, match=r"did you mean .*windows\.txt"):
        read_documents(
            DataSettings(train=str(tmp_path / "windows.txt"), dev=str(tmp_path / "window.txt"), encoding="cp1252"),
            BlockSettings(),
        )
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(b"text " * 100)[:-20])
    with pytest.raises(DataError, match="cut-off gzip"):
        read(tmp_path / "cut.txt.gz")


def test_a_folder_with_splits(tmp_path: Path) -> None:
    for name, part in (("train", PARAGRAPHS[:100]), ("valid", PARAGRAPHS[100:150]), ("test", PARAGRAPHS[150:])):
        write(tmp_path / f"wiki.{name}.raw", "\n\n".join(part))
    write(tmp_path / "README.md", "about it")
    found = read(tmp_path)
    assert found.texts("train") == PARAGRAPHS[:100]
    assert found.texts("dev") == PARAGRAPHS[100:150]
    assert found.texts("test") == PARAGRAPHS[150:]
    assert found.card.splits["dev"].source.endswith("wiki.valid.raw")
    assert found.card.notes == [f"{tmp_path}: not used: README.md"]
    (tmp_path / "wiki.train.raw").unlink()
    with pytest.raises(DataError, match=r"no train file, but wiki\.test\.raw, wiki\.valid\.raw"):
        read(tmp_path)


def test_a_folder_of_files_is_one_collection(tmp_path: Path) -> None:
    for number in reversed(range(40)):
        write(tmp_path / f"book{number:02}.txt", f"Book {number}\nends")
    found = read(tmp_path, "file")
    assert sorted(everything(found)) == sorted(f"Book {number}\nends" for number in range(40))
    assert found.texts("train") == sorted(found.texts("train"), key=lambda text: int(text.split()[1]))
    assert "40 text files" in found.card.source


def test_a_readme_beside_tables_is_no_corpus(tmp_path: Path) -> None:
    write(tmp_path / "README.md", "about the data")
    write(tmp_path / "train.jsonl", "\n".join(json.dumps({"text": text}) for text in PARAGRAPHS))
    assert sorted(everything(read(tmp_path))) == sorted(PARAGRAPHS)


def test_splits_of_different_kinds(tmp_path: Path) -> None:
    train = write(tmp_path / "corpus.txt", "\n\n".join(PARAGRAPHS))
    dev = write(tmp_path / "dev.jsonl", json.dumps({"sentence": "A dev text."}))
    test = write(tmp_path / "test.txt", "one line\nand another")
    found = read(train, dev=str(dev), test=str(test))
    assert found.texts("train") == PARAGRAPHS
    assert found.texts("dev") == ["A dev text."]
    assert found.texts("test") == ["one line\nand another"]  # train decides what ends a document


def test_tables_files_and_python_give_the_same_documents(tmp_path: Path) -> None:
    datasets.disable_progress_bars()
    rows = [{"text": text, "label": "x", "score": 3} for text in PARAGRAPHS]
    expected = read(rows)
    assert expected.card.columns == {"text": "text"}
    table = datasets.Dataset.from_list(rows)
    table.save_to_disk(str(tmp_path / "saved"))
    table.to_parquet(str(tmp_path / "corpus.parquet"))
    write(tmp_path / "corpus.jsonl", "\n".join(map(json.dumps, rows)))
    write(tmp_path / "corpus.txt", "\n\n".join(PARAGRAPHS))
    paths = [tmp_path / name for name in ("saved", "corpus.parquet", "corpus.jsonl", "corpus.txt")]
    for source in (PARAGRAPHS, tuple(PARAGRAPHS), {"text": PARAGRAPHS}, {"train": PARAGRAPHS}, table, *paths):
        found = read(source)
        assert [found.texts(split) for split in found.parts] == [expected.texts(split) for split in found.parts]


def test_the_label_column_is_no_concern() -> None:
    rows = [{"body": text, "topic": n, "stars": n} for n, text in enumerate(PARAGRAPHS)]  # two could be labels
    assert read(rows, label_column="nothing of that name").card.columns == {"text": "body"}


def test_both_texts_of_a_pair_are_read() -> None:
    rows = [{"premise": text, "hypothesis": "So it is."} for text in PARAGRAPHS]
    found = read(rows)
    assert sorted(everything(found)) == sorted(f"{text}\nSo it is." for text in PARAGRAPHS)
    assert found.card.columns == {"text": "premise", "pair": "hypothesis"}


def test_wrong_columns() -> None:
    rows = [{"article": "one"}, {"article": "two"}]
    with pytest.raises(
        DataError, match=r"no column 'artcle'; its columns: 'article'\n.*did you mean --text-column art"
    ):
        read(rows, text_column="artcle")
    with pytest.raises(DataError, match=r"did you mean --blocks\.messages-column talk"):
        read_documents(DataSettings(), BlockSettings(messages_column="talks"), [{"talk": []}])
    with pytest.raises(DataError, match="no column is known as the text; its columns: 'article'"):
        read(rows)
    with pytest.raises(DataError, match=r"row 2: column 'text' holds int '3'"):
        read([{"text": "one"}, {"text": 3}])
    with pytest.raises(DataError, match="row 2: the text holds half a character"):
        read({"train": ["fine", "half \ud83d"], "dev": ["x"], "test": ["y"]})


def test_what_is_dropped_and_what_is_repeated_is_counted() -> None:
    found = read([*PARAGRAPHS, "", "  ", *PARAGRAPHS[:5]])
    assert found.card.read == 207
    assert found.card.dropped == {"empty text": 2}
    assert found.card.duplicates == 5
    assert len(everything(found)) == 205


def test_splits_are_disjoint_stable_and_those_of_labelled_rows() -> None:
    found = read([*PARAGRAPHS, *PARAGRAPHS])
    sets = [set(found.texts(split)) for split in ("train", "dev", "test")]
    assert sum(map(len, sets)) == len(set.union(*sets)) == 200
    assert 8 <= len(sets[1]) <= 35
    assert 8 <= len(sets[2]) <= 35
    fewer = read(PARAGRAPHS[::2])
    for split, texts in zip(("train", "dev", "test"), sets, strict=True):
        assert set(fewer.texts(split)) == texts & set(PARAGRAPHS[::2])
    has_label = read_texts(DataSettings(), [{"text": text, "label": str(n % 2)} for n, text in enumerate(PARAGRAPHS)])
    assert set(has_label.test.texts) == sets[2]


def test_only_what_is_missing_is_cut_off(tmp_path: Path) -> None:
    path = write(tmp_path / "dev.txt", "\n\n".join(PARAGRAPHS[:30]))
    found = read_documents(DataSettings(dev=str(path)), BlockSettings(), PARAGRAPHS)
    assert found.texts("dev") == PARAGRAPHS[:30]
    assert len(found.texts("train")) + len(found.texts("test")) == 200
    assert any("of dev: the document also occurs in train" in note for note in found.card.notes)
    with pytest.raises(KnobError, match="leave nothing for train"):
        read(PARAGRAPHS, dev_share=0.5, test_share=0.5)


def test_a_few_long_documents_are_cut_at_their_end(tmp_path: Path) -> None:
    lines = [f"This is line {n:04} of the book." for n in range(1000)]
    found = read(write(tmp_path / "book.txt", "\n".join(lines)), "file")
    parts = [found.texts(split) for split in ("train", "dev", "test")]
    assert [len(part) for part in parts] == [1, 1, 1]
    assert "\n".join(part[0] for part in parts).split("\n") == lines
    assert [len(part[0].split("\n")) for part in parts] == pytest.approx([800, 100, 100], abs=2)
    assert any("too few to draw from: dev and test are cut from its end" in note for note in found.card.notes)


def test_one_endless_line_is_cut_between_words() -> None:
    words = [f"word{n}" for n in range(1000)]
    found = read([" ".join(words)])
    assert " ".join(everything(found)).split() == words
    letters = read(["abcdefghij" * 10])
    assert "".join(everything(letters)) == "abcdefghij" * 10


def test_a_few_documents_are_cut_across_their_borders() -> None:
    documents = [f"Document {n} " + "has so many words " * 30 for n in range(4)]
    found = read(documents)
    assert "".join(everything(found)).split() == "".join(documents).split()
    assert found.where("test", 0) == "the given rows, row 4"


@pytest.mark.data
@pytest.mark.skipif(not SHARED.is_dir(), reason="no ../shared/data beside the project")
def test_wikitext() -> None:
    found = read(SHARED / "wiki.valid.raw.gz", test=str(SHARED / "wiki.test.raw.gz"))
    words = sum(len(text.split()) for split in ("train", "dev") for text in found.texts(split))
    assert words == 213_886  # as SOURCE.md counts them
    assert sum(len(text.split()) for text in found.texts("test")) == 241_211
    with pytest.raises(DataError, match="no train file"):
        read(SHARED)
