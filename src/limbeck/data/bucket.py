"""The order of rows: random, with texts of like length in one batch, so that little of a batch is padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np


class Buckets:
    """A sampler whose order depends on seed and epoch alone, so that a resumed epoch is the same epoch.

    A row may have several forms, `rounds` of them, used by turns, one each epoch (0: a new one every epoch): row i in
    round r has the index r · len + i."""

    def __init__(
        self, lengths: Sequence[int], batch: int, seed: int, span: int = 50, bucket: bool = True, rounds: int = 1
    ) -> None:
        self.lengths = np.asarray(lengths)
        self.batch = batch
        self.seed = seed
        self.span = span
        self.bucket = bucket
        self.rounds = rounds
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        round = self.epoch % self.rounds if self.rounds else self.epoch
        return iter((self.order() + round * len(self)).tolist())

    def order(self) -> np.ndarray:
        """Spans of a shuffled whole are sorted by length and cut into batches; the batches are shuffled."""
        draw = np.random.default_rng([self.seed, self.epoch])
        order = draw.permutation(len(self.lengths))
        if not self.bucket:
            return order
        whole = len(order) - len(order) % self.batch
        # the incomplete batch is set aside before sorting: otherwise it would always hold the longest texts
        body, rest = order[:whole], order[whole:]
        width = self.span * self.batch
        spans = [body[start : start + width] for start in range(0, whole, width)]
        spans = [span[np.argsort(self.lengths[span], kind="stable")] for span in spans]
        batches = np.concatenate(spans).reshape(-1, self.batch) if spans else body.reshape(0, self.batch)
        return np.concatenate([draw.permutation(batches).reshape(-1), rest])
