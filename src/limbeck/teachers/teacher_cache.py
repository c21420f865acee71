"""A teacher's logits as a column of a `datasets.Dataset`, computed once and stored on disk."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel

from limbeck.core.errors import DataError, MismatchError
from limbeck.core.fingerprint import fingerprint
from limbeck.core.task import TaskInfo
from limbeck.core.trace import ONLY_LOGITS, Batch, Teacher, Trace, Want
from limbeck.teachers.live import LiveTeacher
from limbeck.teachers.logits import LogitsCache

COLUMN = "teacher_logits"
Row = Mapping[str, Sequence[int]]  # input_ids and whatever else a model reads of a text, a number for each token


class TeacherCache(Teacher):
    """The logits of a classifier, stored in a folder.

    The key of a row is the content of its inputs (tokens and segments, not padding, not labels), so shuffling,
    filtering and repeating a dataset never mis-pair an answer, and the teacher reads the same text once. The folder
    belongs to one teacher: another is refused. An interrupted `fill` resumes where it stopped.

    Instead of attaching a column, you can pass the cache itself to `trainer_loss` or `DistillationTrainer` as the
    teacher: it finds the rows of a batch by their inputs.

    Args:
        folder: where the logits are stored.
        teacher: a `transformers` model for sequence classification. It is put into eval mode, without gradients.

    The dataset holds tokens: `input_ids`, and `token_type_ids` where the teacher reads them. Tokens of running text are
    too many for a column: use `limbeck cache` for language models.

    Example:

        import torch
        from datasets import Dataset
        from transformers import BertConfig, BertForSequenceClassification

        import limbeck

        config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_labels=3)
        rows = Dataset.from_dict({"input_ids": [[2, 7, 3], [2, 9, 8, 3]], "labels": [0, 2]})
        cache = limbeck.TeacherCache("cache", BertForSequenceClassification(config))
        cache.fill(rows)
        rows = cache.attach(rows)  # with a column teacher_logits
        assert len(rows[0]["teacher_logits"]) == 3
    """

    has = Want.LOGITS

    def __init__(self, folder: Path | str, teacher: PreTrainedModel) -> None:
        self._live = LiveTeacher(teacher)
        self._reads = inspect.signature(teacher.forward).parameters.keys() - {"labels"}
        self._padding = teacher.config.pad_token_id or 0
        self._task = TaskInfo(kind="classify", labels=tuple(map(str, range(teacher.config.num_labels))))
        self._cache = LogitsCache(folder, {"teacher": fingerprint(teacher)}, ONLY_LOGITS)

    def fill(self, dataset: Dataset, batch_size: int = 32) -> None:
        """Runs the teacher on every row that is not stored yet, the longest first."""
        rows = {_uid(row): row for row in self._rows(dataset)}
        uids = np.array(list(rows), dtype=np.int64)
        missing = uids[self._cache.lacks(uids)].tolist()
        missing.sort(key=lambda uid: -len(rows[uid]["input_ids"]))
        if missing:
            self._check(self._batch({missing[-1]: rows[missing[-1]]}))
        parts = (missing[start : start + batch_size] for start in range(0, len(missing), batch_size))
        self._cache.fill(self._live, (self._batch({uid: rows[uid] for uid in part}) for part in parts))

    def attach(self, dataset: Dataset) -> Dataset:
        """The same dataset with a column `teacher_logits`; rows that were not filled are refused."""
        logits = self._look_up([_uid(row) for row in self._rows(dataset)]).tolist()
        plain = dataset.remove_columns(COLUMN) if COLUMN in dataset.column_names else dataset
        return plain.add_column(COLUMN, logits)

    def answer(self, batch: Batch) -> Trace:
        """The stored logits of a batch, whose rows are found by their inputs."""
        inputs = {name: tensor.tolist() for name, tensor in batch.inputs.items() if tensor.dim() == 2}
        rows = [
            _without_padding(dict(zip(inputs, values, strict=True))) for values in zip(*inputs.values(), strict=True)
        ]
        return Trace(logits=self._look_up([_uid(row) for row in rows]).to(batch.uids.device))

    def _rows(self, dataset: Dataset) -> Iterator[Row]:
        if "input_ids" not in dataset.column_names:
            raise DataError(
                f"the dataset has no column input_ids, only {', '.join(dataset.column_names)}",
                "tokenize it first: dataset.map(lambda rows: tokenizer(rows['text'], truncation=True), batched=True)",
            )
        columns = [name for name in dataset.column_names if name in self._reads]
        return map(_without_padding, dataset.select_columns(columns).with_format(None))

    def _look_up(self, uids: list[int]) -> Tensor:
        if lacking := int(self._cache.lacks(uids).sum()):
            raise MismatchError(
                f"the cache in {self._cache.folder} has no answer for {lacking} of {len(uids)} rows",
                "fill it with the same tokens: cache.fill(dataset)",
            )
        return self._cache.teacher().answer(_unlabelled(self._task, uids, {})).logits

    def _batch(self, rows: Mapping[int, Row]) -> Batch:
        def padded(columns: Iterable[Sequence[int]], padding: int = 0) -> Tensor:
            return pad_sequence([torch.tensor(column, dtype=torch.int64) for column in columns], True, padding)

        names = next(iter(rows.values()))
        inputs = {
            name: padded((row[name] for row in rows.values()), self._padding if name == "input_ids" else 0)
            for name in names
        }
        present = padded([1] * len(row["input_ids"]) for row in rows.values())
        return _unlabelled(self._task, list(rows), {**inputs, "attention_mask": present})

    def _check(self, batch: Batch) -> None:
        shape = list(self._live.answer(batch).logits.shape)
        if shape != [1, self._task.outputs]:
            raise MismatchError(
                f"the teacher answers a text with logits of shape {shape[1:]}, not with one number per class",
                "a TeacherCache keeps classifiers; for language models use `limbeck cache`",
            )


def _unlabelled(task: TaskInfo, uids: list[int], inputs: Mapping[str, Tensor]) -> Batch:
    numbers = torch.tensor(uids, dtype=torch.int64)
    return Batch(task, numbers, torch.zeros_like(numbers), torch.zeros_like(numbers, dtype=torch.bool), inputs)


def _without_padding(row: Mapping[str, Any]) -> Row:
    """The inputs of a row without its padding."""
    mask = row.get("attention_mask") or [1] * len(row["input_ids"])
    return {
        name: list(compress(values, mask))
        for name, values in row.items()
        if name != "attention_mask" and isinstance(values, Sequence) and len(values) == len(mask)
    }


def _uid(row: Row) -> int:
    """63 bits of the inputs. An input of zeros, such as the segments of a single text, counts as absent."""
    digest = blake2b(digest_size=8)
    for name in sorted(row):
        values = np.asarray(row[name], dtype=np.int64)
        if name == "input_ids" or values.any():
            digest.update(f"{name} {len(values)} ".encode() + values.tobytes())
    return int.from_bytes(digest.digest(), "little") >> 1
