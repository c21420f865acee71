"""Translation from English to German, Kim and Rush's table: a teacher, a student of a tenth of its parameters, and
every way of teaching it, two seeds each, on test_2016_flickr; then the same models on test_2017_flickr.

    .venv/bin/python benchmarks/multi30k.py      some hours on two cores; finished parts are kept

Reads ../shared/data/multi30k_en_de. The Records and pages are benchmarks/results/multi30k…; no sentence of the data
is in them.
"""

from __future__ import annotations

from pathlib import Path

from limbeck.core.record import Arm, Record
from limbeck.data.pair_settings import PairSettings
from limbeck.data.settings import DataSettings
from limbeck.recipes.evaluate_pairs import evaluate_pairs
from story import HOME, WORK, limbeck, publish

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
    """Every model of the comparison on another test set."""
    arms = [_again(arm, [teacher] if arm.name == "teacher" else _models(arm)) for arm in record.arms]
    first = evaluate_pairs(str(teacher), *_file())
    return record.but(arms=arms, data=first.data, comparisons=[], samples=[], name=f"multi30k, {OTHER}")


def _models(arm: Arm) -> list[Path]:
    if arm.name == "student-int8":
        return [PLACE / "compare" / arm.name]
    return [PLACE / "compare" / "arms" / f"{arm.name}-seed{run.seed}" / "model" for run in arm.runs]


def _again(arm: Arm, models: list[Path]) -> Arm:
    found = [evaluate_pairs(str(model), *_file()).arms[0].runs[0].quality for model in models]
    runs = [run.but(quality=quality, curve=[]) for run, quality in zip(arm.runs, found, strict=True)]
    return arm.but(runs=runs)


def _file() -> tuple[DataSettings, PairSettings]:
    return (
        DataSettings(train=str(DATA / f"{OTHER}.en.gz"), task="translate"),
        PairSettings(target=str(DATA / f"{OTHER}.de.gz")),
    )


if __name__ == "__main__":
    main()
