"""The rows of an arm for passes that look at texts, and encoded anew after one that brings another tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from limbeck.core.compress import Pass
from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.progress import Silent
from limbeck.core.trace import ATTENTION_PARTS, NoTeacher, Teacher, Want
from limbeck.data.batches import Dataset, Split
from limbeck.data.renumbered import PieceRows, renumbered
from limbeck.jobs.settings import Run
from limbeck.measure.evaluator import Evaluation
from limbeck.tasks.base import ALL, EncodedData, Inputs, Model, Setup, Task


@dataclass(frozen=True)
class ArmRows:
    """What is read of an arm's rows, before any tokenizer, and the teacher beside which its model is evaluated."""

    run: Run
    task: Task
    setup: Setup
    beside: Teacher = field(default_factory=NoTeacher)
    teacher_test: Evaluation | None = None

    def texts(self, split: str) -> list[Inputs]:
        """Of each row its text, or text and pair."""
        return [pair if pair[1] else pair[:1] for pair in self.task.texts(self.setup, split)]

    def encode(self, model: Model, before: EncodedData) -> EncodedData:
        """The rows in the tokens of a model's new tokenizer, under the uids that they had."""
        info = before.info
        learnable = info.is_seq2seq and before.has_gold
        encode = self.task.encode_for_training if learnable else self.task.encode
        data = encode(self.setup.splits, model, Silent())
        if before.augmented:
            data = self.task.augmented(self.run, self.setup, data, Silent())
        if not info.over_vocabulary:
            old, new = (cast(Split, one.rows[ALL]).uids for one in (before, data))
            assert np.array_equal(old, new), "a tokenizer changes no uid"
        if self._is_comparable(before, data):
            data = replace(data, evaluator=data.evaluator.with_teacher(self.beside, self.teacher_test))
        return replace(data, for_teacher=before.for_teacher, notes=before.notes)

    def _is_comparable(self, before: EncodedData, after: EncodedData) -> bool:
        """Whether what the teacher made of the held-out rows is of the same outputs: a language model has others now,
        so has a window whose text is segmented otherwise, and a live teacher would read the new tokens."""
        if after.info.is_seq2seq:
            return self.teacher_test is not None
        if isinstance(self.beside, NoTeacher) or after.info.over_vocabulary or self.run.teacher_cache.live:
            return False
        return not after.info.in_windows or not any(resegmented(before, after, split) for split in ("dev", "test"))


def with_old_rows(before: EncodedData, after: EncodedData) -> EncodedData:
    """With the training rows of `before` in the new ids, for a teacher of their tokens."""
    rows = {
        targets: renumbered(cast(PieceRows, one), before.processor, after.processor)
        for targets, one in before.rows.items()
    }
    return replace(after, rows=rows, size=before.size)


def resegmented(before: EncodedData, after: EncodedData, split: str = "train") -> int:
    """How many rows of a split are other pieces of text after a change of tokenizer."""
    old, new = (data.rows[ALL] if split == "train" else data.evaluator.splits[split] for data in (before, after))
    if len(old) != len(new):
        return max(len(old), len(new))
    return sum(_pieces(before.processor, old, row) != _pieces(after.processor, new, row) for row in range(len(old)))


def _pieces(tokenizer: Any, rows: Dataset, row: int) -> list[str]:
    found: list[str] = tokenizer.convert_ids_to_tokens(list(rows[row]["input_ids"]))
    return found


def check_segmentation(before: EncodedData, after: EncodedData, what: Want) -> None:
    """A teacher's outputs per token fit only training rows that are the same pieces as before."""
    if changed := resegmented(before, after):
        raise MismatchError(
            f"in the new tokenizer {changed:,} of {after.size:,} training rows are other pieces of text, so that the "
            f"teacher's {what} do not fit their tokens",
            "keep every piece of the training rows (--vocabulary.mode lossless), or teach whole texts afterwards: "
            "--objective.tinybert.weight 0",
        )


def check_after_retokenizing(run: Run, passes: Sequence[Pass], want: Want, over_vocabulary: bool) -> None:
    """Refuses, before the first step, what a teacher could not teach rightly behind passes that change the tokenizer.

    Tokens that stay are only renumbered, and a teacher of tokens with them, live or cached."""
    lossy = [one.name for one in passes if one.recoverable]
    if over_vocabulary and lossy:
        raise KnobError(
            f"'{lossy[0]}' splits texts otherwise before a training that learns the teacher's tokens, which are those "
            "of the old split",
            "keep every piece of the training rows (--vocabulary.mode lossless), or put that pass last",
        )
    if over_vocabulary:
        return
    if want & ATTENTION_PARTS or (want and run.teacher_cache.live):
        raise KnobError(
            f"a pass changes the tokenizer before a training that runs the teacher at every step, for its {want}",
            "put that pass last, or learn only what can be cached: no attention, and --teacher-cache.live off",
        )
