"""What is asked of a text: one class of several, any number of labels, or a number."""

from __future__ import annotations

from typing import Literal

from limbeck.core.knob import Settings

Kind = Literal["classify", "multilabel", "regress"]


class Task(Settings):
    kind: Kind
    labels: tuple[str, ...] = ()

    @property
    def outputs(self) -> int:
        return 1 if self.kind == "regress" else len(self.labels)

    @property
    def problem_type(self) -> str:
        """The name transformers has for this kind of task."""
        names = {
            "classify": "single_label_classification",
            "multilabel": "multi_label_classification",
            "regress": "regression",
        }
        return names[self.kind]

    @property
    def metric(self) -> str:
        """The one figure that early stopping watches and the report leads with."""
        return {"classify": "accuracy", "multilabel": "f1_micro", "regress": "pearson"}[self.kind]

    def __str__(self) -> str:
        if self.kind == "regress":
            return "regression"
        what = "classes" if self.kind == "classify" else "labels, any number per text"
        return f"{len(self.labels)} {what} ({', '.join(self.labels[:6])}{', …' if len(self.labels) > 6 else ''})"
