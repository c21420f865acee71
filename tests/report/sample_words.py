"""Records of language models, such as runs write, made without running anything."""

from __future__ import annotations

import math
import random

from sample_parts import HINTON, MACHINE, WOBBLE, shape, size, speed

from limbeck.core.record import Arm, Comparison, CurvePoint, DataCard, Fidelity, Record, SeedResult, SplitCard
from limbeck.core.task import TaskInfo

KNOBS = {"text": {"length": 128, "pack": True}, "mask": {"share": 0.15}, "train": {"epochs": 2}}
TEXT = DataCard(
    source="reviews.txt",
    columns={"text": "what stands between blank lines"},
    read=6000,
    duplicates=12,
    splits={
        "train": SplitCard(source="reviews.txt", rows=6400, labelled=819_200),
        "dev": SplitCard(source="cut by a hash of the document", rows=120, labelled=15_360),
        "test": SplitCard(source="cut by a hash of the document", rows=400, labelled=50_800),
    },
    notes=["train: 7 tokens left out, in pieces of fewer than 8"],
)


def word_result(seed: int, perplexity: float, near: float | None, terms: tuple[str, ...]) -> SeedResult:
    """`near` is the agreement with the teacher; the dev perplexity falls from that of a blind guess."""
    rng, curve = random.Random(f"{seed}{perplexity}"), []
    for i in range(1, 13 if terms else 1):
        nats = math.log(perplexity) + 5 * math.exp(-i / 1.5)
        dev = {"perplexity": math.exp(nats) * (1 + rng.gauss(0, 0.01)), "loss": nats} if i % 2 == 0 else {}
        losses = {name: nats / (1 + at) + rng.gauss(0, 0.02) for at, name in enumerate(terms)}
        curve.append(CurvePoint(step=100 * i, epoch=i / 6, loss=sum(losses.values()) / 2, terms=losses, dev=dev))
    close = Fidelity(agreement=near, divergence=2 * (1 - near), teacher_right_rows=4100) if near else None
    return SeedResult(
        seed=seed,
        quality={
            "perplexity": perplexity,
            "token_nll": math.log(perplexity),
            "token_accuracy": 0.9 - 0.12 * math.log(perplexity),
            "token_ece": 0.021,
        },
        fidelity=close.but(accuracy_teacher_right=near + 0.1) if close and near else None,
        curve=curve,
        seconds=740.0 if terms else 0.0,
        best_step=1200 if terms else 0,
    )


def word_arm(name: str, title: str, role: str, perplexity: float, layers: int, near: float | None, seeds: int) -> Arm:
    terms = {"teacher": (), "baseline": ("language",)}.get(role, ("language", "truncated"))
    wobble = WOBBLE if seeds > 1 else (0.0,)
    return Arm(
        name=name,
        title=title,
        role=role,
        objective=" + ".join(terms),
        shape=shape(layers).but(architecture="bert"),
        size=size(layers),
        speed=speed(4.0 * layers),
        runs=[word_result(s, perplexity * (1 + 2 * wobble[s]), near, terms) for s in range(seeds)],
    )


def against(better: str, than: str, difference: float, seeds: int) -> Comparison:
    low, high = difference - 0.6, difference + 0.6
    opening = "Distillation helped by" if better == "distilled" else f"“{better}” does better than “{than}” by"
    sentence = f"{opening} {difference:+.3f} in perplexity (95% interval, {seeds} seeds, 400 test blocks)."
    counted = {"seeds": seeds, "rows": 400, "metric": "perplexity"}
    return Comparison(better=better, than=than, difference=difference, low=low, high=high, sentence=sentence, **counted)


def words(student: float = 13.61, kind: str = "mask-fill", seeds: int = 3, name: str = "words") -> Record:
    """Teacher, plain student and distilled student, as `limbeck distill --task mask-fill` leaves them."""
    arms = [
        word_arm("teacher", "teacher, 6 layers × 384", "teacher", 12.15, 6, None, 1),
        word_arm("plain", "3 layers × 384, text only", "baseline", student + 1.5, 3, 0.61, seeds),
        word_arm("distilled", "3 layers × 384, distilled", "student", student, 3, 0.74, seeds),
    ]
    return Record(
        kind="distill",
        name=name,
        created="2025-11-15T20:55:00Z",
        command=f"limbeck distill --task {kind} --teacher runs/teacher --data reviews.txt --out runs/{name}",
        machine=MACHINE,
        seeds=list(range(seeds)),
        knobs=KNOBS,
        fingerprints={"teacher": "9f2c41d0aa7e5b1c", "data": "c0ffee", "mask": "beef"},
        task=TaskInfo(kind=kind, vocab_size=30_522),
        metric="perplexity",
        data=TEXT,
        arms=arms,
        comparisons=[against("distilled", "plain", -1.5, seeds)],
        figures={"cache_bytes_per_token": 104.3, "cache_bytes": 12.8e6},
        seconds={arm.name: 740.0 for arm in arms[1:]},
        citations=[HINTON],
        notes=["The teacher's answers, 50 most probable words of each of 122,880 tokens, took 104 bytes per token."],
    )


def without_teacher() -> Record:
    """The teacher is gone; a cache of its most probable words tells no agreement."""
    record = words(name="from a cache")
    arms = [arm.but(runs=[run.but(fidelity=None) for run in arm.runs]) for arm in record.arms[1:]]
    return record.but(arms=arms, notes=["The teacher was not there: only its kept answers."])


def trained_words() -> Record:
    record = words(kind="generate", name="writer", seeds=1)
    arm = record.arm("plain").but(name="model", title="GPT-2, trained on text", role="model")
    alone = arm.but(runs=[run.but(fidelity=None) for run in arm.runs])
    return record.but(kind="train", arms=[alone], comparisons=[], figures={}, notes=[])


def contest() -> Record:
    """A benchmark: one teacher, one student without it, five with it, three seeds each."""
    record = words(name="imdb-words")
    arms = [record.arm("teacher"), word_arm("none", "no teacher", "baseline", 15.1, 3, 0.61, 3)]
    for name, title, perplexity, near in (
        ("full", "whole softmax", 13.61, 0.74),
        ("tail-8", "top 8 and a tail bucket", 13.92, 0.72),
        ("tail-50", "top 50 and a tail bucket", 13.55, 0.745),
        ("renorm-8", "top 8, renormalised", 16.4, 0.69),
        ("renorm-50", "top 50, renormalised", 14.2, 0.73),
    ):
        arms.append(word_arm(name, title, "student", perplexity, 3, near, 3))
    scored = [
        arm.but(runs=[run.but(quality={**run.quality, "accuracy": 0.79}) for run in arm.runs])
        if arm.role != "teacher"
        else arm
        for arm in arms
    ]
    gaps = [against(arm.name, "none", arm.mean("perplexity") - 15.1, 3) for arm in scored[2:]]
    return record.but(kind="benchmark", arms=scored, comparisons=gaps, notes=[])


def every_words() -> dict[str, Record]:
    return {
        "words": words(),
        "next words": words(kind="generate", student=31.2, name="next words", seeds=1),
        "words without teacher": without_teacher(),
        "words trained": trained_words(),
        "contest": contest(),
    }
