"""Translation from English to German, Kim and Rush's table: a teacher, a student of a tenth of its parameters, and
every way of teaching it, two seeds each, on test_2016_flickr; then the same models on test_2017_flickr.

    .venv/bin/python benchmarks/multi30k.py      some hours on two cores; finished parts are kept

Reads ../shared/data/multi30k_en_de. The Records and pages are benchmarks/results/multi30k…; no sentence of the data
is in them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from limbeck.core.record import Arm, Artifact, Comparison, Record
from limbeck.data.parallel import read_tested
from limbeck.data.parallel_settings import ParallelSettings
from limbeck.data.settings import DataSettings
from limbeck.measure.significance import compare
from limbeck.recipes.cell import Answers
from limbeck.recipes.ground import pairs_fingerprint
from limbeck.recipes.sequence_exam import SequenceExam
from limbeck.recipes.tell import now
from limbeck.recipes.tell_compare import TIMED_ONCE
from limbeck.students.open_translator import decoder_start, open_translator
from limbeck.teachers.ct2 import Converted
from limbeck.teachers.translate_settings import TranslateSettings
from story import HOME, WORK, limbeck, publish

BySeed = dict[int, Answers]

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "multi30k_en_de"
PLACE = WORK / "multi30k"
TEXTS = (
    *("--task", "translate", "--data", DATA / "train.en.gz", "--target", DATA / "train.de.gz"),
    *("--data.dev", DATA / "val.en.gz", "--data.test", DATA / "test_2016_flickr.en.gz"),
)
TEACHER = (
    *("--new.hidden", 256, "--new.encoder-layers", 3, "--new.decoder-layers", 3, "--new.feed-forward", 512),
    *("--new.vocabulary", 4000, "--new.dropout", 0.2, "--epochs", 14, "--batch-size", 64),
    *("--train.evals-per-epoch", 1, "--train.warmup", 0.06, "--measure.no-speed"),
)
OTHER = "test_2017_flickr"


def main() -> None:
    limbeck("train", PLACE / "teacher", *TEXTS, *TEACHER)
    teacher = PLACE / "teacher" / "model"
    limbeck("compare", PLACE / "compare", HOME / "multi30k.toml", "--teacher", teacher, *TEXTS)
    publish(Record.load(PLACE / "teacher").but(samples=[]), "multi30k_teacher")
    record = Record.load(PLACE / "compare")
    publish(record.but(samples=[]), "multi30k")
    publish(on_other(record, teacher), "multi30k_2017")


def on_other(record: Record, teacher: Path) -> Record:
    """Every model of the comparison on another test set, compared as there."""
    texts = DataSettings(train=str(DATA / f"{OTHER}.en.gz"), task="translate")
    corpus = read_tested(texts, ParallelSettings(target=str(DATA / f"{OTHER}.de.gz")))
    network, tokenizer = open_translator(teacher)
    start, settings = decoder_start(network), TranslateSettings(**record.knobs["translate"])
    exam = SequenceExam(record.task, tokenizer, start, corpus.dev, corpus.test, settings, texts.max_length)
    first, written = exam.taken(network, teaches=True)
    exam = exam.beside(written)
    found = {arm.name: {0: first} if arm.name == "teacher" else _taken(exam, arm) for arm in record.arms}
    arms = [_with(arm, found[arm.name]) for arm in record.arms]
    artifacts = [_artifact(exam, artifact, found[artifact.arm]) for artifact in record.artifacts]
    return record.but(
        command="python benchmarks/multi30k.py",
        created=now(),
        arms=sorted(arms, key=lambda arm: (arm.role != "teacher", -arm.mean(record.metric))),
        artifacts=artifacts,
        data=corpus.card,
        fingerprints={**record.fingerprints, "data": pairs_fingerprint(corpus)},
        comparisons=[_again(exam, c, found[c.better], found[c.than]) for c in record.comparisons],
        notes=[note for note in record.notes if note != TIMED_ONCE],
        samples=[],
    )


def _taken(exam: SequenceExam, arm: Arm) -> BySeed:
    homes = {run.seed: PLACE / "compare" / "arms" / f"{arm.name}-seed{run.seed}" / "model" for run in arm.runs}
    return {seed: exam.test(open_translator(home)[0]) for seed, home in homes.items()}


def _artifact(exam: SequenceExam, artifact: Artifact, of_arm: BySeed) -> Artifact:
    found = exam.of_engine(Converted(PLACE / "compare" / artifact.path))[0]
    made = artifact.comparison
    again = _again(exam, made, {artifact.seed: found}, of_arm) if made else None
    return artifact.but(quality=found.quality, speed=None, comparison=again)


def _with(arm: Arm, found: BySeed) -> Arm:
    """Its speed was measured on the other set."""
    return arm.but(runs=[run.but(quality=found[run.seed].quality, curve=[]) for run in arm.runs], speed=None)


def _again(exam: SequenceExam, made: Comparison, mine: BySeed, theirs: BySeed) -> Comparison:
    both = [[answers[seed].logits for seed in mine] for answers in (mine, theirs)]
    every = np.ones(len(exam.unseen), dtype=bool)
    return compare(exam.task, made.metric, made.better, made.than, *both, every, every, confidence=made.confidence)


if __name__ == "__main__":
    main()
