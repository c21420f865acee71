"""Translation from English to German, Kim and Rush's table: a teacher, a student of a tenth of its parameters, and
every way of teaching it, two seeds each, on test_2016_flickr; then the same models on test_2017_flickr.

    .venv/bin/python benchmarks/multi30k.py      some hours on two cores; finished parts are kept

Reads ../shared/data/multi30k_en_de. The Records and pages are benchmarks/results/multi30k…; no sentence of the data
is in them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from limbeck.core.record import Arm, Artifact, Comparison, Record
from limbeck.data.seq2seq.pairs import read_parallel
from limbeck.data.settings import DataSettings, ParallelSettings
from limbeck.engines.ctranslate2 import CTranslate2Engine
from limbeck.jobs.measured import now
from limbeck.jobs.record import TIMED_ONCE
from limbeck.measure.evaluator import Evaluation
from limbeck.measure.quality import compare
from limbeck.measure.seq2seq_evaluator import Seq2SeqEvaluator
from limbeck.students.load import load
from limbeck.students.seq2seq import decoder_start
from limbeck.tasks.seq2seq import pairs_fingerprint
from limbeck.teachers.settings import TranslateSettings
from story import WORK, publish, reproduced

BySeed = dict[int, Evaluation]

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "multi30k_en_de"
PLACE = WORK / "multi30k"
OTHER = "test_2017_flickr"


def main() -> None:
    record = reproduced("kim-rush-multi30k", DATA, PLACE)
    publish(Record.load(PLACE / "teacher").but(samples=[]), "multi30k_teacher")
    publish(record.but(samples=[]), "multi30k")
    publish(on_other(record.but(published=[], finding=""), PLACE / "teacher" / "model"), "multi30k_2017")


def on_other(record: Record, teacher: Path) -> Record:
    """Every model of the comparison on another test set, compared as there."""
    texts = DataSettings(train=str(DATA / f"{OTHER}.en.gz"), task="translate")
    corpus = read_parallel(texts, ParallelSettings(target=str(DATA / f"{OTHER}.de.gz")), only_test=True)
    network, tokenizer = load(teacher, "translate")
    start, settings = decoder_start(network), TranslateSettings(**record.knobs["translate"])
    evaluator = Seq2SeqEvaluator(record.task, tokenizer, start, corpus.dev, corpus.test, settings, texts.max_length)
    first = evaluator.of_teacher(network)
    evaluator = replace(evaluator, teacher=first)
    found = {arm.name: {0: first} if arm.name == "teacher" else _tested(evaluator, arm) for arm in record.arms}
    arms = [_with(arm, found[arm.name]) for arm in record.arms]
    artifacts = [_artifact(evaluator, artifact, found[artifact.arm]) for artifact in record.artifacts]
    return record.but(
        command="python benchmarks/multi30k.py",
        created=now(),
        arms=sorted(arms, key=lambda arm: (arm.role != "teacher", -arm.mean(record.metric))),
        artifacts=artifacts,
        data=corpus.card,
        fingerprints={**record.fingerprints, "data": pairs_fingerprint(corpus)},
        comparisons=[_again(evaluator, c, found[c.better], found[c.than]) for c in record.comparisons],
        notes=[note for note in record.notes if note != TIMED_ONCE],
        samples=[],
    )


def _tested(evaluator: Seq2SeqEvaluator, arm: Arm) -> BySeed:
    homes = {run.seed: PLACE / "compare" / "arms" / f"{arm.name}-seed{run.seed}" / "model" for run in arm.runs}
    return {seed: evaluator.test(load(home, "translate")[0]) for seed, home in homes.items()}


def _artifact(evaluator: Seq2SeqEvaluator, artifact: Artifact, of_arm: BySeed) -> Artifact:
    found = evaluator.test_engine(CTranslate2Engine(PLACE / "compare" / artifact.path))
    made = artifact.comparison
    again = _again(evaluator, made, {artifact.seed: found}, of_arm) if made else None
    return artifact.but(quality=found.scores, speed=None, comparison=again)


def _with(arm: Arm, found: BySeed) -> Arm:
    """Its speed was measured on the other set."""
    return arm.but(runs=[run.but(quality=found[run.seed].scores, curve=[]) for run in arm.runs], speed=None)


def _again(evaluator: Seq2SeqEvaluator, made: Comparison, mine: BySeed, theirs: BySeed) -> Comparison:
    both = [[found[seed].statistics for seed in mine] for found in (mine, theirs)]
    every = np.ones(evaluator.test_rows, dtype=bool)
    return compare(evaluator.info, made.metric, made.better, made.than, *both, every, every, confidence=made.confidence)


if __name__ == "__main__":
    main()
