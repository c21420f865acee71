"""A transformers.Trainer with a teacher, for datasets and collators as transformers has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from transformers import EvalPrediction, PreTrainedModel, Trainer, TrainingArguments, set_seed

from limbeck.core import tap
from limbeck.core.errors import MismatchError
from limbeck.core.objective import Objective, bridges, requests, wants
from limbeck.core.trace import NOTHING, Batch, NoTeacher, Request, Teacher, Trace
from limbeck.students.sizes import shape_of
from limbeck.teachers.live import LiveTeacher
from limbeck.training.bridges import add_bridges, drop_bridges
from limbeck.training.plain_batches import OF_LOGITS, TEACHER_LOGITS, common_task, stock_batch, trace_of_logits
from limbeck.training.trainer import ObjectiveTrainer


class DistillationTrainer(ObjectiveTrainer):
    """Trains `model` towards `objective`, beside a teacher: a `transformers.Trainer` in everything else.

    Args:
        model: the student, for sequence classification, token classification, masked or causal language modelling.
        teacher: a model of the same task, a `limbeck.TeacherCache`, or None if the training rows have a column
            `teacher_logits`. A model is put into eval mode, without gradients.
        objective: what the student imitates, such as `0.5 * Labels() + 0.5 * SoftTargets(temperature=4)`. Hidden states
            and attention of both models are recorded where it looks at them; linear maps between different widths are
            trained beside the student and taken off it afterwards.
        args, data_collator, train_dataset, eval_dataset, processing_class, compute_metrics, and the rest: as for
            `transformers.Trainer`.

    A label of -100 is none: such a text is still taught by the teacher. In language models the labels also say which
    tokens are asked about. Evaluation is the stock one, the model's own loss over labels, without the teacher, so that
    `eval_loss` compares with that of a plain Trainer. Student and teacher read the same tokens.

    Example:

        from datasets import Dataset
        from transformers import BertConfig, BertForSequenceClassification, TrainingArguments

        import limbeck

        def model(layers):
            sizes = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
            return BertForSequenceClassification(BertConfig(**sizes, num_hidden_layers=layers, num_labels=3))

        rows = Dataset.from_dict({"input_ids": [[2, 7, 9, 3], [2, 9, 8, 3]], "labels": [0, 2]})
        trainer = limbeck.DistillationTrainer(
            model(1),
            teacher=model(2),
            objective=0.5 * limbeck.Labels() + 0.5 * limbeck.SoftTargets() + 1.0 * limbeck.TinyBERT(),
            args=TrainingArguments("out", max_steps=2, report_to="none", disable_tqdm=True, save_strategy="no"),
            train_dataset=rows,
        )
        trainer.train()
    """

    def __init__(
        self,
        model: PreTrainedModel,
        teacher: PreTrainedModel | Teacher | None = None,
        objective: Objective | None = None,
        args: TrainingArguments | None = None,
        data_collator: Callable[[list[Any]], dict[str, Any]] | None = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        processing_class: Any = None,
        compute_metrics: Callable[[EvalPrediction], dict[str, float]] | None = None,
        **more: Any,
    ) -> None:
        if objective is None:
            raise MismatchError(
                "there is no objective", "pass objective=0.5 * limbeck.Labels() + 0.5 * limbeck.SoftTargets()"
            )
        self.objective, self.task = objective, common_task(objective, model, teacher)
        self._network = teacher if isinstance(teacher, PreTrainedModel) else None
        self._check(teacher, train_dataset)
        shapes = shape_of(model), shape_of(self._network or model)
        self._request, of_teacher = requests(objective, *shapes)
        self._widths = bridges(objective, *shapes)
        self.teacher = self._as_teacher(teacher, of_teacher)
        super().__init__(
            model=model,
            args=args,
            data_collator=data_collator,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            processing_class=processing_class,
            compute_metrics=compute_metrics,
            **more,
        )

    def _check(self, teacher: Any, rows: Any) -> None:
        needed = wants(self.objective)
        if self._network is None and needed & ~OF_LOGITS:
            raise MismatchError(
                f"the objective looks at the teacher's {needed & ~OF_LOGITS}, and only its logits are kept",
                "pass the teacher itself, a transformers model",
            )
        names = getattr(rows, "column_names", None)
        if needed and teacher is None and names is not None and TEACHER_LOGITS not in names:
            raise MismatchError(
                "the objective needs a teacher, and there is neither one nor a column 'teacher_logits'",
                "pass teacher=, or make the column with limbeck.TeacherCache(folder, teacher).attach(dataset)",
            )

    def _as_teacher(self, teacher: Any, request: Request) -> Teacher:
        if self._network is None:
            return teacher if isinstance(teacher, Teacher) else NoTeacher()
        if request.heads:
            tap.install(self._network)
        return LiveTeacher(self._network, request, self.task.vocab_size) if request != NOTHING else NoTeacher()

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Trains, with what the objective needs on the student: a tap on its attention, maps to the teacher's width."""
        set_seed(self.args.seed)
        if self._request.heads:
            tap.install(self.model)
        add_bridges(self.model, self._widths)
        try:
            return super().train(*args, **kwargs)
        finally:
            drop_bridges(self.model)
            tap.uninstall(self.model)

    def batch_of(self, inputs: dict[str, Tensor]) -> Batch:
        return stock_batch(inputs, self.task)

    def teacher_trace(self, inputs: dict[str, Tensor], batch: Batch) -> Trace:
        if TEACHER_LOGITS in inputs and self._network is None:
            return trace_of_logits(inputs[TEACHER_LOGITS], batch)
        return super().teacher_trace(inputs, batch)

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | None = None,
    ) -> Any:
        if model.training:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        plain = {name: value for name, value in inputs.items() if name != TEACHER_LOGITS}
        return Trainer.compute_loss(self, model, plain, return_outputs)

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        if TEACHER_LOGITS not in self._signature_columns:
            self._signature_columns.append(TEACHER_LOGITS)
