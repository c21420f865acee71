"""Calibration rows for passes: random tokens, with padding."""

import torch

from limbeck.core.compress import Calibration
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch
from students.tiny_encoders import batch

TASK = TaskInfo("classify", ("bad", "fair", "good"))


def batch_of(inputs):
    rows = len(next(iter(inputs.values())))
    return Batch(TASK, torch.arange(rows), torch.zeros(rows, dtype=torch.long), torch.ones(rows).bool(), inputs)


def rows(count=3, seed=0):
    """Batches of 3 texts, the second of which ends in padding."""
    draw, found = torch.Generator().manual_seed(seed), []
    for _ in range(count):
        inputs = batch()
        ids = torch.randint(3, 40, inputs["input_ids"].shape, generator=draw)
        found.append(batch_of(inputs | {"input_ids": torch.where(inputs["attention_mask"] > 0, ids, 0)}))
    return Calibration(found)
