"""Kinds of task: what they have, how they are measured, what they are called."""

from typing import get_args

import pytest

from limbeck.core.metric import metric_of, metrics_of
from limbeck.core.task import ENDS, IMAGE_KINDS, LANGUAGE_KINDS, TEXT_KINDS, WHOLE_KINDS, WINDOW_KINDS, Kind, TaskInfo


@pytest.mark.parametrize(
    ("task", "outputs", "metric", "higher", "name"),
    [
        (TaskInfo(kind="tag", labels=("O", "B-PER", "I-PER")), 3, "f1", True, "3 tags of words (O, B-PER, I-PER)"),
        (TaskInfo(kind="answer", labels=ENDS), 2, "f1", True, "extractive question answering"),
        (TaskInfo(kind="answer"), 2, "f1", True, "extractive question answering"),
        (TaskInfo(kind="classify", labels=("a", "b")), 2, "accuracy", True, "2 classes (a, b)"),
        (TaskInfo(kind="multilabel", labels=("a",)), 1, "f1_micro", True, "1 labels, any number per text (a)"),
        (TaskInfo(kind="image", labels=("0", "1")), 2, "accuracy", True, "2 classes of images (0, 1)"),
        (TaskInfo(kind="regress"), 1, "pearson", True, "regression"),
        (
            TaskInfo(kind="generate", vocab_size=1000),
            1000,
            "perplexity",
            False,
            "the next token, vocabulary of 1,000 tokens",
        ),
    ],
)
def test_what_a_kind_says_of_itself(task, outputs, metric, higher, name):
    assert (task.outputs, task.metric, task.higher_is_better, str(task)) == (outputs, metric, higher, name)


def test_every_kind_is_of_one_sort():
    kinds = [*TEXT_KINDS, *LANGUAGE_KINDS, *WINDOW_KINDS, *IMAGE_KINDS]
    assert len(kinds) == len(set(kinds)) == 8
    for kind in kinds:
        task = TaskInfo(kind=kind)
        assert task.in_windows == (kind in WINDOW_KINDS)
        assert task.over_vocabulary == (kind in LANGUAGE_KINDS)
        assert bool(task.problem_type) == (kind in WHOLE_KINDS)
        assert task.single_label == (kind in ("classify", "image"))


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_kind_says_what_reports_need(kind):
    task = TaskInfo(kind=kind, labels=("a", "b"), vocab_size=9)
    assert task.level == {"tag": "token", "answer": "span", "image": "image"}.get(
        kind, "text" if kind in TEXT_KINDS else "vocabulary"
    )
    assert task.higher_is_better == metric_of(task, task.metric).higher_is_better
    assert task.tag == {
        "mask-fill": "fill-mask",
        "generate": "text-generation",
        "tag": "token-classification",
        "answer": "question-answering",
        "translate": "translation",
        "image": "image-classification",
    }.get(kind, "text-classification")
    assert metric_of(task, "agreement").meaning
    assert metric_of(task, "divergence").title
    assert task.units.decoded == (kind == "translate")


def test_a_name_means_what_its_task_says():
    tag, answer, classify = (TaskInfo(kind=kind, labels=("a", "b")) for kind in ("tag", "answer", "classify"))
    assert len({metric_of(task, "f1").meaning for task in (tag, answer, classify)}) == 3
    assert "f1" not in metrics_of(TaskInfo(kind="classify", labels=("a", "b", "c")))
    assert metric_of(TaskInfo(kind="mask-fill"), "accuracy").is_share  # as other kinds have it
    unknown = metric_of(classify, "seconds_of_startup")
    assert (unknown.title, unknown.unit, unknown.meaning) == ("seconds of startup", "plain", "")
