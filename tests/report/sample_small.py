"""Records of small models, such as runs write: a chain of passes, exports, models timed side by side."""

from __future__ import annotations

import random

from sample_parts import HINTON, KNOBS, MACHINE, WOBBLE, data, seed_result, shape

from limbeck.core.record import (
    Arm,
    Artifact,
    Comparison,
    Fidelity,
    Floor,
    LengthSpeed,
    Record,
    SeedResult,
    Size,
    Speed,
)
from limbeck.core.task import TaskInfo

LABELS = ("negative", "positive")
FLOOR = Floor(title="most frequent class (positive)", quality={"accuracy": 0.509})
# step, what it says of itself, MB in all, ms, accuracy, seconds, what it counted
START = ("start", "The model before the first pass.", 91.2, 14.8, 0.898, 0.0, {})
STEPS = (
    (
        "vocabulary",
        "13,487 of 30,522 pieces remain (44.2 %). All 67,349 calibration texts have the same tokens as before. Of 872 "
        "held-out texts 31 (3.6 %) are segmented otherwise, with 2 new unknown tokens and 0.4 % more tokens.",
        64.9,
        14.5,
        0.898,
        3.1,
        {"pieces": 13487, "held_out_resegmented_share": 0.0, "held_out_new_unknowns": 0},
    ),
    (
        "lowrank",
        "13 of 37 layers factorised, ranks 48 to 128",
        31.2,
        9.1,
        0.861,
        21.0,
        {"layers_factorised": 13, "mean_rank": 84.5},
    ),
    ("recovery", "", 31.2, 9.1, 0.891, 512.0, {"agreement": 0.962, "divergence": 0.031}),
    ("quantize", "int8 by channel, 2 layers left float", 8.4, 9.6, 0.889, 4.4, {"layers_left_float": 2}),
)


def size(megabytes: float, parameters: float = 0.0) -> Size:
    count = int(1e6 * (parameters or megabytes / 4))
    inner = count // 3
    disk = int(1e6 * megabytes - 712_000)
    return Size(
        parameters=count, parameters_without_embeddings=inner, bytes_on_disk=disk, bytes_in_all=int(1e6 * megabytes)
    )


def speed(p50: float, engine: str = "torch fp32", load: float = 2900.0) -> Speed:
    lengths = [LengthSpeed(tokens=t, p50_ms=p50 * (0.6 + t / 60), p95_ms=p50 * (0.8 + t / 50)) for t in (8, 32, 128)]
    return Speed(
        engine=engine,
        threads=1,
        p50_ms=p50,
        p95_ms=1.2 * p50,
        p99_ms=1.5 * p50,
        low_ms=0.98 * p50,
        high_ms=1.03 * p50,
        load_ms=load,
        batch=32,
        sentences_per_second=2600 / p50,
        peak_bytes=int(1.1e8 + 3e7 * p50),
        rounds=200,
        by_length=lengths,
    )


def compared(name: str, than: str, difference: float) -> Comparison:
    low, high = difference - 0.009, difference + 0.009
    told = "loses against" if high < 0 else "is not proven to differ from"
    return Comparison(
        better=name,
        than=than,
        metric="accuracy",
        difference=difference,
        low=low,
        high=high,
        seeds=1,
        rows=1821,
        sentence=f"“{name}” {told} “{than}”: {100 * difference:+.1f} points of accuracy, 1,821 test rows.",
    )


def artifact(name: str, arm: str, accuracy: float, megabytes: float, ms: float, **more: object) -> Artifact:
    engine = str(more.pop("engine", "ONNX Runtime"))
    load = 2900.0 if engine == "torch" else 410.0
    return Artifact(
        name=name,
        arm=arm,
        engine=engine,
        path=f"exports/{name}",
        quality={"accuracy": accuracy, "f1_macro": accuracy - 0.001},
        size=size(megabytes),
        speed=speed(ms, "torch fp32" if engine == "torch" else f"{engine.lower()}", load),
        **{"seed": 0, "precision": "float32", **more},
    )


def compressed(steps: tuple = STEPS, exported: bool = True) -> Record:
    """As `limbeck compress --passes vocabulary,lowrank,quantize --export onnx-int8` leaves it: the arm is what the
    chain ends with, and its last step is the same model."""
    names = [f"{i:02d}-{step}" for i, (step, *_) in enumerate((START, *steps))]
    made = [
        artifact(
            *(name, "compressed", accuracy, megabytes, ms),
            step=step,
            note=note,
            seconds=seconds,
            figures=figures,
            engine="torch",
            precision="int8" if step == "quantize" else "float32",
        )
        for name, (step, note, megabytes, ms, accuracy, seconds, figures) in zip(names, (START, *steps), strict=True)
    ]
    for i in range(1, len(made)):
        gap = made[i].quality["accuracy"] - made[i - 1].quality["accuracy"]
        made[i] = made[i].but(comparison=compared(names[i], names[i - 1], gap))
    last = made[-1]
    outcome = Arm(
        name="compressed",
        title="compressed",
        role="student",
        shape=shape(6),
        size=last.size,
        speed=last.speed,
        runs=[SeedResult(seed=0, quality=last.quality, fidelity=Fidelity(agreement=0.958, divergence=0.03))],
    )
    made[-1] = last.but(speed=None)
    if exported:
        parity = {"rows": 872, "agreement": 1.0, "largest_difference": 3.1e-6}
        made.append(artifact("onnx", "compressed", 0.889, 30.9, 4.9, seconds=11.0, figures=parity))
        parity = {"rows": 872, "agreement": 0.9931, "largest_difference": 0.21}
        made.append(
            artifact("onnx-int8", "compressed", 0.887, 8.3, 1.9, seconds=14.0, figures=parity, precision="int8")
        )
        made[-2:] = [
            one.but(comparison=compared(one.name, "compressed", one.quality["accuracy"] - 0.889)) for one in made[-2:]
        ]
    return Record(
        kind="compress",
        name="chain",
        created="2026-11-15T20:55:00Z",
        command="limbeck compress runs/teacher --data sst2.tsv --passes vocabulary,lowrank,quantize "
        "--teacher runs/teacher --export onnx-int8 --out runs/chain",
        machine=MACHINE,
        seeds=[0],
        knobs=KNOBS,
        fingerprints={"model": "9f2c41d0aa7e5b1c"},
        task=TaskInfo(kind="classify", labels=LABELS),
        metric="accuracy",
        data=data(1821),
        arms=[outcome],
        artifacts=made,
        floor=FLOOR,
        steps={"compressed": [step for step, *_ in steps]},
        seconds={"recovery": 512.0},
        citations=[HINTON],
    )


def benched(scored: bool = True) -> Record:
    """As `limbeck bench teacher student student-int8 --data FILE` leaves it."""
    arms = [
        Arm(
            name=name,
            title=name,
            role="model",
            size=size(megabytes),
            speed=speed(ms, engine, load),
            runs=[SeedResult(seed=0, quality={"accuracy": accuracy})] if scored else [],
        )
        for name, megabytes, ms, engine, load, accuracy in (
            ("runs/teacher", 91.2, 14.8, "torch fp32", 3100.0, 0.898),
            ("runs/small", 22.4, 3.4, "torch fp32", 2700.0, 0.889),
            ("runs/small/onnx-int8", 5.1, 0.97, "onnxruntime int8", 420.0, 0.887),
        )
    ]
    record = compressed()
    return record.but(kind="bench", name="bench", arms=arms, artifacts=[], steps={}, floor=FLOOR if scored else None)


def exported(seeds: int = 3, crowd: bool = False) -> Record:
    """As `limbeck distill --preset small --export onnx-int8` leaves it; `crowd`: with many exports close together."""
    rows = (
        ("teacher", "Teacher, 6 layers", "teacher", 0.898, 91.2, 14.8),
        ("plain", "3 layers, plain", "baseline", 0.861, 22.4, 3.5),
        ("distilled", "3 layers, distilled", "student", 0.889, 22.4, 3.4),
    )
    arms = [
        Arm(
            name=name,
            title=title,
            role=role,
            shape=shape(6 if role == "teacher" else 3),
            objective="" if role == "teacher" else "hinton",
            size=size(megabytes),
            speed=speed(ms),
            runs=[
                seed_result(s, accuracy + (WOBBLE[s] if seeds > 1 else 0), LABELS, role == "student", ("labels",))
                for s in range(1 if role == "teacher" else seeds)
            ],
        )
        for name, title, role, accuracy, megabytes, ms in rows
    ]
    parity = {"rows": 872, "agreement": 0.9954, "largest_difference": 0.18}
    made = [
        artifact(f"onnx-int8-{s}", "distilled", 0.887 + WOBBLE[s], 5.1, 0.97, seed=s, precision="int8", figures=parity)
        for s in range(seeds)
    ]
    if crowd:
        rng = random.Random(0)
        made += [
            artifact(
                f"e{i}",
                "distilled",
                0.884 + 0.006 * rng.random(),
                5 + rng.random(),
                0.9 + rng.random() / 5,
                precision=f"int8 variant {i}",
            )
            for i in range(8)
        ]
    gain = compared("distilled", "plain", 0.028).but(
        seeds=seeds, sentence="Distillation helped by 2.8 points of accuracy."
    )
    return compressed().but(
        kind="distill",
        name="small",
        command="limbeck distill --teacher runs/teacher --data sst2.tsv --preset small --export onnx-int8",
        arms=arms,
        artifacts=made,
        comparisons=[gain],
        seeds=list(range(seeds)),
        steps={},
    )


def every_small() -> dict[str, Record]:
    return {
        "compress": compressed(),
        "compress, no export": compressed(STEPS[:2], exported=False),
        "bench of three": benched(),
        "bench without labels": benched(scored=False),
        "exported": exported(),
        "exported, crowd": exported(1, crowd=True),
    }
