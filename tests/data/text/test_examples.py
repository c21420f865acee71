"""Names, splits, counts: every row is accounted for and none depends on its neighbours."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limbeck.core.errors import DataError, KnobError, MismatchError
from limbeck.core.progress import Silent
from limbeck.data.settings import DataSettings
from limbeck.data.text.examples import Corpus, read_texts, relabel

WORDS = st.text("ab c", min_size=1, max_size=4).filter(str.strip)
ROWS = [{"text": f"text {n}", "label": n % 2} for n in range(1000)]


class Heard(Silent):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, message: str) -> None:
        self.lines.append(message)


def whole(rows: list[dict[str, Any]], **knobs: Any) -> Corpus:
    """All rows in train, two more in dev and test."""
    other = [{**rows[0], "text": "other one"}, {**rows[0], "text": "other two"}]
    return read_texts(DataSettings(task="multilabel", **knobs), {"train": rows, "dev": other[:1], "test": other[1:]})


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(WORDS, min_size=1, max_size=20), seed=st.integers(0, 99))
def test_uids_are_unique_and_do_not_depend_on_order_or_labels(texts: list[str], seed: int) -> None:
    rows = [{"text": text, "label": "x"} for text in texts]
    found = whole(rows)
    every = np.concatenate([part.uids for part in found.splits.values()])
    assert every.dtype == np.int64
    assert (every >= 0).all()
    assert len(set(every.tolist())) == len(every)
    shuffled = [{"text": text, "label": "y"} for text in random.Random(seed).sample(texts, len(texts))]
    again = whole(shuffled)
    for text in texts:
        uids = [
            {u for u, t in zip(c.train.uids.tolist(), c.train.texts, strict=True) if t == text} for c in (found, again)
        ]
        assert uids[0] == uids[1]


def test_uids_tell_pairs_and_splits_apart() -> None:
    pairs = [{"sentence1": a, "sentence2": b, "label": n} for n, (a, b) in enumerate([("ab", "c"), ("a", "bc")])]
    found = read_texts(DataSettings(), {"train": pairs, "dev": pairs, "test": pairs})
    every = [uid for part in found.splits.values() for uid in part.uids.tolist()]
    assert len(set(every)) == 6
    assert found.train.pairs == ["c", "bc"]


def test_a_text_beside_three_others_has_three_uids() -> None:
    """As in NLI: one premise, three hypotheses."""
    pairs = [{"sentence1": "p", "sentence2": f"h{n}", "label": n} for n in range(3)]
    found = read_texts(DataSettings(), {"train": pairs, "dev": pairs[:1], "test": pairs[1:2]})
    assert len(set(found.train.uids.tolist())) == 3


def test_a_uid_is_the_same_in_every_run_and_release() -> None:
    """A cache on disk is keyed by it: a change here makes every cache stale."""
    assert whole([{"text": "a fine film", "label": "x"}]).train.uids.tolist() == [7287098968016581188]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 9999), kept=st.integers(300, 1000))
def test_a_text_stays_in_its_split_whatever_else_the_file_holds(seed: int, kept: int) -> None:
    whole_file = read_texts(DataSettings(), ROWS)
    home = {text: split for split, part in whole_file.splits.items() for text in part.texts}
    some = read_texts(DataSettings(), random.Random(seed).sample(ROWS, kept))
    for split, part in some.splits.items():
        assert all(home[text] == split for text in part.texts)


def test_shares_and_duplicates_in_the_cut() -> None:
    twice = ROWS + [{**row, "label": 1} for row in ROWS]
    found = read_texts(DataSettings(dev_share=0.2), twice)
    sizes = {split: len(part) for split, part in found.splits.items()}
    assert sum(sizes.values()) == 2000
    assert abs(sizes["dev"] - 400) < 80
    assert abs(sizes["test"] - 200) < 60
    assert not set(found.train.texts) & (set(found.dev.texts) | set(found.test.texts))
    assert (found.card.duplicates, found.card.conflicts) == (1000, 500)


def test_the_dev_cut_does_not_depend_on_a_test_file() -> None:
    alone = read_texts(DataSettings(), ROWS)
    beside = read_texts(DataSettings(), {"train": ROWS, "test": [{"text": "new", "label": 1}]})
    assert alone.dev.texts == beside.dev.texts
    assert len(beside.train) == len(alone.train) + len(alone.test)


def test_limit_takes_the_same_rows_in_any_order_and_nested() -> None:
    rows = random.Random(0).sample(ROWS, len(ROWS))
    ten, twenty = (read_texts(DataSettings(limit=n), ROWS) for n in (10, 20))
    assert len(ten.train) == 10
    assert set(ten.train.texts) < set(twenty.train.texts)
    assert set(ten.train.texts) == set(read_texts(DataSettings(limit=10), rows).train.texts)
    everything = read_texts(DataSettings(), ROWS)
    assert ten.train.texts != everything.train.texts[:10]
    assert ten.dev.texts == everything.dev.texts
    assert len(read_texts(DataSettings(limit=5000), ROWS).train) == len(everything.train)


def test_a_small_file_is_not_cut() -> None:
    with pytest.raises(DataError, match=r"99 usable rows: too few to cut dev and test(.|\n)*--data.dev"):
        read_texts(DataSettings(), ROWS[:99])
    with pytest.raises(DataError, match="too few to cut dev and test"):
        read_texts(DataSettings(), [{"text": "same", "label": n % 2} for n in range(500)])
    with pytest.raises(KnobError, match="leave nothing for train"):
        read_texts(DataSettings(dev_share=0.5, test_share=0.5), ROWS)


def test_every_row_is_accounted_for_and_said() -> None:
    train = [
        {"text": "a", "label": "x"},
        {"text": "a", "label": "y"},
        {"text": "a", "label": None},
        {"text": "  ", "label": "x"},
        {"text": None, "label": "x"},
        {"text": float("nan"), "label": "x"},
        {"text": "b", "label": "y"},
    ]
    heard = Heard()
    found = read_texts(DataSettings(), {"train": train, "dev": train[:1], "test": train[-1:]}, heard)
    card = found.card
    assert (card.read, card.dropped, card.duplicates, card.conflicts) == (9, {"empty text": 3}, 2, 1)
    assert card.notes == ["1 of dev: the text also occurs in train", "1 of test: the text also occurs in train"]
    assert card.read == sum(split.rows for split in card.splits.values()) + sum(card.dropped.values())
    said = "\n".join(heard.lines)
    for part in (
        "text from text, label from label",
        "2 classes (x, y)",
        "3 dropped: empty text",
        "2 with a text seen before",
    ):
        assert part in said
    assert "1 without a label" in said
    assert "1 of them with another label" in said
    assert "note: 1 of test: the text also occurs in train" in said


def test_long_text_passes_whole() -> None:
    rows = [*ROWS[:200], {"text": "x" * 100_000, "label": 1}]
    found = read_texts(DataSettings(), rows)
    assert max(len(text) for part in found.splits.values() for text in part.texts) == 100_000


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"text": " ", "label": 1}], "every row has an empty text"),
        ([{"text": "a", "label": 1}, {"text": 7, "label": 0}], "row 2: column 'text' holds int '7', not text"),
        ([{"text": "a", "label": 1}, {"text": "\ud83d", "label": 0}], "row 2: the text holds half a character"),
    ],
)
def test_texts_that_cannot_be_used(rows: list[dict[str, Any]], message: str) -> None:
    good = [{"text": "c", "label": 1}]
    with pytest.raises(DataError, match=message):
        read_texts(DataSettings(), {"train": rows, "dev": good, "test": good})


def test_take_keeps_rows_together() -> None:
    some = read_texts(DataSettings(), ROWS).train
    part = some.take([5, 2])
    assert part.texts == [some.texts[5], some.texts[2]]
    assert part.uids.tolist() == some.uids[[5, 2]].tolist()
    assert part.labels.tolist() == some.labels[[5, 2]].tolist()
    assert len(some.take([])) == 0


def small(labels: list[Any], **knobs: Any) -> Corpus:
    rows = [{"text": f"t{n}", "label": label} for n, label in enumerate(labels)]
    return read_texts(DataSettings(**knobs), {"train": rows, "dev": rows[:2], "test": rows[:2]})


def test_relabel_by_name() -> None:
    found = relabel(small(["neg", "pos", None]), ["POS", "Neutral", "Neg"])
    assert found.task.labels == ("POS", "Neutral", "Neg")
    assert found.train.labels[:2].tolist() == [2, 0]
    assert found.train.has_label.tolist() == [True, True, False]
    assert found.card.splits["train"].per_class == {"POS": 1, "Neutral": 0, "Neg": 1}
    many = relabel(small(["a|b", "b", ""]), ["c", "b", "a"])
    assert many.train.labels.tolist() == [[0, 1, 1], [0, 1, 0], [0, 0, 0]]


def test_relabel_generic_names() -> None:
    generic = ["LABEL_0", "LABEL_1"]
    found = relabel(small([1, 0]), generic)
    assert (found.task.labels, found.train.labels.tolist()) == (("0", "1"), [1, 0])
    given_order = relabel(small(["a", "b"], classes="b,a"), generic, ordered=True)
    assert (given_order.task.labels, given_order.train.labels.tolist()) == (("b", "a"), [1, 0])
    assert relabel(small([0.5, 1.5]), ["LABEL_0"]).task.kind == "regress"


@pytest.mark.parametrize(
    ("labels", "model", "message"),
    [
        (["a", "b"], ["LABEL_0", "LABEL_1"], "which of them is 'a'(.|\n)*--data.classes a,b"),
        ([0, 1], ["LABEL_0", "LABEL_1", "LABEL_2"], r"2 classes \(0, 1\), but mine has 3"),
        ([1, 2], ["LABEL_0", "LABEL_1"], "which of them is '1'"),
        (["a", "b", "c"], ["a", "b"], "mine does not know the label c of the data; it knows a, b"),
        ([0, 1], ["NEG", "POS"], "does not know the labels 0, 1(.|\n)*--data.classes NEG,POS"),
        ([0.5, 1.5], ["a", "b"], "the data holds numbers, but mine has 2 outputs"),
    ],
)
def test_relabel_refuses_what_does_not_fit(labels: list[Any], model: list[str], message: str) -> None:
    with pytest.raises(MismatchError, match=message):
        relabel(small(labels), model, whose="mine")


def test_a_label_column_that_is_not_recognised_is_not_taken_for_unlabelled_data() -> None:
    rows = [{"text": f"text {number}", "verdict": "yes" if number % 2 else "no"} for number in range(200)]
    with pytest.raises(DataError, match="--label-column none"):
        read_texts(DataSettings(), rows, known=("no", "yes"))
    asked = read_texts(DataSettings(label_column="none"), rows, known=("no", "yes"))
    assert asked.task.labels == ("no", "yes")
    assert not asked.train.has_label.any()
    bare = read_texts(DataSettings(), [{"text": row["text"]} for row in rows], known=("no", "yes"))
    assert not bare.train.has_label.any()
