"""A comparison such as `limbeck compare` writes: many recipes, two shapes, five seeds, one that failed."""

from __future__ import annotations

from sample_parts import HINTON, KNOBS, MACHINE, data, seed_result, shape, size, speed

from limbeck.core.record import Arm, Comparison, Failure, Record
from limbeck.core.task import TaskInfo

LABELS = ("negative", "positive")
SPREAD = (-0.006, -0.002, 0.0, 0.003, 0.005)
# name, layers, accuracy, baseline
COLUMNS = (
    ("pkd-skip", 3, 0.8141, "finetune"),
    ("tinybert", 3, 0.8122, "finetune"),
    ("hinton", 3, 0.8055, "finetune"),
    ("minilm", 3, 0.8051, "finetune"),
    ("logits", 3, 0.8019, "finetune"),
    ("finetune", 3, 0.7993, ""),
    ("cka", 3, 0.784, "finetune"),
    ("two-layers", 2, 0.7912, "plain"),
    ("minilmv2", 2, 0.7905, "plain"),
    ("plain", 2, 0.7818, ""),
    ("bilstm", 1, 0.7701, "plain-2"),
    ("plain-2", 1, 0.7302, ""),
)


def comparison(seeds: int = 5, columns: tuple = COLUMNS) -> Record:
    known = {name: accuracy for name, _, accuracy, _ in columns}
    teacher = Arm(
        name="teacher",
        title="teacher",
        role="teacher",
        shape=shape(6),
        size=size(6),
        speed=speed(12.3),
        runs=[seed_result(0, 0.817, LABELS, True, ())],
    )
    arms = [_arm(name, layers, accuracy, than, seeds) for name, layers, accuracy, than in columns]
    paired = [_compared(name, than, accuracy - known[than], seeds) for name, _, accuracy, than in columns if than]
    return Record(
        kind="compare",
        name="side by side",
        created="2025-11-15T20:55:00Z",
        command="limbeck compare --teacher runs/teacher --data reviews.csv --seeds 5 --out runs/compare",
        machine=MACHINE,
        seeds=list(range(seeds)),
        knobs={**KNOBS, "each": {"two-layers": {"recipe": "hinton", "student": {"layers": 2}}}},
        fingerprints={"teacher": "9f2c41d0aa7e5b1c"},
        task=TaskInfo(kind="classify", labels=LABELS),
        metric="accuracy",
        data=data(),
        arms=[teacher, *arms],
        comparisons=paired,
        failed=[
            Failure(arm="mobilebert", reason="mobilebert compares heads one to one, but 2 is not 4 (give it 4 heads)"),
            Failure(arm="cka", seeds=[3, 4], reason="MemoryError: no <b>room</b>"),
        ],
        seconds=dict.fromkeys(known, 104.0 * seeds),
        citations=[HINTON],
        notes=["Nothing was tuned: every column ran with the knobs of its recipe and of this run, once for each seed."],
    )


def _arm(name: str, layers: int, accuracy: float, than: str, seeds: int) -> Arm:
    terms = ("labels", "soft") if than else ("labels",)
    shown = {"plain": "labels only, beside two-layers and minilmv2", "plain-2": "labels only, beside bilstm"}.get(
        name, name
    )
    return Arm(
        name=name,
        title=shown,
        role="student" if than else "baseline",
        objective="0.5 * labels + 0.5 * hinton(temperature=4)" if than else "1 * labels",
        shape=shape(layers),
        runs=[seed_result(seed, accuracy + SPREAD[seed], LABELS, bool(than), terms) for seed in range(seeds)],
        size=size(layers),
        speed=speed(2.1 * layers),
    )


def _compared(name: str, than: str, gain: float, seeds: int) -> Comparison:
    does = "does better than" if gain > 0.0115 else "does worse than" if gain < -0.0115 else "does not differ from"
    return Comparison(
        better=name,
        than=than,
        metric="accuracy",
        difference=gain,
        low=gain - 0.0115,
        high=gain + 0.0115,
        confidence=0.9945,
        seeds=seeds,
        rows=1066,
        sentence=f"“{name}” {does} “{than}”: {100 * gain:+.1f} points of accuracy.",
    )
