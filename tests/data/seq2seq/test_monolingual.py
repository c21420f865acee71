"""Sources without targets beside parallel texts: what is taken, from which column, and what is dropped."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import datasets
import pytest

from limbeck.core.errors import KnobError, LimbeckError
from limbeck.data.seq2seq.directions import prefix_of
from limbeck.data.seq2seq.pairs import ParallelCorpus, read_parallel
from limbeck.data.settings import DataSettings, ParallelSettings
from limbeck.data.uids import source_uids

ROWS = [(f"source number {n}", f"Ziel Nummer {n}") for n in range(300)]
NEW = [f"a new source {n}" for n in range(40)]


@pytest.fixture(autouse=True)
def quiet_datasets() -> None:
    datasets.disable_progress_bars()


@pytest.fixture
def settings(tmp_path: Path) -> DataSettings:
    return DataSettings(train=table(tmp_path / "train.tsv", ("source", "target"), ROWS), task="translate")


def table(path: Path, *rows: object) -> str:
    """A TSV with these names and rows."""
    names, body = rows
    path.write_text("\n".join("\t".join(row) for row in (names, *body)) + "\n", encoding="utf-8")  # type: ignore[misc]
    return str(path)


def lines(path: Path, texts: list[str]) -> str:
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return str(path)


def read(settings: DataSettings, unlabelled: object, **pairs: str) -> ParallelCorpus:
    return read_parallel(settings.but(unlabelled=str(unlabelled)), ParallelSettings(**pairs))


def added(corpus: ParallelCorpus) -> list[str]:
    """The training sources without a target."""
    return [corpus.train.sources[row] for row, has in enumerate(corpus.train.has_target) if not has]


def test_sources_join_train_and_all_else_stays_as_it_was(settings: DataSettings, tmp_path: Path) -> None:
    prefix = prefix_of("de")
    alone = read_parallel(settings, ParallelSettings(prefix=prefix))
    both = read(settings, lines(tmp_path / "mono.en", NEW), prefix=prefix)
    for split in ("dev", "test"):
        assert both.splits[split].sources == alone.splits[split].sources
        assert both.splits[split].targets == alone.splits[split].targets
    known = len(alone.train)
    assert both.train.sources == [*alone.train.sources, *(prefix + text for text in NEW)]
    assert both.train.targets == alone.train.targets + [""] * len(NEW)
    assert both.train.uids[known:].tolist() == source_uids(both.train.sources[known:]).tolist()
    assert (both.card.splits["train"].rows, both.card.splits["train"].labelled) == (known + len(NEW), known)
    assert (both.card.read, both.card.dropped) == (alone.card.read, alone.card.dropped)


def test_what_is_known_is_dropped_and_counted_file_by_file(settings: DataSettings, tmp_path: Path) -> None:
    alone = read_parallel(settings, ParallelSettings())
    some = [source for part in alone.splits.values() for source in part.sources[:3]]
    first = lines(tmp_path / "first.en", [*NEW[:10], f"  {NEW[0]} ", *some, " "])
    second = lines(tmp_path / "second.txt", NEW)
    found = read(settings, f"{first}, {second}")
    pairs, one, two = found.card.sources
    assert added(found) == NEW
    assert (pairs.gives, pairs.read, pairs.used) == ("train, dev, test", 300, 300)
    assert (one.gives, one.read, one.used) == ("unlabelled", 21, 10)
    expected = {"empty source": 1, "also in test": 3, "also in dev": 3, "also in train": 3, "repeated": 1}
    assert one.dropped == expected
    assert (two.read, two.used, two.dropped) == (40, 30, {"repeated": 10})


def test_rows_that_a_limit_leaves_out_of_train_may_come_back_without_their_targets(
    settings: DataSettings, tmp_path: Path
) -> None:
    alone = read_parallel(settings, ParallelSettings())
    every = lines(tmp_path / "all.en", [source for source, _ in ROWS])
    found = read(settings.but(limit=50, limit_dev=5), every)
    assert int(found.train.has_target.sum()) == 50
    assert {*found.train.sources} == {*alone.train.sources}
    assert not {*found.train.sources} & {*alone.dev.sources, *alone.test.sources}


def test_a_limit_draws_sources_and_each_file_tells_its_own(settings: DataSettings, tmp_path: Path) -> None:
    names = [lines(tmp_path / f"{name}.en", [f"{name} {text}" for text in NEW]) for name in "ab"]
    found = read(settings.but(limit_unlabelled=30), ",".join(names))
    used = [one.used for one in found.card.sources[1:]]
    assert len(added(found)) == sum(used) == 30
    assert [one.dropped["over the limit"] for one in found.card.sources[1:]] == [40 - one for one in used]
    assert "unlabelled: 30 of 80 rows (--data.limit-unlabelled)" in found.card.notes


def test_every_format_is_read(settings: DataSettings, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": 1, "source": NEW[0]}))
    with gzip.open(tmp_path / "b.en.gz", "wt", encoding="utf-8") as file:
        file.write(NEW[1] + "\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "one.txt").write_text(f"{NEW[2]}\nand a second line\n")
    rows = [{"id": 3, "translation": {"source": NEW[3], "target": "x"}}]
    datasets.Dataset.from_list(rows).save_to_disk(str(tmp_path / "saved"))
    table(tmp_path / "only.csv", ("words",), [(NEW[4],)])
    table(tmp_path / "bare.csv", (NEW[5],), [(NEW[6],)])
    table(tmp_path / "named.tsv", ("source", "url"), [(NEW[7], "here")])
    names = ("a.jsonl", "b.en.gz", "folder", "saved", "only.csv", "bare.csv", "named.tsv")
    found = read(settings, ",".join(str(tmp_path / name) for name in names))
    assert added(found) == [*NEW[:2], f"{NEW[2]}\nand a second line", *NEW[3:8]]


@pytest.mark.parametrize(
    ("names", "columns", "expected"),
    [
        (("here", "there"), ("there", "here", "source"), "here"),  # as in train
        (("here", "there"), ("id", "source", "target"), "source"),
        (("de", "en"), ("en", "de"), "de"),
        (("1", "2"), ("1", "2"), "1"),
    ],
)
def test_the_column_is_trains_or_has_a_known_name_and_targets_are_passed_over(
    tmp_path: Path, names: tuple[str, str], columns: tuple[str, ...], expected: str
) -> None:
    pairs = {"source_column": names[0], "target_column": names[1]}
    train = table(tmp_path / "train.tsv", names, ROWS)
    mono = table(tmp_path / "mono.tsv", columns, [[f"{name} {n}" for name in columns] for n in range(20)])
    found = read(DataSettings(train=train), mono, **pairs)
    assert added(found) == [f"{expected} {n}" for n in range(20)]
    target = names[1] if names[1] in columns else "target"
    assert f"{mono}: its column '{target}' is ignored; the teacher translates these sources" in found.card.notes


def test_plain_text_is_text_whatever_the_columns_of_train_are_called(tmp_path: Path) -> None:
    train = table(tmp_path / "train.tsv", ROWS[0], ROWS[1:])
    found = read(DataSettings(train=train), lines(tmp_path / "mono.txt", NEW), source_column="2", target_column="1")
    assert added(found) == NEW


def test_targets_in_place_of_sources_are_noticed(settings: DataSettings, tmp_path: Path) -> None:
    found = read(settings, lines(tmp_path / "mono.de", [f"Neuer deutscher Satz {n}er" for n in range(40)]))
    assert any("texts of another language" in note for note in found.card.notes)
    found = read(settings, lines(tmp_path / "mono.en", NEW))
    assert not any("texts of another language" in note for note in found.card.notes)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no file"),
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("colour,size\nred,3\nblue,4\n", "no column is known as the source; its columns: 'colour', 'size'"),
        ("source,id\n,3\n", r"no source of it is new \(1 empty source\)"),
        (f"source,id\n{ROWS[0][0]},3\n", r"no source of it is new \(1 also in \w+\)"),
    ],
)
def test_a_file_that_cannot_serve_is_refused(
    settings: DataSettings, tmp_path: Path, content: str | None, said: str
) -> None:
    path = tmp_path / "more.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(LimbeckError, match=said) as caught:
        read(settings, path)
    assert caught.value.remedy


def test_the_file_of_test_or_dev_is_refused(settings: DataSettings, tmp_path: Path) -> None:
    held_out = table(tmp_path / "held.tsv", ("source", "target"), [("a", "b")])
    for split in ("dev", "test"):
        with pytest.raises(KnobError, match=rf"--unlabelled and --data\.{split} are the same file"):
            read(settings.but(**{split: held_out}), held_out)


def test_without_pairs_sources_are_the_whole_of_train(tmp_path: Path) -> None:
    held_out = {
        split: table(tmp_path / f"{split}.tsv", ("source", "target"), [(f"{split} {n}", "Ziel") for n in range(9)])
        for split in ("dev", "test")
    }
    mono = lines(tmp_path / "mono.en", [*NEW, "dev 3", "test 4"])
    found = read(DataSettings(**held_out), mono)
    assert found.train.sources == added(found) == NEW
    assert (len(found.dev), len(found.test)) == (9, 9)
    assert [one.gives for one in found.card.sources] == ["dev", "test", "unlabelled"]
    assert found.card.sources[-1].dropped == {"also in test": 1, "also in dev": 1}
    with pytest.raises(KnobError, match="has no targets, so nothing can be measured on it") as caught:
        read(DataSettings(dev=held_out["dev"]), mono)
    assert "--data.test" in caught.value.remedy


def test_rows_of_dev_without_a_target_are_counted_with_its_file(settings: DataSettings, tmp_path: Path) -> None:
    dev = table(tmp_path / "dev.tsv", ("source", "target"), [("a dev source", "Ziel"), ("another", "")])
    found = read(settings.but(dev=dev), lines(tmp_path / "mono.en", NEW))
    card = found.card.sources[1]
    assert (card.gives, card.read, card.used, card.dropped) == ("dev", 2, 1, {"empty target": 1})


def test_only_test_refuses_it(settings: DataSettings) -> None:
    with pytest.raises(KnobError, match="nobody answers them here"):
        read_parallel(settings.but(unlabelled="more.txt"), ParallelSettings(), only_test=True)
