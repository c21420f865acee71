"""An Objective as the loss function of a stock transformers.Trainer."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from transformers import PreTrainedModel

from limbeck.core.errors import MismatchError
from limbeck.core.objective import Objective, wants
from limbeck.core.task import TaskInfo
from limbeck.core.trace import ONLY_LOGITS, Batch, NoTeacher, Teacher, Trace
from limbeck.objectives.weighted_sum import weighted_sum
from limbeck.teachers.live import LiveTeacher
from limbeck.training.plain_batches import (
    OF_LOGITS,
    TEACHER_LOGITS,
    UNLABELLED,
    common_task,
    stock_batch,
    trace_of_logits,
)


def trainer_loss(objective: Objective, teacher: PreTrainedModel | Teacher | None = None) -> TrainerLoss:
    """A function for `transformers.Trainer(compute_loss_func=…)`.

    Args:
        objective: terms over logits and labels, such as `0.5 * Labels() + 0.5 * SoftTargets()`.
        teacher: a model of the same task, put into eval mode and without gradients; a `limbeck.TeacherCache`; or None
            if the batches carry `teacher_logits`, which needs `TrainingArguments(remove_unused_columns=False)`.

    A Trainer hands its loss function outputs and labels, but not the inputs that a teacher reads. They are taken where
    the student takes them, by a hook: in the first step on every module, to see which one is the student, from then on
    only on the student.

    Limits. Objectives over hidden states or attention need `limbeck.DistillationTrainer`, and so do texts without a
    label where gradients are accumulated: a Trainer counts labels, and weighs micro-batches by them. One function
    serves one Trainer, in one process per device; a compiled student is not seen.

    Example:

        from datasets import Dataset
        from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

        import limbeck

        def model(layers):
            sizes = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
            return BertForSequenceClassification(BertConfig(**sizes, num_hidden_layers=layers, num_labels=3))

        objective = 0.5 * limbeck.Labels() + 0.5 * limbeck.SoftTargets(temperature=4)
        trainer = Trainer(
            model(1),
            args=TrainingArguments("out", max_steps=2, report_to="none", disable_tqdm=True, save_strategy="no"),
            train_dataset=Dataset.from_dict({"input_ids": [[2, 7, 9, 3], [2, 9, 8, 3]], "labels": [0, 2]}),
            compute_loss_func=limbeck.trainer_loss(objective, teacher=model(2)),
        )
        trainer.train()
    """
    return TrainerLoss(objective, teacher)


class TrainerLoss:
    """See `trainer_loss`."""

    def __init__(self, objective: Objective, teacher: PreTrainedModel | Teacher | None) -> None:
        if beyond := wants(objective) & ~OF_LOGITS:
            raise MismatchError(
                f"the objective looks at the {beyond} of both models, which a loss function does not see",
                "use limbeck.DistillationTrainer",
            )
        self.objective, self.teacher = objective, teacher
        self._seen: tuple[PreTrainedModel, dict[str, Any]] | None = None
        self._hook = register_module_forward_hook(self._see, with_kwargs=True)
        self._student: PreTrainedModel | None = None
        self._task = TaskInfo(kind="classify")

    def __call__(self, outputs: Any, labels: Tensor | None = None, num_items_in_batch: Any = None) -> Tensor:
        inputs = self._inputs()
        batch = stock_batch({**inputs, **({} if labels is None else {"labels": labels})}, self._task)
        student = trace_of_logits(outputs["logits"], batch)
        mean, _ = weighted_sum(self.objective, student, self._teacher_trace(inputs, batch), batch)
        return mean if labels is None else mean * _share(batch, labels, num_items_in_batch)

    def _see(self, module: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        """The last model that ran is the student: its own parts have run before it."""
        if isinstance(module, PreTrainedModel):
            self._seen = module, kwargs

    def _inputs(self) -> dict[str, Any]:
        if self._seen is None:
            raise MismatchError(
                "the loss function has not seen a model run", "make one limbeck.trainer_loss for each Trainer"
            )
        (model, inputs), self._seen = self._seen, None
        if self._student is None:
            self._meet(model)
        return inputs

    def _meet(self, student: PreTrainedModel) -> None:
        self._hook.remove()
        self._hook = student.register_forward_hook(self._see, with_kwargs=True)
        self._student, self._task = student, common_task(self.objective, student, self.teacher)
        if isinstance(self.teacher, PreTrainedModel):
            self.teacher = LiveTeacher(self.teacher, ONLY_LOGITS, self._task.vocab_size)

    def _teacher_trace(self, inputs: dict[str, Any], batch: Batch) -> Trace:
        if isinstance(self.teacher, Teacher):
            return self.teacher.answer(batch)
        if TEACHER_LOGITS in inputs:
            return trace_of_logits(inputs[TEACHER_LOGITS], batch)
        if not wants(self.objective):
            return NoTeacher().answer(batch)
        raise MismatchError(
            "the objective needs a teacher, and there is neither one nor 'teacher_logits' in the batch",
            "pass limbeck.trainer_loss(objective, teacher); or attach the column with limbeck.TeacherCache and keep it "
            "with TrainingArguments(remove_unused_columns=False)",
        )


def _share(batch: Batch, labels: Tensor, items: Any) -> Tensor | float:
    """Of a micro-batch in its step, by labels, as the Trainer counts them."""
    if items is None or not int(items):
        return 1.0
    return (batch.has_label if batch.task.over_vocabulary else labels != UNLABELLED).sum() / items
