"""Parallel text from every source: nothing shifts, nothing is lost without a word, and mistakes are named."""

from __future__ import annotations

import gzip
import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest

from limbeck.core.errors import DataError, KnobError
from limbeck.data.seq2seq.pairs import ParallelCorpus, read_parallel
from limbeck.data.settings import DataSettings, ParallelSettings

SHARED = Path(__file__).parents[4] / "shared" / "data" / "multi30k_en_de"
ROWS = [(f"source number {n}", f"Ziel Nummer {n}") for n in range(300)]


class Heard:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def plan(self, stages: Any) -> None: ...

    def at(self, stage: str, done: float, note: str = "") -> None: ...

    def say(self, message: str) -> None:
        self.lines.append(message)


@pytest.fixture(autouse=True)
def quiet_datasets() -> None:
    datasets.disable_progress_bars()


def write(folder: Path, name: str, sources: str, targets: str, ends: tuple[str, str] = ("en", "de")) -> None:
    for end, text in zip(ends, (sources, targets), strict=True):
        data = text.encode()
        (folder / f"{name}.{end}").write_bytes(gzip.compress(data) if end.endswith(".gz") else data)


def three(folder: Path, train: tuple[str, str], end: str = "") -> ParallelCorpus:
    """A small train, with a dev and a test set of one row each."""
    ends = f"en{end}", f"de{end}"
    write(folder, "train", *train, ends)
    write(folder, "val", "a dev source\n", "a dev target\n", ends)
    write(folder, "test", "a test source\n", "a test target\n", ends)
    return read_parallel(
        DataSettings(
            train=str(folder / f"train.{ends[0]}"), dev=str(folder / f"val.{ends[0]}"), test=f"{folder}/test.{ends[0]}"
        ),
        ParallelSettings(target=str(folder / f"train.{ends[1]}")),
    )


def pairs_of(corpus: ParallelCorpus) -> set[tuple[str, str]]:
    return {pair for part in corpus.splits.values() for pair in zip(part.sources, part.targets, strict=True)}


def same(one: ParallelCorpus, other: ParallelCorpus) -> bool:
    return all(
        one.splits[name].sources == other.splits[name].sources
        and one.splits[name].targets == other.splits[name].targets
        and np.array_equal(one.splits[name].uids, other.splits[name].uids)
        for name in one.splits
    )


@pytest.mark.parametrize("end", ["", ".gz"])
def test_two_files_and_the_files_beside_them(tmp_path: Path, end: str) -> None:
    corpus = three(tmp_path, ("a\nb\n", "x\ny\n"), end)
    assert (corpus.train.sources, corpus.train.targets) == (["a", "b"], ["x", "y"])
    assert (corpus.dev.sources, corpus.dev.targets) == (["a dev source"], ["a dev target"])
    assert (corpus.test.sources, corpus.test.targets) == (["a test source"], ["a test target"])
    assert corpus.card.columns["source"] == f"train.en{end} (dev: val.en{end}, test: test.en{end})"
    assert corpus.card.read == 4
    assert corpus.card.dropped == {}


def test_only_line_feeds_and_carriage_returns_end_a_line(tmp_path: Path) -> None:
    odd = "one\u2028still one\x85and\x0bmore\x0con\u2029"
    corpus = three(tmp_path, (f"\ufeff{odd}\r\ntwo\r\n", "eins\rzwei"))
    assert corpus.train.sources == [odd.strip(), "two"]
    assert corpus.train.targets == ["eins", "zwei"]


def test_a_carriage_return_inside_a_line_moves_no_row(tmp_path: Path) -> None:
    """As in crawled text: with as many in either file, the line counts agree."""
    corpus = three(tmp_path, ("one\rbis\ntwo\nthree\nfour\n", "eins bis\nzwei\ndrei\r\r\nvier\rbis"))
    assert corpus.train.sources == ["one bis", "two", "three", "four"]
    assert corpus.train.targets == ["eins bis", "zwei", "drei", "vier bis"]


def test_a_uid_is_of_the_source_as_the_model_reads_it(tmp_path: Path) -> None:
    rows = [{"source": " hello ", "target": "hallo"}, {"source": "hello", "target": "servus"}]
    splits = {"train": rows, "dev": rows, "test": rows}
    corpus = read_parallel(DataSettings(), ParallelSettings(prefix="translate: "), splits)
    digest = blake2b(b"translate: hello", digest_size=8, person=b"source").digest()
    for part in corpus.splits.values():
        assert part.sources == ["translate: hello"] * 2
        assert part.uids.tolist() == [int.from_bytes(digest, "big") >> 1] * 2
    assert corpus.card.duplicates == 3
    assert "2 of test: the source also occurs in train" in corpus.card.notes


def test_rows_without_a_text_are_dropped_and_counted(tmp_path: Path) -> None:
    rows = [("a", "x"), ("  ", "y"), ("b", "\t"), ("", ""), ("c", "z")]
    splits = {name: [{"src": s, "tgt": t} for s, t in rows] for name in ("train", "validation", "test")}
    heard = Heard()
    corpus = read_parallel(DataSettings(), ParallelSettings(), splits, heard)
    assert corpus.train.sources == ["a", "b", "c"]
    assert corpus.train.has_target.tolist() == [True, False, True]
    assert corpus.dev.sources == corpus.test.sources == ["a", "c"]
    assert corpus.card.dropped == {"empty source": 6, "empty target": 2}
    assert corpus.card.read == sum(len(part) for part in corpus.splits.values()) + 6 + 2
    assert {name: (part.rows, part.labelled) for name, part in corpus.card.splits.items()} == {
        "train": (3, 2),
        "dev": (2, 2),
        "test": (2, 2),
    }
    assert heard.lines[0] == "data: the given splits[train], 15 rows; source from src, target from tgt"
    assert "1 without a target, kept for the teacher to translate" in heard.lines[2]
    assert corpus.train.take([2, 0]).targets == ["z", "x"]


def test_what_is_not_given_is_cut_by_the_source(tmp_path: Path) -> None:
    twice = [*ROWS, *((source, f"{target}, anders") for source, target in ROWS)]
    write(tmp_path, "train", "\n".join(s for s, _ in twice), "\n".join(t for _, t in twice))
    settings = DataSettings(train=str(tmp_path / "train.en"))
    pairs = ParallelSettings(target=str(tmp_path / "train.de"))
    corpus = read_parallel(settings, pairs)
    sources = [set(part.sources) for part in corpus.splits.values()]
    assert sum(map(len, sources)) == len(set.union(*sources)) == 300
    assert pairs_of(corpus) == set(twice)
    assert 30 < len(corpus.test) < 90
    assert "by a hash" in corpus.card.splits["dev"].source
    prefixed = read_parallel(settings, pairs.but(prefix="> "))
    assert prefixed.test.sources == [f"> {source}" for source in corpus.test.sources]


def test_a_source_without_a_target_is_not_learnt_from_where_it_is_held_out() -> None:
    rows = [{"source": s, "target": t} for s, t in ROWS]
    whole = read_parallel(DataSettings(), ParallelSettings(), rows)
    bare = [{"source": part.sources[0], "target": ""} for part in whole.splits.values()]
    found = read_parallel(DataSettings(), ParallelSettings(), [*rows, *bare])
    assert found.train.sources == [*whole.train.sources, whole.train.sources[0]]
    assert found.card.dropped == {"no target, and its source is in dev or test": 2}
    assert (found.dev.sources, found.test.sources) == (whole.dev.sources, whole.test.sources)


def test_the_limit_draws_the_same_rows_whatever_their_order() -> None:
    rows = [{"source": s, "target": t} for s, t in ROWS]
    few = read_parallel(DataSettings(limit=20), ParallelSettings(), rows)
    turned = read_parallel(DataSettings(limit=20), ParallelSettings(), rows[::-1])
    whole = read_parallel(DataSettings(), ParallelSettings(), rows)
    assert len(few.train) == 20
    assert few.train.sources == turned.train.sources[::-1]
    assert few.train.sources == [source for source in whole.train.sources if source in few.train.sources]
    assert few.dev.sources == whole.dev.sources
    assert any("train: 20 of" in note for note in few.card.notes)


def test_every_kind_of_table_gives_the_same_corpus(tmp_path: Path) -> None:
    dicts = [{"source": s, "target": t} for s, t in ROWS]
    expected = read_parallel(DataSettings(), ParallelSettings(), dicts)
    assert pairs_of(expected) == set(ROWS)
    for name, mark in (("rows.tsv", "\t"), ("rows.csv", ",")):
        (tmp_path / name).write_text("\n".join(mark.join(row) for row in [("en", "de"), *ROWS]))
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, dicts)))
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress((tmp_path / "rows.jsonl").read_bytes()))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "train.jsonl").write_bytes((tmp_path / "rows.jsonl").read_bytes())
    saved = datasets.Dataset.from_list(dicts)
    saved.to_parquet(str(tmp_path / "rows.parquet"))
    saved.save_to_disk(str(tmp_path / "saved"))
    for name in ("rows.tsv", "rows.csv", "rows.jsonl", "rows.jsonl.gz", "rows.parquet", "folder", "saved"):
        assert same(read_parallel(DataSettings(train=str(tmp_path / name)), ParallelSettings()), expected), name
    assert same(read_parallel(DataSettings(), ParallelSettings(), saved), expected)


@pytest.mark.parametrize(
    ("pairs", "columns"),
    [
        ({}, ("en", "de")),
        ({"source_column": "de", "target_column": "en"}, ("de", "en")),
        ({"source_column": "de"}, ("de", "en")),
        ({"target_column": "en"}, ("de", "en")),
    ],
)
def test_a_column_of_translations(pairs: dict[str, str], columns: tuple[str, str]) -> None:
    rows = [{"id": n, "translation": {"en": f"e{n}", "de": f"d{n}"}} for n in range(4)]
    rows.append({"id": 4, "translation": {"en": "e", "de": ""}})
    whole = datasets.DatasetDict({split: datasets.Dataset.from_list(rows) for split in ("train", "validation", "test")})
    for given in (whole, {"train": rows, "dev": rows, "test": rows}):
        corpus = read_parallel(DataSettings(), ParallelSettings(**pairs), given)
        assert tuple(corpus.card.columns.values()) == columns
        assert corpus.train.sources[:4] == [f"{columns[0][0]}{n}" for n in range(4)]
        assert corpus.train.targets[:4] == [f"{columns[1][0]}{n}" for n in range(4)]
        assert len(corpus.dev) == 4


def test_a_first_line_of_texts_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("\n".join("\t".join(row) for row in ROWS))
    corpus = read_parallel(DataSettings(train=str(tmp_path / "train.tsv")), ParallelSettings())
    assert pairs_of(corpus) == set(ROWS)
    assert corpus.card.columns == {"source": "1", "target": "2"}
    assert any("first line is read as a row" in note for note in corpus.card.notes)
    turned = read_parallel(
        DataSettings(train=str(tmp_path / "train.tsv")), ParallelSettings(source_column="2", target_column="1")
    )
    assert pairs_of(turned) == {(target, source) for source, target in ROWS}
    named = read_parallel(DataSettings(train=str(tmp_path / "train.tsv"), header="yes"), ParallelSettings())
    assert pairs_of(named) == set(ROWS[1:])


@pytest.mark.parametrize(
    ("first", "is_row", "said"),
    [
        ("Hello\tHallo", True, "row; if it names the columns, pass --data.header yes"),
        ("Text\tDer Text", True, "row; if it names the columns, pass --data.header yes"),
        ("translation\tÜbersetzung", True, "row; if it names the columns, pass --data.header yes"),
        ("en\tde", False, ""),
        ("Text\tSummary", False, ""),
        ("question\tanswer", False, ""),
        ("fr\tpt_BR", False, "names of columns; if it is a row, pass --data.header no"),
        ("en\tnl", False, "names of columns; if it is a row, pass --data.header no"),
    ],
)
def test_names_of_columns_are_known_or_asked_for(tmp_path: Path, first: str, is_row: bool, said: str) -> None:
    file = tmp_path / "train.tsv"
    file.write_text("\n".join([first, *("\t".join(row) for row in ROWS)]), encoding="utf-8")
    read = DataSettings(train=str(file), dev=str(file), test=str(file))
    source, target = first.split("\t")
    corpus = read_parallel(read, ParallelSettings())
    assert ((source, target) in pairs_of(corpus)) == is_row
    notes = {note.partition("its first line is read as ")[2].removeprefix("a ") for note in corpus.card.notes}
    assert notes - {""} == {said} - {""}
    asked = read_parallel(read, ParallelSettings(source_column=target, target_column=source))
    assert asked.card.columns == {"source": target, "target": source}
    assert pairs_of(asked) == {(there, here) for here, there in ROWS}


@pytest.mark.parametrize("first", ["Text\tDer Text\tCC", "fr\tnl\tid", "no\tne"])
def test_columns_asked_for_by_number_have_no_names(tmp_path: Path, first: str) -> None:
    file, texts = tmp_path / "train.tsv", first.split("\t")
    file.write_text("\n".join([first, *("\t".join([*row, "0"][: len(texts)]) for row in ROWS)]), encoding="utf-8")
    numbered = ParallelSettings(source_column="2", target_column="1")
    assert (texts[1], texts[0]) in pairs_of(read_parallel(DataSettings(train=str(file)), numbered))


def test_the_names_of_train_are_names_elsewhere_too(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text("\n".join(json.dumps({"here": s, "there": t}) for s, t in ROWS))
    (tmp_path / "dev.tsv").write_text("there\there\nZiel\tsource\n")
    dev = str(tmp_path / "dev.tsv")
    corpus = read_parallel(DataSettings(train=str(tmp_path / "train.jsonl"), dev=dev, test=dev), ParallelSettings())
    assert (corpus.dev.sources, corpus.dev.targets) == (["source"], ["Ziel"])


@pytest.mark.parametrize(
    ("columns", "pairs", "chosen"),
    [
        (("id", "source", "target"), {}, ("source", "target")),
        (("Text", "SUMMARY", "id"), {}, ("Text", "SUMMARY")),
        (("source", "text", "de"), {}, ("source", "de")),
        (("fr", "nl"), {}, ("fr", "nl")),
        (("target", "fr"), {}, ("fr", "target")),
        (("en", "de"), {"source_column": "de"}, ("de", "en")),
        (("a", "b", "c"), {"source_column": "c", "target_column": "a"}, ("c", "a")),
    ],
)
def test_columns_are_found(columns: tuple[str, ...], pairs: dict[str, str], chosen: tuple[str, str]) -> None:
    rows = [{name: f"{name} {n}" for name in columns} for n in range(3)]
    corpus = read_parallel(DataSettings(), ParallelSettings(**pairs), {"train": rows, "dev": rows, "test": rows})
    assert tuple(corpus.card.columns.values()) == chosen
    assert corpus.train.sources[1] == f"{chosen[0]} 1"
    assert corpus.test.targets[2] == f"{chosen[1]} 2"


def test_a_split_may_name_its_columns_differently() -> None:
    corpus = read_parallel(
        DataSettings(),
        ParallelSettings(),
        {
            "train": [{"fr": "a", "nl": "b"}],
            "dev": [{"x": 1, "nl": "d", "fr": "c"}],
            "test": [{"source": "e", "target": "f"}],
        },
    )
    assert corpus.dev.sources + corpus.dev.targets + corpus.test.sources + corpus.test.targets == list("cdef")
    assert corpus.card.columns == {"source": "fr (test: source)", "target": "nl (test: target)"}


@pytest.mark.parametrize(
    ("rows", "pairs", "words"),
    [
        (
            [{"a": "x", "b": "y", "c": "z"}],
            {},
            ["'a', 'b', 'c'", "--parallel.source-column", "--parallel.target-column"],
        ),
        ([{"text": "x"}], {}, ["its columns: 'text'", "--target"]),
        ([{"text": "x", "translation": "a", "summary": "b"}], {}, ["are not known"]),
        ([{"a": "x", "b": "y"}], {"source_column": "en"}, ["no column 'en'", "'a', 'b'"]),
        ([{"a": "x", "b": "y"}], {"source_column": "a", "target_column": "a"}, ["both column 'a'"]),
        ([{"source": "x", "target": "y"}, {"source": 3, "target": "y"}], {}, ["row 2", "'source' holds int '3'"]),
        ([{"source": "x", "target": ["y"]}], {}, ["row 1", "'target' holds list"]),
        ([{"source": "x", "target": "\ud83d"}], {}, ["row 1", "half a character"]),
        ([{"translation": {"en": "a", "de": "b"}}, {"translation": "c"}], {}, ["row 2", "holds str 'c'"]),
        ([{"translation": {"en": "a"}}], {}, ["its columns: 'en'"]),
        ([{"source": " ", "target": "y"}], {}, ["no row has a text to translate"]),
        ([{"source": "x", "target": ""}], {}, ["dev", "no row has a target", "--data.dev"]),
    ],
)
def test_rows_that_cannot_be_used_are_named(
    rows: list[dict[str, Any]], pairs: dict[str, str], words: list[str]
) -> None:
    with pytest.raises(DataError) as caught:
        read_parallel(DataSettings(), ParallelSettings(**pairs), {"train": rows, "dev": rows, "test": rows})
    for word in words:
        assert word in str(caught.value)


def refusal(settings: DataSettings, pairs: ParallelSettings, data: object = None) -> str:
    with pytest.raises((DataError, KnobError)) as caught:
        read_parallel(settings, pairs, data)
    return str(caught.value)


def test_two_files_that_do_not_fit_are_named(tmp_path: Path) -> None:
    write(tmp_path, "train", "a\nb\nc\n", "x\ny")
    source, target = str(tmp_path / "train.en"), str(tmp_path / "train.de")
    said = refusal(DataSettings(train=source), ParallelSettings(target=target))
    assert f"{source} has 3 lines, but {target} has 2" in said
    assert "source and target are both" in refusal(DataSettings(train=source), ParallelSettings(target=source))
    said = refusal(DataSettings(train=source), ParallelSettings(target=str(tmp_path / "train.dee")))
    assert f"did you mean {target}?" in said
    said = refusal(DataSettings(train=str(tmp_path / "trian.en")), ParallelSettings(target=target))
    assert f"did you mean {source}?" in said
    write(tmp_path, "train", "", "")
    assert "empty" in refusal(DataSettings(train=source), ParallelSettings(target=target))


def test_an_encoding_is_never_guessed(tmp_path: Path) -> None:
    (tmp_path / "train.en").write_text("\n".join(f"a {n}" for n in range(300)))
    (tmp_path / "train.de").write_bytes("\n".join(f"über {n}" for n in range(300)).encode("cp1252"))
    settings = DataSettings(train=str(tmp_path / "train.en"))
    pairs = ParallelSettings(target=str(tmp_path / "train.de"))
    said = refusal(settings, pairs)
    assert "train.de, line 1: the byte 0xfc is not UTF-8" in said
    assert "über 7" in dict(pairs_of(read_parallel(settings.but(encoding="cp1252"), pairs))).values()


def test_targets_of_dev_that_are_not_found_ask_for_their_knob(tmp_path: Path) -> None:
    write(tmp_path, "train", "a\n", "x\n")
    settings = DataSettings(train=str(tmp_path / "train.en"), dev=str(tmp_path / "val.en"), test=f"{tmp_path}/val.en")
    pairs = ParallelSettings(target=str(tmp_path / "train.de"))
    assert "there is no file" in refusal(settings, pairs)
    (tmp_path / "val.en").write_text("b\n")
    said = refusal(settings, pairs)
    assert f"there is no {tmp_path / 'val.de'}" in said
    assert "--parallel.dev-target" in said
    (tmp_path / "other").write_text("y\n")
    named = pairs.but(dev_target=str(tmp_path / "other"))
    assert "--parallel.test-target" in refusal(settings, named)
    corpus = read_parallel(settings, named.but(test_target=str(tmp_path / "other")))
    assert corpus.dev.targets == corpus.test.targets == ["y"]
    (tmp_path / "held.tsv").write_text("source\ttarget\nc\tz\n")
    tables = settings.but(dev=str(tmp_path / "held.tsv"), test=str(tmp_path / "held.tsv"))
    assert read_parallel(tables, pairs).dev.targets == ["z"]


@pytest.mark.parametrize(
    ("train", "dev"),
    [
        (("train.src.txt", "train.tgt.txt"), ("val.src.txt", "val.tgt.txt")),
        (("en/train", "de/train"), ("en/val", "de/val")),
        (("train", "train.de"), ("val", "val.de")),
        (("train.en", "train.de"), ("val.en.gz", "val.de")),
    ],
)
def test_the_file_opposite_is_found_as_in_train(tmp_path: Path, train: tuple[str, str], dev: tuple[str, str]) -> None:
    for name in (*train, *dev):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        text = f"{name}\n".encode()
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    file = str(tmp_path / dev[0])
    settings = DataSettings(train=str(tmp_path / train[0]), dev=file, test=file)
    corpus = read_parallel(settings, ParallelSettings(target=str(tmp_path / train[1])))
    assert (corpus.dev.sources, corpus.dev.targets) == ([dev[0]], [dev[1]])


def test_knobs_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "train", "a\n", "x\n")
    both = DataSettings(train=str(tmp_path / "train.en")), ParallelSettings(target=str(tmp_path / "train.de"))
    assert "--data.dev" in refusal(both[0], both[1].but(dev_target="x.de"))
    assert "is the folder" in refusal(DataSettings(train=str(tmp_path)), both[1])
    assert "--data is none" in refusal(DataSettings(), both[1])
    assert "--target train.de" in refusal(both[0], ParallelSettings())
    assert "train.de, train.en" in refusal(DataSettings(train=str(tmp_path)), ParallelSettings())
    assert "no data given" in refusal(DataSettings(), ParallelSettings())
    assert "too few to cut" in refusal(*both)


@pytest.mark.data
@pytest.mark.skipif(not SHARED.is_dir(), reason="no ../shared/data/multi30k_en_de beside the project")
def test_multi30k_arrives_whole() -> None:
    corpus = read_parallel(
        DataSettings(
            train=str(SHARED / "train.en.gz"),
            dev=str(SHARED / "val.en.gz"),
            test=str(SHARED / "test_2016_flickr.en.gz"),
        ),
        ParallelSettings(target=str(SHARED / "train.de.gz")),
    )
    assert {name: len(part) for name, part in corpus.splits.items()} == {"train": 29_000, "dev": 1_014, "test": 1_000}
    assert corpus.card.dropped == {}
    assert all(part.has_target.all() for part in corpus.splits.values())
