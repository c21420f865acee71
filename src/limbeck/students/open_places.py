"""Opening a model that tags words or finds answers, or an encoder to be made one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from limbeck.core.errors import MismatchError, ModelError
from limbeck.core.task import ENDS, TaskInfo, WindowKind
from limbeck.students import reading
from limbeck.students.folder import find_folder
from limbeck.students.open import name_outputs

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_AUTO: dict[WindowKind, str] = {"tag": "AutoModelForTokenClassification", "answer": "AutoModelForQuestionAnswering"}
_NAMES: dict[WindowKind, str] = {"tag": "tagging", "answer": "question-answering"}


def open_tagger(
    where: str | Path, *, task: TaskInfo | None = None, fresh: bool = False, trust_remote_code: bool = False
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A model that tags words and its tokenizer, in float32 and eval mode.

    With `fresh`, `task` is needed and any encoder will do: its head is drawn from torch's current seed, unless it is a
    tagger of the same tags already. Without, a `task` with other tags is refused."""
    return _open(where, "tag", task, fresh, trust_remote_code)


def open_reader(
    where: str | Path, *, fresh: bool = False, trust_remote_code: bool = False
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A model that finds answers and its tokenizer, in float32 and eval mode. With `fresh` any encoder will do."""
    return _open(where, "answer", TaskInfo(kind="answer", labels=ENDS), fresh, trust_remote_code)


def _open(
    where: str | Path, kind: WindowKind, task: TaskInfo | None, fresh: bool, trust_remote_code: bool
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    with reading.quiet(), reading.explained_opening(where, f"this architecture has no {_NAMES[kind]} head"):
        folder = find_folder(where)
        config = reading.read_config(folder, trust_remote_code)
        saved = (config.architectures or [""])[0]
        same = reading.labels_in(config) == task.labels if task else True
        if fresh or kind == "answer":
            assert task is not None, "a fresh head needs a task"
            name_outputs(config, task)
        model, missing, misshapen = reading.read_model(folder, config, trust_remote_code, _AUTO[kind])
        tokenizer = reading.read_tokenizer(folder, trust_remote_code, model)
        mine = saved == type(model).__name__
        if fresh and not (mine and (same or kind == "answer")):
            new = type(model)._from_config(model.config).state_dict()
            head = {name: new[name] for name in reading.of_head(model, new)}
            model.load_state_dict(head, strict=False)
    broken = missing | misshapen if fresh else missing
    if lost := ([] if fresh else sorted(misshapen)) or reading.of_encoder(model, broken):
        raise reading.incomplete(where, lost)
    if not fresh and (reading.of_head(model, missing) or not mine):  # a classifier's head of like shape is none
        raise ModelError(
            f"{where} has no {_NAMES[kind]} head to learn from",
            f"train one first with `limbeck train --task {kind} --model {where}`, then use the result as the teacher",
        )
    if not fresh and task is not None and kind == "tag":
        _agree(model, task, where)
    return model, tokenizer


def _agree(model: PreTrainedModel, task: TaskInfo, where: str | Path) -> None:
    labels = reading.labels_in(model.config)
    unnamed = all(name == f"LABEL_{number}" for number, name in enumerate(labels))
    if len(labels) != len(task.labels) or (labels != task.labels and not unnamed):
        raise MismatchError(
            f"the model {where} tags with {', '.join(labels[:6])}; the data has {', '.join(task.labels[:6])}",
            "give the data the model's tags, in its order, or fine-tune one on this data with `limbeck train`",
        )
    name_outputs(model.config, task)
