"""Kinds of task: what they have, how they are measured, what they are called."""

import pytest

from limbeck.core.task import ENDS, OF_PLACES, OF_TEXTS, OF_TOKENS, Task


@pytest.mark.parametrize(
    ("task", "outputs", "metric", "higher", "name"),
    [
        (Task(kind="tag", labels=("O", "B-PER", "I-PER")), 3, "f1", True, "3 tags of words (O, B-PER, I-PER)"),
        (Task(kind="answer", labels=ENDS), 2, "f1", True, "questions answered by a part of a text"),
        (Task(kind="answer"), 2, "f1", True, "questions answered by a part of a text"),
        (Task(kind="classify", labels=("a", "b")), 2, "accuracy", True, "2 classes (a, b)"),
        (Task(kind="multilabel", labels=("a",)), 1, "f1_micro", True, "1 labels, any number per text (a)"),
        (Task(kind="regress"), 1, "pearson", True, "regression"),
        (Task(kind="generate", vocabulary=1000), 1000, "perplexity", False, "the next word, 1,000 to choose from"),
    ],
)
def test_what_a_kind_says_of_itself(task, outputs, metric, higher, name):
    assert (task.outputs, task.metric, task.higher_is_better, str(task)) == (outputs, metric, higher, name)


def test_every_kind_is_of_one_sort():
    kinds = [*OF_TEXTS, *OF_TOKENS, *OF_PLACES]
    assert len(kinds) == len(set(kinds)) == 7
    for kind in kinds:
        task = Task(kind=kind)
        assert task.of_places == (kind in OF_PLACES)
        assert task.of_tokens == (kind in OF_TOKENS)
        assert bool(task.problem_type) == (kind in OF_TEXTS)
