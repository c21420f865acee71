"""Class weights and label smoothing, against formulas written out in float64."""

import numpy as np
import pytest
import torch

import limbeck
from limbeck.core.errors import KnobError
from limbeck.core.task import TaskInfo
from limbeck.objectives.labels import Labels

torch.manual_seed(0)
LOGITS, CLASSES = torch.randn(7, 3, dtype=torch.float64), torch.tensor([0, 2, 1, 1, -100, 2, 0])
MARKS = torch.tensor([[0, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 1]])
WEIGHTS = {"0": 0.5, "2": 4.0}  # class 1 counts 1
THREE = TaskInfo(kind="classify", labels=("0", "1", "2"))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weights", [{}, WEIGHTS])
def test_classes_are_weighed_and_smoothed_as_documented(weights, smoothing):
    w = np.array([weights.get(str(c), 1.0) for c in range(3)])
    log_q = LOGITS.log_softmax(-1).numpy()
    each = [
        (1 - smoothing) * w[y] * -log_q[row, y] + smoothing * (w * -log_q[row]).mean()
        for row, y in enumerate(CLASSES.tolist())
        if y >= 0
    ]
    found = limbeck.loss(Labels(class_weights=weights, label_smoothing=smoothing), LOGITS, labels=CLASSES)
    assert found.item() == pytest.approx(sum(each) / 6, rel=1e-12)  # by labelled rows, not by weights


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_labels_that_are_on_are_weighed(smoothing):
    w, q = np.array([0.5, 1.0, 4.0]), LOGITS[:4].sigmoid().numpy()
    y = MARKS.numpy() * (1 - smoothing) + smoothing / 2
    expected = -(w * y * np.log(q) + (1 - y) * np.log(1 - q)).mean()
    found = limbeck.loss(Labels(class_weights=WEIGHTS, label_smoothing=smoothing), LOGITS[:4], labels=MARKS)
    assert found.item() == pytest.approx(expected, rel=1e-12)


def test_balanced_weights_follow_from_the_rows():
    found = Labels(class_weights="balanced").settled(THREE, np.array([0] * 6 + [1] * 2))
    assert found.class_weights == {"0": 0.666667, "1": 2.0, "2": 1.0}  # a class that does not occur counts 1
    many = TaskInfo(kind="multilabel", labels=("a", "b", "c"))
    marks = np.array([[1, 0, 1], [0, 0, 1], [0, 0, 1], [0, 1, 1]], dtype=np.float32)
    assert Labels(class_weights="balanced").settled(many, marks).class_weights == {"a": 3.0, "b": 3.0, "c": 1.0}
    assert Labels(label_smoothing=0.1).settled(THREE, np.array([0, 1])) == Labels(label_smoothing=0.1)


def test_a_flag_is_a_table():
    assert Labels(class_weights="spam=5, ham = 1").class_weights == {"spam": 5.0, "ham": 1.0}
    assert Labels(class_weights="a=b=2").class_weights == {"a=b": 2.0}
    assert (str(Labels()), str(Labels(label_smoothing=0.1))) == ("Labels()", "Labels(label_smoothing=0.1)")


@pytest.mark.parametrize("wrong", ["ballanced", "spam=", "spam=-1", "=2", "spam=inf", {"spam": "much"}, {"spam": 0}])
def test_weights_that_are_none_are_refused(wrong):
    with pytest.raises(KnobError, match="a weight above 0"):
        Labels(class_weights=wrong)


def test_what_does_not_fit_the_task_is_refused():
    for kind in ("regress", "answer"):
        with pytest.raises(KnobError, match=f"no meaning for --task {kind}"):
            Labels(label_smoothing=0.1).settled(TaskInfo(kind=kind), np.empty(0))
    with pytest.raises(KnobError, match="did you mean 'positive'") as refused:
        Labels(class_weights="postive=2").settled(TaskInfo(kind="classify", labels=("negative", "positive")), CLASSES)
    assert "no label 'postive'" in str(refused.value)
    with pytest.raises(KnobError, match="as a table"):
        limbeck.loss(Labels(class_weights="balanced"), LOGITS, labels=CLASSES)
