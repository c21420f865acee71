"""Sequence-level distillation of a translator, Kim and Rush's table, on Multi30k (English to German).

A teacher of 3+3 layers × 256 learns for 14 epochs from scratch, students of 2+2 × 64 are taught by word, by sentence
and by both. The paper has LSTMs and WMT14; levels of BLEU are therefore not comparable, differences are.
A quick run without --data translates the names of numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from limbeck.core.files import write_text
from limbeck.core.record import Record
from limbeck.experiments.experiment import Conditions, Experiment, Needs, Part, experiment
from limbeck.experiments.findings import Claim, compared, over_seeds, sentence
from limbeck.experiments.published import beside, packaged, scores
from limbeck.objectives.word_kd import KIM_RUSH_2016

TEST = "test_2016_flickr"
MULTI30K = Needs(
    "Multi30k",
    tuple(f"{split}.{language}" for split in ("train", "val", TEST) for language in ("en", "de")),
    "github.com/multi30k/dataset, data/task1/raw",
    "names of numbers",
)
TEACHER = (
    *("--seq2seq.hidden", 256, "--seq2seq.encoder-layers", 3, "--seq2seq.decoder-layers", 3),
    *("--seq2seq.feed-forward", 512, "--seq2seq.vocabulary", 4000, "--seq2seq.dropout", 0.2),
    *("--epochs", 14, "--batch-size", 64, "--train.evals-per-epoch", 1, "--train.warmup", 0.06, "--measure.no-speed"),
)
QUICK_TEACHER = (
    *("--seq2seq.hidden", 96, "--seq2seq.encoder-layers", 2, "--seq2seq.decoder-layers", 2, "--seq2seq.heads", 4),
    *("--seq2seq.feed-forward", 192, "--seq2seq.dropout", 0.0, "--learning-rate", 3e-3, "--batch-size", 32),
    *("--train.evals-per-epoch", 1, "--measure.no-speed"),
)
QUICK_STUDENT = (
    *("--student.layers", 1, "--student.decoder-layers", 1, "--student.hidden", 48, "--student.feed-forward", 96),
    *("--epochs", 3, "--learning-rate", 3e-3, "--batch-size", 32),
    *("--measure.no-speed", "--measure.bootstrap", 200),
)
QUICK_ROWS = 500


def parts(conditions: Conditions) -> Sequence[Part]:
    quick, small = conditions.quick, conditions.data is None  # numbers have few words
    files = MULTI30K.find(conditions.data or _numbers(conditions.out / "numbers"))
    data: tuple[object, ...] = (
        *("--task", "translate", "--data", files["train.en"], "--target", files["train.de"]),
        *("--data.dev", files["val.en"], "--data.test", files[f"{TEST}.en"]),
        *(("--data.limit", QUICK_ROWS) if quick else ()),
    )
    words = ("--seq2seq.vocabulary", 120 if small else 1000, "--epochs", 6 if small else 4)
    learn = (*QUICK_TEACHER, *words) if quick else TEACHER
    teach = ("--teacher", conditions.out / "teacher" / "model", *data, "--seeds", conditions.seeds)
    run_file = packaged("seq_kd_quick.toml" if quick else "seq_kd.toml")
    return (
        Part("teacher", "train", (*data, *learn), seconds=40 if quick else 5400),
        Part(
            "compare",
            "compare",
            (run_file, *teach, *(QUICK_STUDENT if quick else ())),
            after=("teacher",),
            seconds=80 if quick else 9000,
        ),
    )


def conclude(conditions: Conditions) -> Record:
    record = conditions.record("compare")
    found = scores(record)

    def seeds(arm: str, metric: str) -> list[float]:
        return found.get(f"{arm} {metric}", [])

    def gap(arm: str) -> list[float]:
        return seeds(arm, "beam_gain")

    claims = (
        Claim("Word-KD above no teacher", compared(record.comparisons, "word-kd", "finetune", 1.0), "BLEU"),
        Claim("Seq-KD above no teacher", compared(record.comparisons, "seq-kd", "finetune", 1.0), "BLEU"),
        Claim("Seq-KD above Word-KD", over_seeds(seeds("seq-kd", "bleu"), seeds("word-kd", "bleu")), "BLEU"),
        Claim("a beam gains less after Seq-KD", over_seeds(gap("finetune"), gap("seq-kd")), "BLEU"),
        Claim(
            "perplexity rises with Seq-KD",
            over_seeds(seeds("seq-kd", "perplexity"), seeds("finetune", "perplexity")),
            "",
        ),
    )
    return record.but(published=beside("seq_kd_published.toml", found), finding=sentence(claims))


def _numbers(folder: Path) -> Path:
    """Numbers below a million in English and German words, spread evenly; test and dev are others than train."""
    sizes = {"train": QUICK_ROWS, "val": 40, TEST: 40}
    step, first = 618_033, 0  # no factor in common with a million: its multiples visit every number, far apart
    for split, rows in sizes.items():
        numbers = [place * step % 1_000_000 for place in range(first + 1, first + rows + 1)]
        first += rows
        for language, say in (("en", english), ("de", german)):
            file = folder / f"{split}.{language}"
            if not file.exists():
                write_text(file, "".join(f"{say(number)}\n" for number in numbers))
    return folder


EN = "zero one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
EN += "thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()  # noqa: SIM905
EN_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905
DE = "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split()  # noqa: SIM905
DE += "dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn".split()  # noqa: SIM905
DE_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()  # noqa: SIM905


def english(number: int) -> str:
    if number < 20:
        return EN[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return EN_TENS[tens - 2] + (f" {EN[ones]}" if ones else "")
    size, name = (1000, "thousand") if number >= 1000 else (100, "hundred")
    high, low = divmod(number, size)
    return f"{english(high)} {name}" + (f" {english(low)}" if low else "")


def german(number: int) -> str:
    """Ones before tens, as "ein und zwanzig", each word apart: the order is what there is to learn."""
    if number < 20:
        return DE[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return (f"{DE[ones]} und " if ones else "") + DE_TENS[tens - 2]
    size, name = (1000, "tausend") if number >= 1000 else (100, "hundert")
    high, low = divmod(number, size)
    return f"{german(high)} {name}" + (f" {german(low)}" if low else "")


KIM_RUSH = experiment(
    Experiment(
        "kim-rush-multi30k",
        "Sequence-level distillation of a translator on Multi30k",
        KIM_RUSH_2016,
        "a student that learns the teacher's translations is better than one that learns its words, and needs no beam",
        MULTI30K,
        cost="about 4 hours",
        quick_cost="about 2 minutes",
        parts=parts,
        conclude=conclude,
        seeds=2,
    )
)
