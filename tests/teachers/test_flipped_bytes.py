"""A byte flipped in any file of any store: what is served afterwards is the truth, or the store is refused."""

import math

import numpy as np
import pytest
import torch

from filling import ABOUT, SAMPLED, drawns, tops
from flipping import every_flip
from limbeck.core.errors import LimbeckError
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch, Request, Teacher, Trace
from limbeck.engines.base import Engine, Hypothesis
from limbeck.teachers.logits import CACHEABLE_STATES, LogitsCache
from limbeck.teachers.texts import TextCache
from limbeck.teachers.topk import TopKCache

UIDS = np.arange(3, 27)
REQUEST = Request(CACHEABLE_STATES, hidden=(0, 2), pooled=(1,))
SOURCES = [f"a small house of {number}" for number in range(20)]


class Shown(Teacher):
    """Logits and states that follow from the uid."""

    has, request = CACHEABLE_STATES, REQUEST

    def answer(self, batch):
        numbers = batch.uids.float()[:, None]
        states = tuple(torch.sin(numbers * (layer + 1) + torch.arange(4)) for layer in range(3))
        tokens = batch.inputs["attention_mask"].shape[1]
        hidden = tuple(state[:, None].expand(-1, tokens, -1) for state in states)
        return Trace(logits=torch.cos(numbers + torch.arange(3)), hidden=hidden, pooled=states)


class Upper(Engine):
    name = "test"

    def translate(self, sources, beam=1, nbest=1):
        return [[Hypothesis(source.upper(), -len(source) / 3), Hypothesis("", math.nan)] for source in sources]


def batch_of(uids):
    lengths = torch.as_tensor(uids) % 5 + 1
    mask = (torch.arange(5) < lengths[:, None]).long()
    rows, task = torch.zeros(len(uids)), TaskInfo(kind="classify", labels=("a", "b", "c"))
    return Batch(
        task,
        torch.as_tensor(uids),
        rows,
        rows.bool(),
        {"attention_mask": mask},
    )


def logits(folder):
    """Filled as far as it lacks something, and all that it serves."""
    cache = LogitsCache(folder, {"teacher": "t"}, REQUEST)
    lacking = UIDS[cache.lacks(UIDS)]
    parts = [batch_of(lacking[start : start + 6]) for start in range(0, len(lacking), 6)]
    cache.fill(Shown(), parts, rows_per_shard=12)
    trace = cache.teacher().answer(batch_of(UIDS))
    return [trace.logits, *trace.hidden, *trace.pooled]


def words(folder, about, answers):
    with TopKCache(folder, about, write=True) as cache:
        for start in range(0, len(UIDS), 6):
            some = UIDS[start : start + 6]
            some = some[cache.lacks(some)]
            if len(some):
                cache.add(some, *answers(some))
    found, counts = TopKCache.open(folder).get(UIDS)
    return [torch.from_numpy(counts), *(value for value in vars(found).values() if isinstance(value, torch.Tensor))]


def texts(folder):
    cache = TextCache(folder, {"beam": 2, "engine": "test"})
    cache.fill(Upper(), SOURCES, UIDS[: len(SOURCES)], 2, 2, portion=8)
    best = [cache.get(uid, source) for uid, source in zip(UIDS, SOURCES, strict=False)]
    assert all(math.isnan(second.log_p) for _, second in best)
    return [[(first.text, first.log_p), second.text] for first, second in best]


STORES = {
    "logits and states": logits,
    "top k": lambda folder: words(folder, ABOUT, tops),
    "samples": lambda folder: words(folder, SAMPLED, drawns),
    "texts": texts,
}


def same(one, other):
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("store", STORES)
def test_a_flipped_byte_is_mended_or_refused(store, tmp_path):
    serve = STORES[store]
    truth = serve(tmp_path / "whole")
    refused, mended = {}, []
    for folder, where in every_flip(tmp_path / "whole", tmp_path / "flipped"):
        try:
            found = serve(folder)
        except LimbeckError as error:
            refused[where] = error.remedy
            continue
        assert same(found, truth), where
        mended.append(where)
    assert any("shard-" in where for where in mended)
    assert any("index.json" in where for where in refused)
    assert all(refused.values()), "each with its remedy"
    assert not any("shard-" in where for where in refused), "a shard alone is mended"
