"""How long the augmentation of the distilled BiLSTM takes: 1,000 sentences of SST-2, 20 copies of each.

    .venv/bin/python benchmarks/augment.py

Reads ../shared/data/sst2 (GLUE's files), and Rotten Tomatoes where that is absent. No sentence is in the Record.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from common import Finding, Limit, each_turn, finish, flags, median_of, sentences, turn_by_turn
from limbeck.data.augment import augment
from limbeck.data.bilstm import SINGLE
from limbeck.data.settings import AugmentSettings, DataSettings
from limbeck.data.text.examples import Corpus, read_texts

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "sst2" / "train.tsv.gz"
KINDS = {  # what is timed: all of it, and all but the part-of-speech tags
    "augmentation": AugmentSettings(kind="bilstm"),
    "without tags": AugmentSettings(kind="bilstm", pos=0.0),
}


def corpus_of(rows: int) -> Corpus:
    return read_texts(DataSettings(train=str(DATA), limit=rows)) if DATA.exists() else sentences(rows)


def main() -> int:
    args = flags(__doc__ or "").parse_args()
    rows, turns = (100, 1) if args.quick else (1000, 3)
    corpus = corpus_of(rows)
    made: dict[str, int] = {}

    def measure(name: str) -> dict[str, float]:
        start = time.perf_counter()
        made[name] = len(augment(corpus.train, KINDS[name], mask="[MASK]"))
        return {"seconds": time.perf_counter() - start}

    found = turn_by_turn(list(KINDS), turns, measure)
    seconds, untagged = (median_of(found[name], "seconds") for name in KINDS)
    finding = Finding(
        figures={
            "augmentation_seconds": seconds,
            "without_tags_seconds": untagged,
            "new_texts": float(made["augmentation"]),
            "new_texts_per_second": made["augmentation"] / seconds,
        },
        limits=(Limit("augmentation_seconds", at_most=60),),
        knobs={"rows": rows, "copies": SINGLE, "turns": turns},
        notes=(
            f"{rows:,} training rows, {SINGLE} copies of each, one process, opening the tagger counted in; median of "
            "the turns",
            "new texts: without those like another copy or like a training row",
        ),
        seconds=each_turn(found),
        corpus=corpus,
    )
    return finish("augment", finding, args)


if __name__ == "__main__":
    sys.exit(main())
