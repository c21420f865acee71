"""Texts without labels beside labelled ones: what is taken, what is dropped, and where they lie."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from limbeck.core.errors import DataError, KnobError, LimbeckError
from limbeck.data.settings import DataSettings
from limbeck.data.text.examples import Corpus, Examples, encode, read_texts
from limbeck.data.text.stored import StoredTexts
from limbeck.tasks.whole import data_fingerprint
from tiny import make_rows, make_tokenizer, write_csv

Row = dict[str, object]
PLACES = ("train", "dev", "test")


class Heard:
    """A watcher that keeps what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def at(self, *_: object, **__: object) -> None: ...

    def plan(self, *_: object) -> None: ...


def texts_of(corpus: Corpus, split: str) -> list[str]:
    return list(corpus.splits[split].texts)


def new_texts(count: int = 60, seed: int = 9) -> list[str]:
    """None like another."""
    return [f"{row['text']} number {place} of {seed}" for place, row in enumerate(make_rows(count, seed))]


def reviews(folder: Path, rows: list[Row] | None = None) -> str:
    return str(write_csv(folder / "reviews.csv", rows or make_rows()))


def read(folder: Path, unlabelled: object, place: Path | None = None, **knobs: object) -> Corpus:
    settings = DataSettings(train=reviews(folder), unlabelled=str(unlabelled), **knobs)
    return read_texts(settings, place=place)


def test_rows_join_train_without_a_label_and_all_else_stays_as_it_was(tmp_path: Path) -> None:
    alone = read_texts(DataSettings(train=reviews(tmp_path)))
    more = new_texts()
    write_csv(tmp_path / "more.csv", [{"text": text, "label": "positive"} for text in more])
    both = read(tmp_path, tmp_path / "more.csv")
    for split in ("dev", "test"):
        assert both.splits[split].uids.tolist() == alone.splits[split].uids.tolist()
    known = len(alone.train)
    assert both.train.uids[:known].tolist() == alone.train.uids.tolist()
    assert texts_of(both, "train")[known:] == more
    assert both.train.has_label.tolist() == [True] * known + [False] * len(more)
    assert len(set(both.train.uids.tolist())) == len(both.train)
    assert any("column 'label' is ignored" in note for note in both.card.notes)


def test_what_is_known_is_dropped_and_counted_file_by_file(tmp_path: Path) -> None:
    alone = read_texts(DataSettings(train=reviews(tmp_path)))
    new = new_texts(20)
    some = {split: texts_of(alone, split)[:3] for split in PLACES}
    first = [*new[:10], new[0], *some["train"], *some["dev"], *some["test"], ""]
    write_csv(tmp_path / "first.csv", [{"text": text, "source": "a"} for text in first])
    (tmp_path / "second.txt").write_text("\n".join(new) + "\n", encoding="utf-8")
    found = read(tmp_path, f"{tmp_path / 'first.csv'}, {tmp_path / 'second.txt'}")
    cards = {Path(one.source).name: one for one in found.card.sources}
    assert texts_of(found, "train")[-20:] == new
    assert cards["reviews.csv"].gives == "train, dev, test"
    assert (cards["first.csv"].read, cards["first.csv"].used) == (21, 10)
    expected = {"empty text": 1, "also in test": 3, "also in dev": 3, "also in train": 3, "repeated": 1}
    assert cards["first.csv"].dropped == expected
    assert (cards["second.txt"].read, cards["second.txt"].used, cards["second.txt"].dropped) == (
        20,
        10,
        {"repeated": 10},
    )
    assert not {*texts_of(found, "train")} & {*texts_of(found, "dev"), *texts_of(found, "test")}
    assert "10 of 20 rows for the teacher to answer; dropped: 10 repeated" in cards["second.txt"].sentence


def test_every_format_is_read(tmp_path: Path) -> None:
    import datasets

    texts = new_texts(5)
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"review": text}) + "\n" for text in texts[:1]))
    with gzip.open(tmp_path / "b.txt.gz", "wt", encoding="utf-8") as file:
        file.write(texts[1] + "\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "one.txt").write_text(f"{texts[2]}\nand a second line\n")
    datasets.Dataset.from_dict({"text": texts[3:4]}).save_to_disk(str(tmp_path / "saved"))
    write_csv(tmp_path / "only.csv", [{"words": texts[4]}])
    names = [tmp_path / name for name in ("a.jsonl", "b.txt.gz", "folder", "saved", "only.csv")]
    found = read(tmp_path, ",".join(map(str, names)))
    expected = [texts[0], texts[1], f"{texts[2]}\nand a second line", texts[3], texts[4]]
    assert texts_of(found, "train")[-5:] == expected


def test_pairs_take_both_columns(tmp_path: Path) -> None:
    rows = [
        {"premise": row["text"], "hypothesis": f"it is {place}", "label": "ab"[place % 2]}
        for place, row in enumerate(make_rows())
    ]
    train = str(write_csv(tmp_path / "pairs.csv", rows))
    more = [("a film", "it was seen"), ("a plot", "it is thin")]
    write_csv(tmp_path / "more.csv", [{"premise": a, "hypothesis": b} for a, b in more])
    settings = DataSettings(train=train, unlabelled=str(tmp_path / "more.csv"))
    for place in (None, tmp_path / "place"):
        found = read_texts(settings, place=place)
        assert list(found.train.keys[-2:]) == more
    write_csv(tmp_path / "single.csv", [{"text": "a film", "other": "x"}])
    with pytest.raises(DataError, match="single texts, but train has pairs; its columns: 'text', 'other'"):
        read_texts(settings.but(unlabelled=str(tmp_path / "single.csv")))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no file"),
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("colour,size\nred,3\nblue,4\n", "no column is known as the text; its columns: 'colour', 'size'"),
    ],
)
def test_a_file_that_cannot_serve_is_refused(tmp_path: Path, content: str | None, said: str) -> None:
    path = tmp_path / "more.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(LimbeckError, match=said):
        read(tmp_path, path)


def test_the_file_of_test_or_dev_is_refused(tmp_path: Path) -> None:
    held_out = write_csv(tmp_path / "held.csv", make_rows(40, 3))
    for split in ("dev", "test"):
        with pytest.raises(KnobError, match=rf"--unlabelled and --data\.{split} are the same file"):
            read(tmp_path, held_out, **{split: str(held_out)})


def test_a_file_with_nothing_new_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no text of it is new \(.*also in train"):
        read(tmp_path, reviews(tmp_path))


def test_a_limit_draws_rows_and_each_file_tells_its_own(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("\n".join(new_texts(40, seed=ord(name))) + "\n")
    found = read(tmp_path, f"{tmp_path}/a.txt,{tmp_path}/b.txt", limit_unlabelled=30, limit=50)
    used = [one.used for one in found.card.sources if one.gives == "unlabelled"]
    assert sum(used) == 30
    assert [one.dropped["over the limit"] for one in found.card.sources[1:]] == [40 - one for one in used]
    assert found.train.has_label.sum() == 50
    assert len(found.train) == 80


def test_another_language_is_said(tmp_path: Path) -> None:
    (tmp_path / "de.txt").write_text("\n".join(f"der Streifen war leider nicht gelungen {n}" for n in range(30)))
    foreign = read(tmp_path, tmp_path / "de.txt")
    assert any("of another language" in note for note in foreign.card.notes)
    (tmp_path / "en.txt").write_text("\n".join(new_texts()))
    assert not any("of another language" in note for note in read(tmp_path, tmp_path / "en.txt").card.notes)


def test_without_labelled_data_dev_and_test_are_cut_from_the_texts(tmp_path: Path) -> None:
    texts = new_texts(300)
    (tmp_path / "raw.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    found = read_texts(DataSettings(unlabelled=str(tmp_path / "raw.txt")), known=("no", "yes"))
    assert sorted(text for split in PLACES for text in texts_of(found, split)) == sorted(texts)
    assert min(len(found.splits[split]) for split in PLACES) > 10
    assert not any(part.has_label.any() for part in found.splits.values())
    test = write_csv(tmp_path / "test.csv", [{"text": texts[0], "label": "no"}, *make_rows(30, 4)])
    settings = DataSettings(unlabelled=str(tmp_path / "raw.txt"), test=str(test), classes="no,negative,positive")
    beside = read_texts(settings, known=())
    assert texts[0] not in texts_of(beside, "train")
    assert beside.test.has_label.all()
    assert beside.card.sources[-1].dropped == {"also in test": 1}


# Dev and test are cut from labelled rows alone


def test_empty_label_cells_stay_in_train_and_the_labelled_rows_are_cut_as_ever(tmp_path: Path) -> None:
    labelled = make_rows()
    whole = read_texts(DataSettings(train=reviews(tmp_path)))
    bare: list[Row] = [{"text": text, "label": ""} for text in new_texts(300)]
    mixed = [row for both in zip(labelled, bare, strict=False) for row in both] + bare[len(labelled) :]
    found = read_texts(DataSettings(train=str(write_csv(tmp_path / "mixed.csv", mixed))))
    for split in ("dev", "test"):
        assert texts_of(found, split) == texts_of(whole, split)
    known = found.train.take(np.flatnonzero(found.train.has_label))
    assert list(known.texts) == texts_of(whole, "train")
    assert len(found.train) == len(whole.train) + 300
    assert (
        texts_of(found, "train")[:2] == [row["text"] for row in mixed if row["text"] in {*texts_of(found, "train")}][:2]
    )


def test_an_unlabelled_copy_of_a_held_out_text_is_dropped(tmp_path: Path) -> None:
    whole = read_texts(DataSettings(train=reviews(tmp_path)))
    copies: list[Row] = [{"text": texts_of(whole, split)[0], "label": ""} for split in PLACES]
    found = read_texts(DataSettings(train=str(write_csv(tmp_path / "mixed.csv", [*make_rows(), *copies]))))
    assert found.card.dropped == {"no label, and its text is in dev or test": 2}
    assert len(found.train) == len(whole.train) + 1


def test_too_few_labelled_rows_say_so(tmp_path: Path) -> None:
    rows: list[Row] = [*make_rows(20), *({"text": text, "label": ""} for text in new_texts(300))]
    with pytest.raises(DataError, match="has 20 labelled rows: too few to cut dev and test from"):
        read_texts(DataSettings(train=str(write_csv(tmp_path / "mixed.csv", rows))))


def test_dev_rows_are_counted_among_the_labelled(tmp_path: Path) -> None:
    rows: list[Row] = [*make_rows(), *({"text": text, "label": ""} for text in new_texts(300))]
    found = read_texts(DataSettings(train=str(write_csv(tmp_path / "mixed.csv", rows)), dev_rows=25))
    assert len(found.dev) == 25
    assert found.dev.has_label.all()


# On disk


def stored(tmp_path: Path) -> tuple[Corpus, Corpus]:
    (tmp_path / "more.txt").write_text("\n".join([*new_texts(), "ein Film über Äpfel 🍎"]) + "\n", encoding="utf-8")
    return read(tmp_path, tmp_path / "more.txt"), read(tmp_path, tmp_path / "more.txt", place=tmp_path / "place")


def same(one: Examples, other: Examples) -> bool:
    ours, theirs = (encode(examples, make_tokenizer(), 12) for examples in (one, other))
    assert (ours.truncated, ours.lengths) == (theirs.truncated, theirs.lengths)
    return [ours[row] for row in range(len(ours))] == [theirs[row] for row in range(len(theirs))]


def test_texts_and_tokens_on_disk_are_those_in_memory(tmp_path: Path) -> None:
    memory, disk = stored(tmp_path)
    assert isinstance(disk.train.texts, StoredTexts)
    assert list(disk.train.texts) == list(memory.train.texts)
    assert disk.train.texts[-1] == "ein Film über Äpfel 🍎"
    assert same(memory.train, disk.train)
    some = np.array([5, 3, 250])
    assert same(memory.train.take(some), disk.train.take(some))
    tokens = encode(disk.train, make_tokenizer(), 12)
    assert isinstance(tokens._columns["input_ids"], np.memmap)


def test_a_folder_is_found_again_and_a_damaged_one_written_again(tmp_path: Path) -> None:
    memory, disk = stored(tmp_path)
    assert same(memory.train, disk.train)
    files = sorted((tmp_path / "place").rglob("*.bin"))
    before = {file: file.stat().st_mtime_ns for file in files}
    assert same(memory.train, stored(tmp_path)[1].train)
    assert {file: file.stat().st_mtime_ns for file in files} == before
    tokens = next(file for file in files if file.name == "input_ids.bin")
    content = bytearray(tokens.read_bytes())
    content[8] ^= 1
    shutil.copy(tokens, tmp_path / "kept")
    tokens.write_bytes(content)
    assert same(memory.train, stored(tmp_path)[1].train)
    assert tokens.read_bytes() == (tmp_path / "kept").read_bytes()


def test_the_order_of_the_file_changes_no_row(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("\n".join(new_texts()))
    first = read(tmp_path, tmp_path / "more.txt")
    (tmp_path / "more.txt").write_text("\n".join(reversed(new_texts())))
    second = read(tmp_path, tmp_path / "more.txt")
    named = [dict(zip(one.train.uids.tolist(), one.train.texts, strict=True)) for one in (first, second)]
    assert named[0] == named[1]
    assert data_fingerprint(first, "") == data_fingerprint(second, "")


def test_a_disk_that_cannot_take_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("limbeck.data.text.stored.shutil.disk_usage", lambda _: usage(1, 1, 1))
    (tmp_path / "more.txt").write_text("\n".join(new_texts()) + "\n")
    with pytest.raises(KnobError, match=r"the unlabelled texts need .* MB left"):
        read(tmp_path, tmp_path / "more.txt", place=tmp_path / "place")
    assert not list((tmp_path / "place").glob("*"))  # nor a hidden part


def test_only_test_refuses_it(tmp_path: Path) -> None:
    with pytest.raises(KnobError, match="nobody answers them here"):
        read_texts(DataSettings(train=reviews(tmp_path), unlabelled="more.txt"), only_test=True)
