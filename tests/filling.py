"""Answers that anyone can work out from a uid, and processes that fill a store with them until done or killed."""

import sys
from pathlib import Path

import numpy as np
import torch

from forked import Forked
from limbeck.core.trace import Sampled, Top
from limbeck.teachers import topk as module
from limbeck.teachers.codec import TopArrays, TopCodec
from limbeck.teachers.topk import Manifest, TopKCache

K, VOCABULARY = 8, 500
ABOUT = Manifest(k=K, vocabulary=VOCABULARY, fingerprints={"teacher": "t", "tokenizer": "k", "data": "d", "mask": "m"})
SAMPLED = ABOUT.but(kind="sampled", k=20, temperature=2.0)


def counts_of(uids) -> np.ndarray:
    return np.asarray(uids) % 6  # some examples ask about no token at all


def tops(uids, k=K, vocabulary=VOCABULARY, counts=None) -> tuple[np.ndarray, Top]:
    """Tokens of each uid, and what the teacher says of them."""
    counts = counts_of(uids) if counts is None else counts
    parts = [_top(int(uid), int(count), k, vocabulary) for uid, count in zip(uids, counts, strict=True)]
    ids, log_p, log_sum = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    zeros = torch.zeros(len(ids))
    return counts, Top(torch.from_numpy(ids), torch.from_numpy(log_p), torch.from_numpy(log_sum), zeros)


def _top(uid: int, count: int, k: int, vocabulary: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    chance = np.random.default_rng(uid % 2**64)
    apart = vocabulary // k
    ids = chance.integers(0, apart, (count, k)) + apart * np.arange(k)
    logits = -np.sort(-3 * chance.standard_normal((count, k)))
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)) + np.log(0.9)
    return chance.permuted(ids, axis=1), log_p.astype(np.float32), chance.normal(10, 2, count).astype(np.float32)


def drawns(uids) -> tuple[np.ndarray, Sampled]:
    counts = counts_of(uids)
    ids = np.tile(np.arange(SAMPLED.k), (counts.sum(), 1)) + np.repeat(uids, counts)[:, None] % 400
    weights = np.zeros(ids.shape, np.float32)
    for token, row in enumerate(weights):
        row[: 1 + token % 5] = 1 / SAMPLED.k
        row[0] += 1 - row.sum()
    return counts, Sampled(torch.from_numpy(ids * (weights > 0)), torch.from_numpy(weights), SAMPLED.temperature)


def kept(top: Top, k=K, vocabulary=VOCABULARY) -> tuple[np.ndarray, ...]:
    """What a store must say after it was told `top`."""
    codec = TopCodec(k, vocabulary)
    arrays = (top.ids, top.log_p, top.log_sum, top.softened)
    return tuple(codec.decode(codec.encode(TopArrays(*(array.numpy() for array in arrays)))))


def serves_the_truth(store: TopKCache, uids) -> bool:
    answers, counts = store.get(uids)
    true_counts, top = tops(uids)
    true = kept(top)
    found = (answers.ids, answers.log_p, answers.log_sum, answers.softened)
    return np.array_equal(counts, true_counts) and all(
        np.array_equal(one.numpy(), other) for one, other in zip(found, true, strict=True)
    )


def fill(folder: Path, first: int, last: int, told: Path, batch: int = 4) -> None:
    """Says in the file `told` which uids are in the store."""
    module.ADDS_PER_MERGE, module.SMALL = 5, 300  # merges often, so that kills hit them
    with TopKCache(folder, ABOUT, write=True) as store, told.open("a") as said:
        uids = np.arange(first, last)
        uids = uids[store.lacks(uids)]
        for start in range(0, len(uids), batch):
            some = uids[start : start + batch]
            store.add(some, *tops(some))
            said.write(" ".join(map(str, some)) + "\n")
            said.flush()


def writer(*words: object, script: str = __file__) -> Forked:
    """A process that fills a store; born in milliseconds."""
    return Forked([sys.executable, script, *map(str, words)])


if __name__ == "__main__":
    folder, first, last, told = sys.argv[1:]
    fill(Path(folder), int(first), int(last), Path(told))
