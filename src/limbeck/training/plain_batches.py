"""Models and batches as transformers has them (input_ids, attention_mask, labels), for an Objective."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedModel

from limbeck.core.errors import DataError, MismatchError
from limbeck.core.objective import Objective, misfits
from limbeck.core.task import Kind, TaskInfo
from limbeck.core.trace import Batch, Projection, Trace, Want

OF_LOGITS = Want.LOGITS | Want.TOP | Want.SAMPLED  # what logits suffice for
UNLABELLED = -100
TEACHER_LOGITS = "teacher_logits"  # the column of a TeacherCache
_NOT_READ = ("labels", TEACHER_LOGITS, "num_items_in_batch")  # by a model
_HEADS: dict[str, Kind] = {
    "ForTokenClassification": "tag",
    "ForMaskedLM": "mask-fill",
    "ForCausalLM": "generate",
    "LMHeadModel": "generate",
}
_TEXTS: dict[str, Kind] = {"multi_label_classification": "multilabel", "regression": "regress"}


def common_task(objective: Objective, student: PreTrainedModel, teacher: Any) -> TaskInfo:
    """The task of the student, over the vocabulary of both models; an objective that does not serve it is refused."""
    task = task_of_model(student)
    for part in misfits(objective, task):
        raise MismatchError(f"{type(part).__name__} does not serve {task.kind}", part.remedy)
    if task.over_vocabulary and isinstance(teacher, PreTrainedModel):
        return replace(task, vocab_size=min(task.vocab_size, task_of_model(teacher).vocab_size))
    return task


def task_of_model(model: PreTrainedModel) -> TaskInfo:
    """The task of a model, by its head."""
    name, config = type(model).__name__, model.config
    kind = next((kind for head, kind in _HEADS.items() if name.endswith(head)), None)
    if name.endswith("ForSequenceClassification"):
        kind = _TEXTS.get(config.problem_type or "", "regress" if config.num_labels == 1 else "classify")
    if kind is None:
        raise MismatchError(
            f"a {name} is none of the models this serves",
            "use one for sequence classification, token classification, masked or causal language modelling; "
            "limbeck.distill also serves question answering and translation",
        )
    labels = () if kind == "regress" else tuple(str(config.id2label[number]) for number in range(config.num_labels))
    if kind in ("mask-fill", "generate"):
        return TaskInfo(kind=kind, vocab_size=config.vocab_size)
    return TaskInfo(kind=kind, labels=labels)


def stock_batch(inputs: Mapping[str, Any], task: TaskInfo) -> Batch:
    """A collated batch. A row whose label is -100 has none."""
    read = {name: value for name, value in inputs.items() if name not in _NOT_READ}
    read.setdefault("attention_mask", torch.ones_like(read["input_ids"]))
    uids = torch.arange(len(read["input_ids"]), device=read["input_ids"].device)
    labels = inputs.get("labels")
    if task.over_vocabulary or task.kind == "tag":
        if labels is None:
            raise DataError(
                "the batch has no labels, which say about which tokens the models are asked",
                "use a collator that makes them, such as DataCollatorForLanguageModeling; -100 where not asked",
            )
        if task.kind == "generate":  # a token is the label of the position before it
            labels = F.pad(labels[:, 1:], (0, 1), value=UNLABELLED)
        known = labels != UNLABELLED
        if task.kind == "tag":
            return Batch(task, uids, labels[known], known[known], read, predicted=known)
        return Batch(task, uids, labels, known, read, predicted=known)
    labels = torch.full_like(uids, UNLABELLED) if labels is None else labels
    known = (labels != UNLABELLED) & ~labels.isnan()
    return Batch(task, uids, labels, known.all(1) if known.dim() == 2 else known, read)


def trace_of_logits(logits: Tensor, batch: Batch) -> Trace:
    """Logits as models return them, reduced to the rows that the batch predicts."""
    if batch.task.over_vocabulary:
        return Trace(tokens=Projection(logits[batch.in_loss][:, : batch.task.vocab_size]))
    return Trace(logits=logits[batch.predicted] if batch.task.kind == "tag" else logits)
