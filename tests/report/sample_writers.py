"""Records of translators, such as runs write, made without running anything."""

from __future__ import annotations

import math
import random

from sample_parts import ARABIC, CHINESE, HOSTILE, LONG, MACHINE, WOBBLE, speed

from limbeck.core.record import (
    Arm,
    Artifact,
    Citation,
    Comparison,
    CurvePoint,
    DataCard,
    Record,
    Sample,
    SeedResult,
    Shape,
    Size,
    SplitCard,
)
from limbeck.core.task import TaskInfo

KNOBS = {"recipe": "seq-kd", "translate": {"targets": "beam", "beam": 5, "test_beam": 5}, "student": {"layers": 3}}
PAIRS = DataCard(
    source="train.tsv",
    columns={"source": "en", "target": "de"},
    read=31_014,
    dropped={"empty source": 2},
    duplicates=41,
    splits={
        "train": SplitCard(source="train.tsv", rows=29_000, labelled=28_990),
        "dev": SplitCard(source="val.tsv", rows=1014, labelled=1014),
        "test": SplitCard(source="test.tsv", rows=1000, labelled=1000),
    },
)
KIM = Citation(
    text="Kim, Rush (2016). Sequence-Level Knowledge Distillation. EMNLP.",
    bibtex="@inproceedings{kim2016,\n  title = {Sequence-Level Knowledge Distillation},\n"
    "  year = {2016},\n  url = {https://arxiv.org/abs/1606.07947}\n}",
)
DOGS = "Two dogs run through the snow."
SAMPLES = [
    Sample(
        source=DOGS,
        reference="Zwei Hunde rennen durch den Schnee.",
        written={
            "teacher": "Zwei Hunde laufen durch den Schnee.",
            "plain": "Zwei Hunde rennen im Schnee im Schnee.",
            "distilled": "Zwei Hunde rennen durch den Schnee.",
        },
    ),
    Sample(
        source="A man in a blue shirt is standing on a ladder cleaning a window.",
        reference="Ein Mann in einem blauen Hemd steht auf einer Leiter und putzt ein Fenster.",
        written={
            "teacher": "Ein Mann in einem blauen Hemd steht auf einer Leiter und putzt ein Fenster.",
            "plain": "Ein Mann in einem blauen Shirt steht auf einer Leiter.",
            "distilled": "Ein Mann in blauem Hemd steht auf einer Leiter und reinigt ein Fenster.",
        },
    ),
    Sample(source=CHINESE, reference=ARABIC, written={"teacher": ARABIC, "plain": "", "distilled": ARABIC[:20]}),
    Sample(source=HOSTILE, reference=HOSTILE, written={"teacher": HOSTILE + " <b>", "distilled": "<i>x</i>"}),
    Sample(source=LONG, reference="Ein endloser Satz.", written={"teacher": "Ein Satz.", "distilled": "Ein Satz."}),
    Sample(source="No reference.", reference="", written={"distilled": "Keine Vorlage."}),
]


def written(seed: int, bleu: float, gap: float, sure: float, terms: tuple[str, ...]) -> SeedResult:
    """Greedy BLEU, what a beam adds to it, and p(ŷ); dev BLEU rises to the greedy one."""
    rng, curve = random.Random(f"{seed}{bleu}"), []
    for i in range(1, 13 if terms else 1):
        fade = math.exp(-i / 3)
        losses = {name: 1.5 + 4 * fade + rng.gauss(0, 0.03) for name in terms}
        dev = {"bleu": bleu * (1 - fade) + rng.gauss(0, 0.2), "perplexity": 5 + 40 * fade} if i % 2 == 0 else {}
        curve.append(CurvePoint(step=200 * i, epoch=i / 3, loss=sum(losses.values()), terms=losses, dev=dev))
    figures = {
        "bleu": bleu,
        "chrf": bleu + 22.4,
        "bleu_beam": bleu + gap,
        "chrf_beam": bleu + gap + 22.6,
        "beam_gain": gap,
        "perplexity": 220 / bleu,
        "perplexity_of_teacher": 90 / bleu,
        "p_best": sure,
    }
    best = 2400 if terms else 0
    return SeedResult(seed=seed, quality=figures, curve=curve, seconds=1310.0 if terms else 0.0, best_step=best)


def writer(
    name: str, role: str, bleu: float, gap: float, sure: float, layers: tuple[int, int], seeds: int, title: str = ""
) -> Arm:
    terms = {"teacher": (), "baseline": ("language",)}.get(role, ("language", "word-kd"))
    wobble = WOBBLE if seeds > 1 else (0.0,)
    parameters = 3_100_000 + 1_050_000 * sum(layers)
    shape = Shape(
        architecture="marian", layers=layers[0], decoder_layers=layers[1], hidden=256, heads=4, feed_forward=1024
    )
    return Arm(
        name=name,
        title=title or name,
        role=role,
        objective=" + ".join(terms),
        shape=shape,
        size=Size(
            parameters=parameters, parameters_without_embeddings=parameters - 2_100_000, bytes_on_disk=4 * parameters
        ),
        speed=speed(31.0 * sum(layers)),
        runs=[written(s, bleu + 60 * wobble[s], gap, sure + wobble[s], terms) for s in range(seeds)],
    )


def int8(of: Arm, difference: float) -> Artifact:
    """As CTranslate2 shows it: one seed, no perplexities; by chance a little better than its student."""
    quality = {k: v for k, v in of.runs[0].quality.items() if not k.startswith("perplexity")}
    return Artifact(
        name="student-int8",
        arm=of.name,
        seed=0,
        engine="CTranslate2",
        precision="int8",
        path="student-int8",
        quality={**quality, "bleu": quality["bleu"] + 0.5},
        size=of.size.but(bytes_on_disk=of.size.bytes_on_disk // 4),
        speed=speed(11.0).but(engine="ctranslate2 int8"),
        comparison=against("student-int8", of.name, difference, 1),
    )


def against(better: str, than: str, difference: float, seeds: int, confidence: float = 0.95) -> Comparison:
    low, high = difference - 0.9, difference + 0.9
    sentence = f"“{better}” against “{than}”: {difference:+.1f} in BLEU (interval, 1,000 test sentences)."
    counted = {"seeds": seeds, "rows": 1000, "metric": "bleu", "confidence": confidence}
    return Comparison(better=better, than=than, difference=difference, low=low, high=high, sentence=sentence, **counted)


def translated(name: str = "de from en", seeds: int = 3, student: float = 34.86) -> Record:
    """Teacher, plain student, distilled student and that one in int8, as `limbeck distill --task translate` does."""
    arms = [
        writer("teacher", "teacher", 36.9, 1.1, 0.19, (6, 6), 1),
        writer("plain", "baseline", 29.6, 2.9, 0.06, (3, 1), seeds, "given targets only, beside distilled"),
        writer("distilled", "student", student, 0.3, 0.31, (3, 1), seeds),
    ]
    return Record(
        kind="distill",
        name=name,
        created="2025-11-15T20:55:00Z",
        command="limbeck distill --task translate --teacher runs/teacher --data train.tsv --recipe seq-kd",
        machine=MACHINE,
        seeds=list(range(seeds)),
        knobs=KNOBS,
        fingerprints={"teacher": "9f2c41d0aa7e5b1c", "data": "c0ffee"},
        task=TaskInfo(kind="translate", vocab_size=8000),
        metric="bleu",
        data=PAIRS,
        arms=arms,
        artifacts=[int8(arms[2], -0.1)],
        comparisons=[against("distilled", "plain", student - 29.6, seeds)],
        samples=SAMPLES,
        seconds={"plain": 3900.0, "distilled": 3960.0},
        citations=[KIM],
    )


def compared() -> Record:
    """Four recipes and two shapes, as `limbeck compare --task translate` leaves them."""
    record = translated("recipes of translators")
    columns = (
        ("seq-kd", 34.9, 0.3, 0.31, (3, 1), "plain"),
        ("seq-inter", 35.4, 0.2, 0.36, (3, 1), "plain"),
        ("word-kd", 31.2, 2.1, 0.11, (3, 1), "plain"),
        ("tiny", 27.0, 0.4, 0.21, (1, 1), "plain-2"),
    )
    arms = [
        record.arm("teacher"),
        record.arm("plain").but(title="given targets only, beside seq-kd and 2 more"),
        writer("plain-2", "baseline", 27.4, 2.2, 0.05, (1, 1), 3, "given targets only, beside tiny"),
        *(writer(name, "student", bleu, gap, sure, shape, 3) for name, bleu, gap, sure, shape, _ in columns),
    ]
    known = {arm.name: arm.mean("bleu") for arm in arms}
    paired = [against(name, than, bleu - known[than], 3, 0.9875) for name, bleu, *_, than in columns]
    return record.but(
        kind="compare",
        arms=arms,
        artifacts=[int8(arms[4], 0.0)],
        comparisons=paired,
        samples=[
            sample.but(written={arm.name: sample.written["teacher"] for arm in arms})
            for sample in SAMPLES
            if "teacher" in sample.written
        ],
    )


def of_black_box() -> Record:
    """A teacher of which only its translations are known; speed was not taken."""
    record = translated("from a command", seeds=1)
    seen = ("bleu", "chrf")
    quality = {name: value for name, value in record.arm("teacher").runs[0].quality.items() if name in seen}
    teacher = Arm(
        name="teacher", title="teacher, a black box", role="teacher", runs=[SeedResult(seed=0, quality=quality)]
    )
    rest = [arm.but(speed=None) for arm in record.arms[1:3]]
    return record.but(arms=[teacher, *rest], artifacts=[])


def evaluated_writer() -> Record:
    """As `limbeck eval --task translate` leaves it: no knob tells the beam."""
    record = translated("opus", seeds=1)
    arm = record.arm("teacher").but(name="model", title="opus-mt, 6+6 layers", role="model", speed=None)
    samples = [sample.but(written={"model": sample.written["teacher"]}) for sample in SAMPLES[:3]]
    cleared = {"artifacts": [], "comparisons": [], "citations": [], "seconds": {}, "knobs": {"model": "opus"}}
    return record.but(kind="eval", arms=[arm], samples=samples, **cleared)


def trained_writer() -> Record:
    record = translated("writer", seeds=1)
    arm = record.arm("plain").but(name="teacher", title="marian, 3+1 layers", role="teacher")
    return record.but(kind="train", arms=[arm], artifacts=[], comparisons=[], samples=[])


def every_writer() -> dict[str, Record]:
    return {
        "translate": translated(),
        "translate, compare": compared(),
        "translate, black box": of_black_box(),
        "translate, eval": evaluated_writer(),
        "translate, train": trained_writer(),
    }
