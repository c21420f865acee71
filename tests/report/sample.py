"""Records such as runs write, made without running anything."""

from __future__ import annotations

from sample_checked import TOPICS, checked, untaught
from sample_compare import COLUMNS, comparison
from sample_parts import (
    ARABIC,
    CHINESE,
    HINTON,
    HOSTILE,
    KNOBS,
    LONG,
    MACHINE,
    WOBBLE,
    data,
    disagreements,
    seed_result,
    shape,
    size,
    speed,
)
from sample_small import every_small
from sample_words import every_words
from sample_writers import every_writer

from limbeck.core.matrix import Matrix
from limbeck.core.record import (
    Arm,
    Comparison,
    DataCard,
    Disagreement,
    Fidelity,
    Level,
    Published,
    Record,
    SeedResult,
    Stopped,
)
from limbeck.core.task import TaskInfo

__all__ = ["ARABIC", "CHINESE", "HOSTILE", "LONG"]


def distill(
    name: str = "small",
    seeds: int = 3,
    labels: tuple[str, ...] = ("negative", "positive"),
    student: float = 0.8155,
    plain: float = 0.801,
    p50: float = 6.4,
    layers: int = 3,
    rows: int = 1066,
) -> Record:
    """Teacher, plain student and distilled student, as `limbeck distill` leaves them."""
    teacher = Arm(
        name="teacher",
        title="Teacher, 6 layers",
        role="teacher",
        shape=shape(6),
        size=size(6),
        speed=speed(12.3),
        runs=[seed_result(0, 0.817, labels, True, ())],
    )
    arms = [teacher]
    for arm, role, base, terms, goal in (
        ("plain", "baseline", plain, ("labels",), "1 * labels"),
        ("distilled", "student", student, ("labels", "soft"), "0.5 * labels + 0.5 * hinton(temperature=4)"),
    ):
        runs = [
            seed_result(s, base + (WOBBLE[s] if seeds > 1 else 0), labels, arm == "distilled", terms)
            for s in range(seeds)
        ]
        arms.append(
            Arm(
                name=arm,
                title=f"{layers} layers, {arm}",
                role=role,
                objective=goal,
                shape=shape(layers),
                runs=runs,
                size=size(layers),
                speed=speed(p50 if arm == "distilled" else p50 + 0.1),
            )
        )
    gain = student - plain
    helped = f"Distillation helped by {100 * gain:.1f} points of accuracy (95 % interval 0.3 to 2.6, {seeds} seeds)."
    honest = helped if gain > 0 else "Distillation did not help: the interval of the difference holds zero."
    comparison = Comparison(
        better="distilled",
        than="plain",
        metric="accuracy",
        difference=gain,
        low=gain - 0.0115,
        high=gain + 0.0115,
        seeds=seeds,
        rows=rows,
        sentence=honest,
    )
    return Record(
        kind="distill",
        name=name,
        created="2025-11-15T20:55:00Z",
        machine=MACHINE,
        seeds=list(range(seeds)),
        knobs=KNOBS,
        command=f"limbeck distill --teacher runs/teacher --data reviews.csv --student.layers {layers} "
        f"--seeds {seeds} --out runs/{name}",
        fingerprints={
            "teacher": "9f2c41d0aa7e5b1c9f2c41d0aa7e5b1c",
            "tokenizer": "1b7a",
            "data": "c0ffee00c0ffee00c0ffee00",
        },
        task=TaskInfo(kind="classify", labels=labels),
        metric="accuracy",
        data=data(rows),
        arms=arms,
        comparisons=[comparison],
        disagreements=disagreements(labels),
        figures={"teacher answers cached, bytes": 109_024.0},
        seconds={"teacher answers": 31.2, "plain": 318.0, "distilled": 327.5, "measuring": 48.9},
        citations=[HINTON],
    )


def without_labels() -> Record:
    """A distilled student on unlabelled text: fidelity is known, quality is not, speed was not taken."""
    record = distill("unlabelled", seeds=1)
    arms = []
    for arm in record.arms:
        runs = [run.but(quality={}, per_class=[], curve=[]) for run in arm.runs]
        arms.append(arm.but(runs=runs, speed=None))
    return record.but(arms=arms, comparisons=[])


def evaluated() -> Record:
    record = distill("scored")
    arm = Arm(name="model", title="bert-tiny", role="model", runs=[SeedResult(seed=0, quality={"accuracy": 0.734})])
    return record.but(
        kind="eval",
        arms=[arm],
        comparisons=[],
        disagreements=[],
        seeds=[0],
        citations=[],
        knobs={},
        seconds={},
        figures={},
    )


def benched() -> Record:
    arm = Arm(name="model", title="bert-tiny", role="model", runs=[], size=size(2), speed=speed(3.21))
    return evaluated().but(kind="bench", name="timed", arms=[arm], data=DataCard(source="", columns={}, read=0))


def trained() -> Record:
    record = distill("teacher")
    plain = record.arm("plain")
    runs = [run.but(fidelity=None) for run in plain.runs]
    arm = plain.but(name="teacher", title="MiniLM-L6", role="teacher", runs=runs)
    return record.but(kind="train", arms=[arm], comparisons=[], disagreements=[])


def ticket_search(*means: float) -> Record:
    """Three seeds around these accuracies: of the whole model, and after every tenth of its weights went."""
    record, runs = trained(), []
    for seed, off in enumerate((-0.01, 0.0, 0.01)):
        found = [
            Level(
                remaining=1000 - 100 * number,
                total=1000,
                quality={"accuracy": mean + off},
                best_step=300 - 20 * number + seed,
                steps=400,
            )
            for number, mean in enumerate(means or (0.88, 0.885, 0.875, 0.86, 0.7))
        ]
        last = seed_result(seed, found[-1].quality["accuracy"], record.task.labels, taught=False)
        runs.append(last.model_copy(update={"levels": found}))
    arm = record.arms[0].model_copy(update={"role": "model", "runs": runs})
    return record.but(name="tickets", arms=[arm], seeds=[0, 1, 2])


TASKS = "MNLI QQP STS-B WNLI QNLI MRPC RTE SST-2 CoLA SQuAD MLM".split()
CHEN = {  # Chen et al. 2020: transfer at 70 % minus same-task, and how many of the others are at least 0
    "MNLI": ([0, -0.75, -2.57, -5.99, -1.55, -3.44, 2.38, 0.84, -27.70, -3.46, -5.63], 2),
    "QQP": ([-1.69, 0, -3.16, -1.76, -1.62, -3.27, 1.80, -1.19, -22.39, -4.80, -5.52], 1),
    "SQuAD": ([-1.66, -1.05, -3.25, 0.12, 0.51, -3.52, 1.56, 0.19, -30.86, 0, -5.69], 4),
    "MLM": ([0.02, 0.09, 0.09, 1.18, 0.55, 6.01, 1.44, 1.87, 8.27, 0.17, 0], 10),
    "pre-trained weights": ([-0.10, -0.33, -2.06, -0.35, 0.24, -3.02, 0.47, 1.07, -6.68, -1.04, -6.07], 3),
}


def transfer() -> Record:
    """A search for tickets with matrices: published differences, and one of our own with holes."""
    whole = Matrix(
        title="TRANSFER(S, T) − TRANSFER(T, T) at 70 %",
        rows=list(CHEN),
        columns=TASKS,
        values=[values for values, _ in CHEN.values()],
        row_title="source",
        ends=[str(count) for _, count in CHEN.values()],
        end_title="not below 0",
        unit="points",
        digits=2,
        diverging=True,
        caption="One seed.",
    )
    scores = Matrix(
        title="Score at every sparsity",
        rows=["SST-2", "MRPC"],
        columns=["0 %", "10 %", "20 %"],
        values=[[90.1, 90.3, None], [84.2, None, None]],
        spreads=[[0.2, 0.4, None], [None, None, None]],
        row_title="task",
        ends=["10 %", ""],
        end_title="matches up to",
    )
    return ticket_search().but(name="transfer", matrices=[scores, whole])


def reproduced(quick: bool = False) -> Record:
    """A paper's experiment, run again; `quick` has one seed, and one figure that was not measured."""
    rows = {
        "teacher": (94.3, 91.2),
        "fine-tuned": (86.4, 84.1),
        "KD": (86.9, 85.0),
        "PKD": (87.5, None if quick else 84.6),
    }
    published = [
        Published(
            row=f"3 layers, {row}" if row != "teacher" else row,
            column="SST-2 accuracy",
            published=printed,
            ours=ours,
            spread=None if quick or ours is None else 0.42,
            seeds=0 if ours is None else 1 if quick else 3,
            unit="%",
            source="Sun et al. 2019, table 1",
        )
        for row, (printed, ours) in rows.items()
    ]
    finding = (
        "Of the paper's 2 findings 1 appears here: distillation above fine-tuning (+0.9 points, within chance); 1 does "
        "not appear: PKD above plain distillation (−0.4 points, within chance)."
    )
    return comparison(1 if quick else 3).but(name="pkd-sst2", published=published, finding=finding, quick=quick)


def tickets_beside_controls() -> Record:
    """A search with three seeds, its controls at some of its sizes, and a table with more than one kind of figure."""
    record = ticket_search(0.95, 0.955, 0.95, 0.94, 0.9)

    def stopped(level: Level, less: float) -> Level:
        quality = {"accuracy": level.quality["accuracy"] - less}
        return level.but(quality=quality, stopped=Stopped(step=level.best_step, loss=0.1, quality=quality))

    whole = record.arms[0].but(name="ticket", title="winning ticket")
    arms = [whole.but(runs=[run.but(levels=[stopped(level, 0) for level in run.levels]) for run in whole.runs])]
    for name, title, less in (("reinit", "drawn anew", 0.02), ("permuted", "random structure", 0.03)):
        runs = [run.but(levels=[stopped(level, less) for level in run.levels[2:]]) for run in whole.runs]
        arms.append(whole.but(name=name, title=title, runs=runs))
    figures = [("early stopping sooner than dense", "%", 38, 22.5), ("accuracy above dense", "points", 0.3, -0.04)]
    published = [
        Published(
            row="21.1 % of the weights remain",
            column=column,
            published=printed,
            ours=ours,
            spread=1.2,
            seeds=3,
            unit=unit,
            source="Frankle and Carbin 2019, section 2",
        )
        for column, unit, printed, ours in figures
    ]
    return record.but(
        name="lottery-mnist", arms=arms, published=published, finding="Of the paper's 1 finding 1 appears."
    )


def regression() -> Record:
    record = distill("similarity", seeds=2)
    arms = []
    for arm, base in zip(record.arms, (0.861, 0.812, 0.842), strict=True):
        runs = [
            SeedResult(
                seed=run.seed,
                quality={"pearson": base + 0.003 * run.seed, "spearman": base - 0.01, "mse": 0.52},
                fidelity=Fidelity(agreement=0.951, divergence=0.11) if arm.role != "teacher" else None,
            )
            for run in arm.runs
        ]
        arms.append(arm.but(runs=runs))
    rows = [
        Disagreement(
            text="A man sleeps.",
            pair="A cat runs.",
            label="0.2",
            teacher="0.4",
            teacher_confidence=0,
            student="2.9",
            student_confidence=0,
        )
    ]
    comparison = record.comparisons[0].but(metric="pearson", difference=0.03, low=0.012, high=0.049)
    columns = {"text": "sentence1", "pair": "sentence2", "label": "score"}
    return record.but(
        task=TaskInfo(kind="regress"),
        metric="pearson",
        arms=arms,
        disagreements=rows,
        comparisons=[comparison],
        data=record.data.but(columns=columns),
    )


def multilabel() -> Record:
    record = distill("moods", seeds=1, labels=("joy", "fear", "calm"))
    arms = [
        arm.but(runs=[run.but(quality={"f1_micro": 0.61, "f1_macro": 0.55}, curve=[]) for run in arm.runs])
        for arm in record.arms
    ]
    comparison = record.comparisons[0].but(metric="f1_micro")
    return record.but(
        task=TaskInfo(kind="multilabel", labels=("joy", "fear", "calm")),
        metric="f1_micro",
        arms=arms,
        comparisons=[comparison],
    )


def many_classes() -> Record:
    return distill("topics", labels=tuple(f"topic {i} of the long list" for i in range(14)))


def every() -> dict[str, Record]:
    return {
        "distill": distill(),
        "one seed": distill("once", seeds=1, rows=180),
        "worse and slower": distill("worse", student=0.72, plain=0.74, p50=15.0),
        "without labels": without_labels(),
        "eval": evaluated(),
        "bench": benched(),
        "train": trained(),
        "tickets": ticket_search(),
        "transfer": transfer(),
        "reproduced": reproduced(),
        "reproduced, quick": reproduced(quick=True),
        "tickets beside controls": tickets_beside_controls(),
        "regress": regression(),
        "multilabel": multilabel(),
        "many classes": many_classes(),
        "compare": comparison(),
        "compare, one seed": comparison(1, COLUMNS[2:6]),
        "checked": checked(distill("checked")),
        "six labels": checked(distill("topics", labels=TOPICS), floor=0.231),
        "fifty labels": checked(distill("intents", labels=tuple(f"intent_{i}_of_many" for i in range(50))), floor=0.02),
        "untaught": untaught(distill("untaught")),
        "checked compare": checked(comparison()),
        **every_words(),
        **every_writer(),
        **every_small(),
    }
