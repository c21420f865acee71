"""A teacher that is not run: its answers stand in the user's own data, and are found by uid."""

from __future__ import annotations

import numpy as np
import torch

from limbeck.core.errors import MismatchError
from limbeck.core.trace import Batch, Teacher, Trace, Want


class ColumnTeacher(Teacher):
    """Logits of whole texts.

    A row without an answer gets zeros; the dataset marks it as not `predicted`, so that no term looks at them."""

    has = Want.LOGITS

    def __init__(self, column: str, uids: np.ndarray, logits: np.ndarray) -> None:
        order = np.argsort(uids)
        self.column = column  # as a person named it
        self._uids, self._logits = uids[order], np.nan_to_num(logits[order], nan=0.0)

    def answer(self, batch: Batch) -> Trace:
        wanted = batch.uids.numpy(force=True)
        places = np.searchsorted(self._uids, wanted).clip(max=len(self._uids) - 1)
        if (self._uids[places] != wanted).any():
            raise MismatchError(
                f"the teacher's column '{self.column}' has no answer to some of the texts",
                "augmented texts have none: leave out --augment.kind",
            )
        return Trace(logits=torch.from_numpy(self._logits[places]).float().to(batch.uids.device))
