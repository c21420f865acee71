"""What the labels look like decides the task; what cannot be a label is refused with its row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from limbeck.core.errors import DataError
from limbeck.data.settings import DataSettings
from limbeck.data.text.examples import Corpus, read_texts


def corpus(labels: list[Any], dev: list[Any] | None = None, **knobs: Any) -> Corpus:
    """All labels in train; dev and test are given so that nothing is cut."""
    other = labels[:1] if dev is None else dev
    rows = {
        split: [{"text": f"{split} {n}", "label": label} for n, label in enumerate(values)]
        for split, values in {"train": labels, "dev": other, "test": labels[:1]}.items()
    }
    return read_texts(DataSettings(**knobs), rows)


@pytest.mark.parametrize(
    ("cells", "kind", "names", "expected"),
    [
        (["b", "a", "b"], "classify", ("a", "b"), [1, 0, 1]),
        ([10, 9, 10], "classify", ("9", "10"), [1, 0, 1]),
        (["10", "9.0", "10.0"], "classify", ("9", "10"), [1, 0, 1]),
        ([1.0, 0.0, 1.0], "classify", ("0", "1"), [1, 0, 1]),
        ([True, False, True], "classify", ("False", "True"), [1, 0, 1]),
        (["1", "b", "1"], "classify", ("1", "b"), [0, 1, 0]),
        ([" a ", "b", "a"], "classify", ("a", "b"), [0, 1, 0]),
        (["5.000", "3.8", "1"], "regress", (), [5.0, 3.8, 1.0]),
        ([0.5, 2, 1], "regress", (), [0.5, 2.0, 1.0]),
        (["a|b", "b", "c"], "multilabel", ("a", "b", "c"), [[1, 1, 0], [0, 1, 0], [0, 0, 1]]),
        ([["a", "b"], [], ["c"]], "multilabel", ("a", "b", "c"), [[1, 1, 0], [0, 0, 0], [0, 0, 1]]),
        ([[2, 0], [10], [0]], "multilabel", ("0", "2", "10"), [[1, 1, 0], [0, 0, 1], [1, 0, 0]]),
    ],
)
def test_task_is_read_from_the_labels(cells: list[Any], kind: str, names: tuple[str, ...], expected: list[Any]) -> None:
    found = corpus(cells)
    assert (found.task.kind, found.task.labels) == (kind, names)
    assert np.allclose(found.train.labels, expected)
    assert found.train.labels.dtype == (np.int64 if kind == "classify" else np.float32)
    assert found.train.has_label.all()


def test_task_by_flag() -> None:
    assert corpus([1, 2, 3], task="regress").train.labels.tolist() == [1.0, 2.0, 3.0]
    assert corpus(["a|b", "c"], task="classify").task.labels == ("a|b", "c")
    assert corpus(["a;b", "c"], separator=";").task.kind == "multilabel"
    with pytest.raises(DataError, match=r"row 2: the label 'x' is not a number(.|\n)*--data.task classify"):
        corpus([1, "x"], task="regress")
    with pytest.raises(DataError, match="labels are lists"):
        corpus([["a"], ["b"]], task="classify")


def test_several_columns_of_flags() -> None:
    rows: list[dict[str, Any]] = [
        {"text": "p", "toxic": "1", "rude": "0"},
        {"text": "q", "toxic": "0", "rude": "0"},
        {"text": "r", "toxic": "", "rude": ""},
        {"text": "s", "toxic": 1, "rude": True},
    ]
    data = {"train": rows, "dev": rows[:1], "test": rows[:1]}
    found = read_texts(DataSettings(label_column="toxic,rude"), data)
    assert found.task.kind == "multilabel"
    assert found.task.labels == ("toxic", "rude")
    assert found.train.labels.tolist() == [[1, 0], [0, 0], [0, 0], [1, 1]]
    assert found.train.has_label.tolist() == [True, True, False, True]
    rows[1]["rude"] = "2"
    with pytest.raises(DataError, match="row 2: column 'rude' holds '2'"):
        read_texts(DataSettings(label_column="toxic,rude"), data)


def test_classes_give_the_order_or_the_names() -> None:
    ordered = corpus(["b", "a"], classes="b, a")
    assert (ordered.task.labels, ordered.train.labels.tolist()) == (("b", "a"), [0, 1])
    named = corpus([1, 0, 1], classes="negative,positive")
    assert (named.task.labels, named.train.labels.tolist()) == (("negative", "positive"), [1, 0, 1])
    more = corpus(["b", "a"], classes="c,b,a")
    assert more.task.outputs == 3
    with pytest.raises(DataError, match=r"the label 'a' is not in --data\.classes"):
        corpus(["b", "a"], classes="b,c")
    with pytest.raises(DataError, match=r"not in --data\.classes"):
        corpus([1, 2], classes="one,two,three")
    with pytest.raises(DataError, match="twice"):
        corpus(["b", "a"], classes="a,b,a")


def test_unlabelled_rows_are_kept_and_marked() -> None:
    found = corpus(["a", "", None, " ", "b"])
    assert found.train.has_label.tolist() == [True, False, False, False, True]
    assert found.card.splits["train"].labelled == 2
    assert found.card.splits["train"].per_class == {"a": 1, "b": 1}
    bare = read_texts(DataSettings(classes="a,b"), [{"text": f"t{n}"} for n in range(200)])
    assert not bare.train.has_label.any()


@pytest.mark.parametrize("cell", ["nan", "NaN", float("nan"), float("inf"), ["a", None]])
def test_nan_is_refused_with_its_row(cell: Any) -> None:
    with pytest.raises(DataError, match=r"train\], row 3: the label in column 'label' is (.|\n)*leave the cell empty"):
        corpus(["a", "b", cell])


def test_one_class_is_refused() -> None:
    with pytest.raises(DataError, match="one class 'a'"):
        corpus(["a", "a", None])


def test_free_text_as_label_is_refused() -> None:
    with pytest.raises(DataError, match=r"1,500 different labels(.|\n)*--label-column"):
        corpus([f"comment {n}" for n in range(1500)])
    with pytest.raises(DataError, match=r"1,500 different labels(.|\n)*--data.task regress"):
        corpus(list(range(1500)))


def test_label_unknown_to_train_is_refused() -> None:
    with pytest.raises(DataError, match=r"dev\], row 2: the label 'c' is not one of the 2 classes \(a, b\)"):
        corpus(["a", "b"], dev=["a", "c"])


def test_rows_of_ones_and_zeros_in_a_list_are_refused() -> None:
    with pytest.raises(DataError, match=r"'0' occurs twice(.|\n)*one column per label"):
        corpus([[0, 1, 0], [1, 0, 0]])


def test_no_label_column_is_refused() -> None:
    with pytest.raises(DataError, match=r"no column is known as the label(.|\n)*--data.classes"):
        read_texts(DataSettings(), [{"text": f"t{n}"} for n in range(200)])
    with pytest.raises(DataError, match="no row has a label"):
        corpus([None, None])


@pytest.mark.parametrize(
    ("tag", "task"),
    [("fill-mask", "mask-fill"), ("question-answering", "answer"), ("summarization", "translate"), ("tag", "tag")],
)
def test_a_task_may_be_called_what_the_hub_calls_it(tag: str, task: str) -> None:
    assert DataSettings(task=tag).task == task  # type: ignore[arg-type]
    assert DataSettings().but(task=tag).task == task
