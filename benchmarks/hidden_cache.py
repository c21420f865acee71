"""What a cache of hidden states saves and takes: reading a layer of a batch against the teacher's forward, and bytes.

The teacher is MiniLM-L6, the batches those of an epoch of training. They were written in another order, so the texts of
a batch lie scattered over the shards.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from transformers import set_seed

from common import (
    MAX_LENGTH,
    SEED,
    Finding,
    Limit,
    each_turn,
    finish,
    flags,
    median_of,
    sentences,
    settle,
    turn_by_turn,
)
from limbeck.core.fingerprint import fingerprint, tokenizer_fingerprint
from limbeck.core.trace import Batch, Request, Teacher, Want
from limbeck.data.batches import Buckets, Collator, to_batch
from limbeck.data.sources.demo import demo_model
from limbeck.data.text.examples import Corpus, Encoded, encode
from limbeck.students.load import load
from limbeck.students.sizes import shape_of
from limbeck.tasks.whole import data_fingerprint
from limbeck.teachers.live import LiveTeacher
from limbeck.teachers.logits import LogitsCache

BATCH, LAYERS = 32, (1, 2, 3, 4, 5, 6)


def ask_for(*layers: int) -> Request:
    return Request(Want.LOGITS | Want.HIDDEN, hidden=layers)


def in_batches(encoded: Encoded, collator: Collator, order: Sequence[int]) -> Iterator[Batch]:
    for start in range(0, len(order), BATCH):
        rows = [encoded[index] for index in order[start : start + BATCH]]
        yield to_batch(collator(rows), collator.task)


def ask_all(teachers: Sequence[Teacher], batches: Sequence[Batch]) -> dict[str, float]:
    """Each batch is asked for one layer, the layers by turns."""
    start = time.perf_counter()
    for number, batch in enumerate(batches):
        teachers[number % len(teachers)].answer(batch)
    return {"milliseconds_per_batch": 1e3 * (time.perf_counter() - start) / len(batches)}


def run(args: argparse.Namespace, folder: Path) -> Finding:
    rows, asked, turns = (256, 4, 1) if args.quick else (4096, 64, 7)
    settle(args.threads)
    set_seed(SEED)
    corpus = sentences(rows)
    network, tokenizer = load(demo_model(), corpus.task.kind, corpus.task, new_head=True)
    prints = {
        "teacher": fingerprint(network),
        "tokenizer": tokenizer_fingerprint(tokenizer),
        "data": data_fingerprint(corpus, str(MAX_LENGTH)),
    }
    encoded, collator = encode(corpus.train, tokenizer, MAX_LENGTH), Collator.of(tokenizer, corpus.task)
    scattered = np.random.default_rng(SEED).permutation(len(encoded)).tolist()
    cache = LogitsCache(folder, prints, ask_for(*LAYERS))
    stated = cache.estimate(shape_of(network), corpus.task, encoded.lengths)
    start = time.perf_counter()
    cache.fill(LiveTeacher(network, cache.request), in_batches(encoded, collator, scattered))
    filling = time.perf_counter() - start
    epoch = list(in_batches(encoded, collator, list(Buckets(encoded.lengths, BATCH, SEED))))[:asked]
    teachers: dict[str, list[Teacher]] = {
        "read": [cache.teacher(ask_for(layer)) for layer in LAYERS],
        "forward": [LiveTeacher(network, ask_for(layer)) for layer in LAYERS],
    }
    for each in teachers.values():  # the first batches of a process are slower; they do not count
        ask_all(each, epoch[:2])
    found = turn_by_turn(list(teachers), turns, lambda name: ask_all(teachers[name], epoch))
    sizes = {"stated": stated, "found": sum(path.stat().st_size for path in folder.iterdir())}
    knobs = {"rows": rows, "batches": asked, "turns": turns, "threads": args.threads, "max_length": MAX_LENGTH}
    return tell(found, sizes, filling, corpus, prints, {**knobs, "tokens": sum(encoded.lengths), "texts": len(encoded)})


def tell(
    found: dict[str, list[Any]],
    sizes: dict[str, int],
    filling: float,
    corpus: Corpus,
    prints: dict[str, str],
    knobs: dict[str, Any],
) -> Finding:
    read, forward = (median_of(found[name], "milliseconds_per_batch") for name in ("read", "forward"))
    return Finding(
        figures={
            "read_milliseconds_per_batch": read,
            "forward_milliseconds_per_batch": forward,
            "forward_over_read": forward / read,
            "filled_texts_per_second": knobs["texts"] / filling,
            "stated_megabytes": sizes["stated"] / 1e6,
            "found_megabytes": sizes["found"] / 1e6,
            "size_misstated": abs(sizes["stated"] / sizes["found"] - 1),
            "bytes_per_token_and_layer": sizes["found"] / knobs["tokens"] / len(LAYERS),
        },
        limits=(Limit("forward_over_read", at_least=10), Limit("size_misstated", at_most=0.02)),
        knobs={**knobs, "batch": BATCH, "layers": list(LAYERS)},
        notes=(
            f"teacher: MiniLM-L6 with a fresh head; {len(LAYERS)} layers of {knobs['texts']} sentences in float16",
            f"read and forward: logits and one layer of a batch of {BATCH} texts of like length, the layers by turns; "
            "the same batches for both, in turns, median; the files are in the page cache",
            "stated: estimate() before the first batch is asked; found: every file of the folder",
        ),
        seconds=each_turn(found),
        corpus=corpus,
        fingerprints=prints,
    )


def main() -> int:
    args = flags(__doc__ or "").parse_args()
    with tempfile.TemporaryDirectory() as folder:
        finding = run(args, Path(folder))
    return finish("hidden_cache", finding, args)


if __name__ == "__main__":
    sys.exit(main())
