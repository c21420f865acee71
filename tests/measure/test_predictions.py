from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from transformers import BertForSequenceClassification

from limbeck.core.errors import MismatchError
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch
from limbeck.measure.predictions import predict

Build = Callable[..., BertForSequenceClassification]
TASK = TaskInfo(kind="classify", labels=("a", "b"))
UIDS = np.array([2**62, -7, 3, 99, -(2**61)], dtype=np.int64)
TOKENS = torch.tensor([[2, 5 + i, 9, 6 + i, 3] for i in range(5)])


def batches(*groups: list[int]) -> Iterator[Batch]:
    for group in groups:
        inputs = {"input_ids": TOKENS[group], "attention_mask": torch.ones_like(TOKENS[group])}
        nothing = torch.zeros(len(group))
        yield Batch(TASK, torch.from_numpy(UIDS[group]), nothing, nothing.bool(), inputs)


@pytest.mark.parametrize("labels", [1, 2])
def test_logits_follow_the_uids_not_the_batches(build: Build, labels: int) -> None:
    model = build(labels)
    with torch.no_grad():
        expected = model(input_ids=TOKENS).logits.numpy()
    done: list[float] = []
    found = predict(model, batches([4, 1], [0], [3, 2]), UIDS, done.append)
    assert found.dtype == np.float32
    assert found.shape == (5, labels)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert done == [0.4, 0.6, 1.0]
    np.testing.assert_array_equal(predict(model, batches([4, 1], [0], [3, 2]), UIDS[::-1].tolist()), found[::-1])


def test_dropout_rests_and_modes_come_back(build: Build) -> None:
    model = build().train()
    model.bert.embeddings.eval()
    before = [module.training for module in model.modules()]
    once, again = (predict(model, batches([0, 1, 2, 3, 4]), UIDS) for _ in range(2))
    np.testing.assert_array_equal(once, again)
    assert [module.training for module in model.modules()] == before
    with pytest.raises(MismatchError):
        predict(model, batches([0]), UIDS)
    assert [module.training for module in model.modules()] == before


def test_no_rows_are_no_rows(build: Build) -> None:
    assert predict(build(), [], []).shape == (0, 2)


def test_missing_double_and_uninvited_rows_are_refused(build: Build) -> None:
    model = build()
    with pytest.raises(MismatchError, match=f"1 rows come in no batch, the first with uid {2**62}"):
        predict(model, batches([1, 2], [3, 4]), UIDS)
    with pytest.raises(MismatchError, match="more than once, the first with uid 3"):
        predict(model, batches([0, 1, 2], [2, 3, 4]), UIDS)
    with pytest.raises(MismatchError, match="more than once, the first with uid 99"):
        predict(model, batches([0, 1, 2, 3, 4]), [*UIDS, 99])
    with pytest.raises(MismatchError, match="without being asked for"):
        predict(model, batches([0, 1, 2, 3, 4]), UIDS[:3])
