"""Sentences without tags and questions without answers beside labelled ones: what is taken, and what is dropped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import pytest

from limbeck.core.errors import DataError, KnobError, LimbeckError
from limbeck.data.settings import DataSettings, WindowSettings
from limbeck.data.sources.conll import has_word_lines
from limbeck.data.span.questions import read_questions
from limbeck.data.token.sentences import new_sentences, read_sentences
from limbeck.data.windows import WindowRows, numbered
from tiny import write_csv
from tiny_places import TAGS, make_questions, make_sentences

Row = dict[str, Any]
PLACES = ("train", "dev", "test")


class Kind(NamedTuple):
    name: str
    unit: str
    gold: str  # the column of labels

    def rows(self, count: int = 240, seed: int = 0) -> list[Row]:
        """None like another, whatever the seed; of questions, three share a context."""
        if self.name == "tag":
            made: list[Row] = make_sentences(count, seed)
            return [
                {"tokens": [*row["tokens"], f"n{place}", f"s{seed}"], "tags": [*row["tags"], "O", "O"]}
                for place, row in enumerate(made)
            ]
        made = make_questions(count, seed)
        return [
            {**made[place - place % 3], "question": f"{row['question']} n{place} s{seed}"}
            | {"context": f"{made[place - place % 3]['context']} n{place - place % 3} s{seed}"}
            for place, row in enumerate(made)
        ]

    def bare(self, count: int = 60, seed: int = 9) -> list[Row]:
        return [{name: cell for name, cell in row.items() if name != self.gold} for row in self.rows(count, seed)]

    def read(self, folder: Path, unlabelled: object = "", places: Row | None = None, **knobs: Any) -> WindowRows[Any]:
        train = knobs.pop("train") if "train" in knobs else lines(folder / "labelled.jsonl", self.rows())
        settings = DataSettings(train=str(train), unlabelled=str(unlabelled), **knobs)
        windows = WindowSettings(**(places or {}))
        if self.name == "tag":
            return read_sentences(settings, windows, known=TAGS)
        return read_questions(settings, windows)


TAG, ANSWER = Kind("tag", "sentence", "tags"), Kind("answer", "question", "answers")


@pytest.fixture(params=[TAG, ANSWER], ids=lambda one: one.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


def lines(path: Path, rows: list[Row]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def keys(found: WindowRows[Any], split: str) -> list[tuple[str, ...]]:
    return [row.key for row in found.parts[split].rows]


def key_of(row: Row) -> tuple[str, ...]:
    return tuple(row["tokens"]) if "tokens" in row else (row["question"], row["context"])


def uids(found: WindowRows[Any]) -> dict[str, list[int]]:
    return {split: names.tolist() for split, _, _, names in numbered(found)}


def added(found: WindowRows[Any]) -> list[tuple[str, ...]]:
    return [row.key for row in found.parts["train"].rows if not row.has_label]


def test_rows_join_train_without_gold_and_all_else_stays_as_it_was(tmp_path: Path, kind: Kind) -> None:
    alone = kind.read(tmp_path)
    both = kind.read(tmp_path, lines(tmp_path / "more.jsonl", kind.rows(60, seed=9)))
    before, after = uids(alone), uids(both)
    assert (after["dev"], after["test"]) == (before["dev"], before["test"])
    assert after["train"][: len(before["train"])] == before["train"]
    assert len(set(after["train"])) == len(before["train"]) + 60
    assert added(both) == [key_of(row) for row in kind.bare()]
    assert not any(any(row.gold) for row in both.parts["train"].rows if not row.has_label)
    train, held_out = both.card.splits["train"], both.card.splits["test"]
    assert train.rows - train.labelled == 60
    assert train.per_class == alone.card.splits["train"].per_class
    assert held_out == alone.card.splits["test"]
    ignored = f"its column '{kind.gold}' is ignored; the teacher answers these {kind.unit}s"
    assert any(ignored in note for note in both.card.notes)


def test_without_a_file_no_source_is_told(tmp_path: Path, kind: Kind) -> None:
    assert kind.read(tmp_path).card.sources == []


def test_what_is_known_is_dropped_and_counted_file_by_file(tmp_path: Path, kind: Kind) -> None:
    alone, rows = kind.read(tmp_path), {key_of(row): row for row in kind.rows()}
    new = kind.bare(20)
    some = {split: [rows[key] for key in keys(alone, split)[:3]] for split in PLACES}
    empty = {"tokens": []} if kind.name == "tag" else {"question": "", "context": "x"}
    first = [*new[:10], new[0], *some["train"], *some["dev"], *some["test"], empty]
    names = [lines(tmp_path / "first.jsonl", first), lines(tmp_path / "second.jsonl", new)]
    found = kind.read(tmp_path, ",".join(map(str, names)))
    cards = {Path(one.source).name: one for one in found.card.sources}
    assert added(found) == [key_of(row) for row in new]
    assert (cards["labelled.jsonl"].gives, cards["labelled.jsonl"].used) == ("train, dev, test", 240)
    assert (cards["first.jsonl"].read, cards["first.jsonl"].used) == (21, 10)
    blank = "empty sentence" if kind.name == "tag" else "empty question or text"
    expected = {blank: 1, "also in test": 3, "also in dev": 3, "also in train": 3, "repeated": 1}
    assert cards["first.jsonl"].dropped == expected
    assert (cards["second.jsonl"].used, cards["second.jsonl"].dropped) == (10, {"repeated": 10})
    assert "10 of 20 rows for the teacher to answer; dropped: 10 repeated" in cards["second.jsonl"].sentence


def test_rows_that_a_limit_leaves_out_of_test_are_not_learnt_from(tmp_path: Path, kind: Kind) -> None:
    whole = kind.read(tmp_path)
    again = lines(tmp_path / "again.jsonl", kind.rows())
    found = kind.read(tmp_path, again, limit_test=2, limit_dev=2, limit=50)
    assert set(added(found)) == {*keys(whole, "train")} - {*keys(found, "train")[:50]}
    assert len(added(found)) == len(keys(whole, "train")) - 50


def test_a_limit_draws_rows_and_each_file_tells_its_own(tmp_path: Path, kind: Kind) -> None:
    for name in "ab":
        lines(tmp_path / f"{name}.jsonl", kind.bare(40, seed=ord(name)))
    found = kind.read(tmp_path, f"{tmp_path}/a.jsonl,{tmp_path}/b.jsonl", limit_unlabelled=30)
    used = [one.used for one in found.card.sources if one.gives == "unlabelled"]
    assert sum(used) == len(added(found)) == 30
    assert [one.dropped["over the limit"] for one in found.card.sources[1:]] == [40 - one for one in used]
    assert any("unlabelled: 30 of 80 rows (--data.limit-unlabelled)" in note for note in found.card.notes)


def test_without_labelled_data_dev_and_test_are_cut_from_the_rows(tmp_path: Path, kind: Kind) -> None:
    raw = lines(tmp_path / "raw.jsonl", kind.bare(300))
    found = kind.read(tmp_path, raw, train="")
    assert sorted(key for split in PLACES for key in keys(found, split)) == sorted(map(key_of, kind.bare(300)))
    assert min(len(keys(found, split)) for split in PLACES) > 10
    assert not any(part.has_labels for part in found.parts.values())
    assert [one.gives for one in found.card.sources] == ["unlabelled"]
    test = lines(tmp_path / "test.jsonl", [*kind.rows(30, seed=4), kind.rows(300, seed=9)[0]])
    beside = kind.read(tmp_path, raw, train="", test=str(test))
    assert beside.card.splits["test"].labelled == 31
    assert beside.card.sources[-1].dropped == {"also in test": 1}


def test_another_language_is_said(tmp_path: Path, kind: Kind) -> None:
    foreign = [f"der Streifen war leider nicht gelungen {place}" for place in range(30)]
    cells = [{"tokens": text, "question": text, "context": text} for text in foreign]
    found = kind.read(tmp_path, lines(tmp_path / "de.jsonl", cells))
    assert any("of another language" in note for note in found.card.notes)
    near = kind.read(tmp_path, lines(tmp_path / "en.jsonl", kind.bare()))
    assert not any("of another language" in note for note in near.card.notes)


# Refused


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no file"),
        ("", "is empty"),
        ("tokens,question,context\n,,\n", "is empty"),
        (
            "colour,size\nred,3\nblue,4\n",
            r"no column is known (to hold words|as the question); its columns: colour, size",
        ),
    ],
)
def test_a_file_that_cannot_serve_is_refused(tmp_path: Path, kind: Kind, content: str | None, said: str) -> None:
    path = tmp_path / "more.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(LimbeckError, match=said) as caught:
        kind.read(tmp_path, path)
    assert caught.value.remedy


def test_the_file_of_test_or_dev_is_refused(tmp_path: Path, kind: Kind) -> None:
    held_out = lines(tmp_path / "held.jsonl", kind.rows(40, 3))
    for split in ("dev", "test"):
        with pytest.raises(KnobError, match=rf"--unlabelled and --data\.{split} are the same file"):
            kind.read(tmp_path, held_out, **{split: str(held_out)})


def test_a_file_with_nothing_new_is_refused(tmp_path: Path, kind: Kind) -> None:
    known = lines(tmp_path / "known.jsonl", kind.rows())
    with pytest.raises(
        DataError, match=rf"no {kind.unit} of it is new \(.*also in train.*\n  → give other {kind.unit}s"
    ):
        kind.read(tmp_path, known)


def test_only_test_refuses_it(tmp_path: Path) -> None:
    settings = DataSettings(train="labelled.jsonl", unlabelled="more.jsonl")
    with pytest.raises(KnobError, match="nobody answers them here"):
        read_sentences(settings, WindowSettings(), only_test=True)
    with pytest.raises(KnobError, match="nobody answers them here"):
        read_questions(settings, WindowSettings(), only_test=True)


# Sentences


def test_sentences_come_in_every_format(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [{"tokens": ["a", "good", "film"]}, {"tokens": "a bad film, seen twice"}])
    write_csv(tmp_path / "b.csv", [{"sentence": "the plot (thin)", "source": "web"}])
    (tmp_path / "c.conll").write_text("my\nstory\n\nyour\nstory\n")
    (tmp_path / "d.txt").write_text("the cast was fine\n\nnobody's music\n")
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "one.txt").write_text("one text\nof two lines\n")
    datasets.Dataset.from_dict({"words": [["from", "a", "folder"]]}).save_to_disk(str(tmp_path / "f"))
    write_csv(tmp_path / "g.csv", [{"anything": "the only column"}])
    (tmp_path / "h.txt").write_text("two\twords\n\nof\tCoNLL\n")
    names = ("a.jsonl", "b.csv", "c.conll", "d.txt", "e", "f", "g.csv", "h.txt")
    found = TAG.read(tmp_path, ",".join(str(tmp_path / name) for name in names))
    assert [" ".join(words) for words in added(found)] == [
        *("a good film", "a bad film , seen twice"),
        "the plot ( thin )",
        *("my story", "your story"),
        *("the cast was fine", "nobody's music"),
        "one text of two lines",
        "from a folder",
        "the only column",
        *("two", "of"),
    ]


def test_plain_lines_are_cut_into_the_words_that_predict_tags(tmp_path: Path) -> None:
    path = tmp_path / "raw.txt"
    path.write_text("Don't go to the U.S., film-lover: 東京!\nIt was good.\n", encoding="utf-8")
    _, predicted = new_sentences(DataSettings(train=str(path)), WindowSettings(), None)
    assert added(TAG.read(tmp_path, path)) == predicted
    assert predicted[1] == ("It", "was", "good", ".")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the\nfilm\n", True),
        ("the\nfilm\n\nmy\nplot\n", True),
        ("the O\nfilm O\n\nmy O\nplot O\n", True),
        ("the\tO\nfilm\tO\n", True),
        ("the O\nfilm O\nwas O\n\nmy O\nown O\nplot\n", True),  # a slip, which the reader of CoNLL names
        ("# a comment of some words\nthe O\nfilm O\n\nmy O\n", True),
        ("the film was funny\nthe plot was dull\n", False),  # as many words on each line
        ("good film\n", False),
        ("one paragraph here\n\nand another one, which is longer\n", False),
        ("a film\n\nthe film was seen\nthe plot was thin\nthe cast was fine\n", False),
        ("good\nbad film\n", False),
        ("", False),
    ],
)
def test_a_word_on_each_line_is_told_from_a_sentence(text: str, expected: bool) -> None:
    assert has_word_lines(text) is expected


def test_a_folder_of_conll_files_is_no_folder_of_texts(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "train.txt").write_text("the O\nfilm B-WORK\n\nmy O\nplot O\n")
    with pytest.raises(
        DataError, match="each text has a word per line, as CoNLL has\n  → give such files by their names"
    ):
        TAG.read(tmp_path, tmp_path / "folder")


def test_a_test_sentence_cut_into_other_words_is_dropped(tmp_path: Path) -> None:
    rows = [{"tokens": ["do", "n't", "go", f"{place}"], "tags": ["O"] * 4} for place in range(40)]
    test = lines(tmp_path / "test.jsonl", rows)
    (tmp_path / "raw.txt").write_text("don't go 7\ndon't stay 7\n")
    found = TAG.read(tmp_path, tmp_path / "raw.txt", test=str(test))
    assert added(found) == [("don't", "stay", "7")]
    assert found.card.sources[-1].dropped == {"also in test": 1}


def test_the_columns_of_train_count_first_and_others_serve_where_it_has_them_not(tmp_path: Path) -> None:
    rows = [{"pieces": row["tokens"], "kinds": row["tags"]} for row in TAG.rows()]
    train = lines(tmp_path / "train.jsonl", rows)
    lines(tmp_path / "a.jsonl", [{"tokens": ["not", "this"], "pieces": ["but", "this"], "kinds": ["O", "O"]}])
    (tmp_path / "b.txt").write_text("a plain line\n")
    flags = {"word_column": "pieces", "tag_column": "kinds"}
    found = TAG.read(tmp_path, f"{tmp_path}/a.jsonl,{tmp_path}/b.txt", flags, train=train)
    assert added(found) == [("but", "this"), ("a", "plain", "line")]
    assert any("a.jsonl: its column 'kinds' is ignored" in note for note in found.card.notes)


# Questions


def test_questions_come_in_every_format(tmp_path: Path) -> None:
    def squad(**entry: object) -> str:
        return json.dumps({"data": [{"paragraphs": [{"context": "a film", "qas": [{"question": "a?", **entry}]}]}]})

    (tmp_path / "a.json").write_text(squad())
    lines(tmp_path / "b.jsonl", [{"query": "b?", "passage": "a plot", "answer": None, "reply": "x"}])
    write_csv(
        tmp_path / "c.csv", [{"question": "c?", "context": "a story", "answers": "story", "is_impossible": "true"}]
    )
    datasets.Dataset.from_dict({"question": ["d?"], "context": ["a cast"]}).save_to_disk(str(tmp_path / "d"))
    found = ANSWER.read(tmp_path, ",".join(str(tmp_path / name) for name in ("a.json", "b.jsonl", "c.csv", "d")))
    assert added(found) == [("a?", "a film"), ("b?", "a plot"), ("c?", "a story"), ("d?", "a cast")]
    assert not found.nullable
    ignored = [note for note in found.card.notes if "is ignored" in note]
    assert len(ignored) == 1  # of files with an answer in some cell
    assert "c.csv: its column 'answers' is ignored" in ignored[0]


def test_a_new_question_about_a_known_text_is_new_and_the_text_is_counted(tmp_path: Path) -> None:
    alone = ANSWER.read(tmp_path)
    context = keys(alone, "test")[0][1]
    of_it = sum(key[1] == context for key in keys(alone, "test"))
    more = lines(tmp_path / "more.jsonl", [{"question": "who else?", "context": context}])
    found = ANSWER.read(tmp_path, more)
    assert added(found) == [("who else?", context)]
    assert any(note.startswith(f"{of_it:,} of test: the paragraph also occurs in train") for note in found.card.notes)


def test_plain_text_is_no_question(tmp_path: Path) -> None:
    (tmp_path / "raw.txt").write_text("a text\nand another\n")
    with pytest.raises(DataError, match="no column is known as the context"):
        ANSWER.read(tmp_path, tmp_path / "raw.txt")
