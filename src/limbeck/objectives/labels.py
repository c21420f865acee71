"""Labels: the student learns the labels of the data, as in plain fine-tuning.

    classes      L = −log q(y)
    multi-label  L = mean over labels of the binary cross-entropy
    regression   L = (z − y)²
    tags         as classes, one row for each word
    answers      as classes, one row for the start and one for the end, over the positions where they can lie

The mean is over labelled rows only; a row without a label adds nothing.

With class weights w, a row of class y counts w(y) times; in multi-label tasks w weighs what is on, as torch's
`pos_weight` does. The sum is divided by the number of labelled rows, not by the sum of their weights as torch does: a
micro-batch then weighs what its rows weigh. "balanced" weights are 1 in the mean over the training rows.

With label smoothing ε, a share ε of each label goes to all classes alike; multi-label: on counts 1 − ε/2, off ε/2.

Example:

    import torch
    import limbeck

    student = torch.randn(4, 3)  # [texts, classes]
    limbeck.loss(limbeck.Labels(), student, labels=torch.tensor([0, 2, 1, -100]))  # -100: no label
    rare = limbeck.Labels(class_weights={"2": 5.0}, label_smoothing=0.1)
    limbeck.loss(rare, student, labels=torch.tensor([0, 2, 1, -100]))
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import field_validator

from limbeck.core.card import Paper, method
from limbeck.core.errors import KnobError
from limbeck.core.knob import knob
from limbeck.core.objective import Mean, Objective, Rows, Terms
from limbeck.core.task import WHOLE_KINDS, WINDOW_KINDS, Kind, TaskInfo
from limbeck.core.trace import Batch, Trace

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

BALANCED = "balanced"
CLASSES: tuple[Kind, ...] = ("classify", "multilabel", "tag", "image")  # what has classes to weigh and to smooth

DEVLIN_2019 = Paper(
    "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
    "Jacob Devlin and Ming-Wei Chang and Kenton Lee and Kristina Toutanova",
    2019,
    "NAACL 2019, arXiv:1810.04805",
    "devlin2019bert",
    "https://arxiv.org/abs/1810.04805",
)


@method("labels", DEVLIN_2019)
class Labels(Objective):
    """Cross-entropy with labels; for numbers the squared difference."""

    rows: ClassVar[Rows] = "has_label"
    serves: ClassVar[tuple[Kind, ...]] = (*WHOLE_KINDS, *WINDOW_KINDS)

    class_weights: str | dict[str, float] = knob(
        "",
        "how much each class counts: balanced, or weights as in spam=5,ham=1; balanced counts rare ones more, by rows "
        "/ (classes · rows of the class), several labels by rows without / rows with the label; unnamed ones count 1",
        source="scikit-learn, class_weight",
        short="--class-weights",
    )
    label_smoothing: float = knob(
        0.0,
        "share of each label that goes to all classes alike",
        at_least=0,
        below=1,
        source="none in the paper",
        short="--label-smoothing",
    )

    @field_validator("class_weights", mode="before")
    @classmethod
    def _as_table(cls, value: Any) -> Any:
        """From a flag or a table; weights are numbers above 0."""
        if isinstance(value, str) and value not in ("", BALANCED):
            value = {name.strip(): weight for name, _, weight in (one.rpartition("=") for one in value.split(","))}
        if not isinstance(value, Mapping):
            return value
        try:
            weights = {str(name): float(weight) for name, weight in value.items()}
        except (TypeError, ValueError):
            weights = {"": 0.0}
        if not all(name and math.isfinite(weight) and weight > 0 for name, weight in weights.items()):
            raise ValueError("balanced, or a weight above 0 for some labels, as in spam=5,ham=1")
        return weights

    def settled(self, task: TaskInfo, labels: np.ndarray) -> Self:
        """With "balanced" as numbers, from the labels of the training rows; what does not fit the task is refused."""
        import numpy as np

        self._check(task)
        if self.class_weights != BALANCED:
            return self
        rows, classes = len(labels), len(task.labels)
        on = labels.sum(axis=0) if task.kind == "multilabel" else np.bincount(labels.astype(int), minlength=classes)
        count = rows - on if task.kind == "multilabel" else np.full(classes, rows / max((on > 0).sum(), 1))
        weights = np.where((on > 0) & (count > 0), count / np.maximum(on, 1), 1.0)
        return self.but(class_weights={name: round(float(w), 6) for name, w in zip(task.labels, weights, strict=True)})

    def _check(self, task: TaskInfo) -> None:
        if (self.class_weights or self.label_smoothing) and task.kind not in CLASSES:
            what = "class weights" if self.class_weights else "label smoothing"
            raise KnobError(f"{what} have no meaning for --task {task.kind}", f"they serve {', '.join(CLASSES)}")
        for name in self.class_weights if isinstance(self.class_weights, dict) else ():
            if name not in task.labels:
                close = difflib.get_close_matches(name, task.labels, n=1)
                hint = f"did you mean '{close[0]}'? " if close else ""
                raise KnobError(f"class weights: there is no label '{name}'", f"{hint}labels: {', '.join(task.labels)}")

    def _weights(self, task: TaskInfo, logits: Tensor) -> Tensor | None:
        """[classes] in the task's order."""
        if not self.class_weights:
            return None
        if isinstance(self.class_weights, str):
            raise KnobError(
                "balanced class weights follow from the training rows, which a loss does not see",
                "give them as a table: Labels(class_weights={'spam': 5.0, 'ham': 1.0})",
            )
        from limbeck.functional.softmax import wide

        return wide(logits).new_tensor([self.class_weights.get(name, 1.0) for name in task.labels])

    def terms(self, student: Trace, teacher: Trace, batch: Batch) -> Terms:
        from limbeck.functional.divergence import hard_binary_cross_entropy, hard_cross_entropy, squared_distance

        self._check(batch.task)
        # Rows are selected before the loss: the label of an unlabelled row may be any filler.
        logits, labels, count = student.logits, batch.labels, batch.has_label.sum()
        if count < batch.has_label.numel():
            logits, labels = logits[batch.has_label], labels[batch.has_label]
        how = self._weights(batch.task, logits), self.label_smoothing
        if batch.task.single_label or batch.task.in_windows:
            each = hard_cross_entropy(logits, labels, *how)
        elif batch.task.kind == "multilabel":
            each = hard_binary_cross_entropy(logits, labels, *how)
        else:
            each = squared_distance(labels.view(-1, 1), logits.view(-1, 1))
        return {"labels": Mean(each.sum(), count)}

    def __str__(self) -> str:
        knobs = {"class_weights": self.class_weights, "label_smoothing": self.label_smoothing}
        return f"Labels({', '.join(f'{name}={value!r}' for name, value in knobs.items() if value)})"
