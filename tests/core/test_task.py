"""Kinds of task: what they have, how they are measured, what they are called."""

import pytest

from limbeck.core.task import ENDS, LANGUAGE_KINDS, TEXT_KINDS, WINDOW_KINDS, TaskInfo


@pytest.mark.parametrize(
    ("task", "outputs", "metric", "higher", "name"),
    [
        (TaskInfo(kind="tag", labels=("O", "B-PER", "I-PER")), 3, "f1", True, "3 tags of words (O, B-PER, I-PER)"),
        (TaskInfo(kind="answer", labels=ENDS), 2, "f1", True, "questions answered by a part of a text"),
        (TaskInfo(kind="answer"), 2, "f1", True, "questions answered by a part of a text"),
        (TaskInfo(kind="classify", labels=("a", "b")), 2, "accuracy", True, "2 classes (a, b)"),
        (TaskInfo(kind="multilabel", labels=("a",)), 1, "f1_micro", True, "1 labels, any number per text (a)"),
        (TaskInfo(kind="regress"), 1, "pearson", True, "regression"),
        (TaskInfo(kind="generate", vocab_size=1000), 1000, "perplexity", False, "the next word, 1,000 to choose from"),
    ],
)
def test_what_a_kind_says_of_itself(task, outputs, metric, higher, name):
    assert (task.outputs, task.metric, task.higher_is_better, str(task)) == (outputs, metric, higher, name)


def test_every_kind_is_of_one_sort():
    kinds = [*TEXT_KINDS, *LANGUAGE_KINDS, *WINDOW_KINDS]
    assert len(kinds) == len(set(kinds)) == 7
    for kind in kinds:
        task = TaskInfo(kind=kind)
        assert task.in_windows == (kind in WINDOW_KINDS)
        assert task.over_vocabulary == (kind in LANGUAGE_KINDS)
        assert bool(task.problem_type) == (kind in TEXT_KINDS)
