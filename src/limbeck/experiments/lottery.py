"""The lottery ticket on MNIST: LeNet-300-100 pruned round after round, beside what should not work as well.

For every seed: 15 rounds that prune 20 % of what lives in each layer (10 % of the output layer) and rewind the rest to
its start; the same masks drawn anew (reinit) and permuted within layers (random structure); and as many weights pruned
in one shot, at five sizes. Adam at a constant 1.2e-3, batches of 60, 20,000 iterations where the paper has 50,000; dev
is 5,000 training images, measured every 500 iterations; its lowest loss is the early-stopping iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from limbeck.core.errors import KnobError
from limbeck.core.record import Arm, Level, Record
from limbeck.experiments.experiment import Conditions, Experiment, Part, experiment
from limbeck.experiments.findings import Claim, over_seeds, sentence
from limbeck.experiments.hinton import MNIST, image_flags
from limbeck.experiments.published import beside
from limbeck.experiments.seeds import merged
from limbeck.recipes.lottery import FRANKLE_2019

ROUNDS, QUICK_ROUNDS = (3, 7, 9, 12, 15), (3, 7)  # which leave 51.3, 21.1, 13.5, 7.0 and 3.6 % of the weights
NETWORKS = {
    "lenet-300-100": ("--network.name", "mlp", "--network.hidden", "300,100", "--learning-rate", 1.2e-3),
    "lenet5": ("--network.name", "lenet", "--learning-rate", 1.2e-3),
}
ADAM = (
    *("--train.decay", "constant", "--train.warmup", 0, "--train.weight-decay", 0, "--train.max-grad-norm", 0),
    *("--batch-size", 60, "--train.keep", "last", "--train.patience", 0),
    *("--measure.no-speed", "--measure.examples", 0, "--measure.at-lowest-loss"),
)
PRUNE = (
    *("--magnitude.fraction", 0.2, "--magnitude.scope", "layer", "--magnitude.part-of", "living"),
    *("--magnitude.head", 0.5),
)
CONTROLS = {"reinit": "one drawn anew", "permuted": "one of random structure"}


def rounds_of(conditions: Conditions) -> tuple[int, ...]:
    return QUICK_ROUNDS if conditions.quick else ROUNDS


def parts(conditions: Conditions) -> Sequence[Part]:
    if conditions.network not in NETWORKS:
        raise KnobError(f"there is no network '{conditions.network}'", f"choose among {', '.join(NETWORKS)}")
    if conditions.network == "lenet5" and not conditions.quick:
        raise KnobError("lenet5 takes days in full", "run it with --quick")
    return [part for seed in range(conditions.seeds) for part in _of_seed(conditions, seed)]


def _of_seed(conditions: Conditions, seed: int) -> Sequence[Part]:
    quick, home, rounds = conditions.quick, f"seed-{seed}", rounds_of(conditions)
    length = (
        ("--max-steps", 200, "--train.eval-steps", 50) if quick else ("--max-steps", 20_000, "--train.eval-steps", 500)
    )
    learn = (*image_flags(conditions), *NETWORKS[conditions.network], *ADAM, *length, "--seed", seed)
    one, search = 3.0 if quick else 90.0, f"{home}/ticket"  # seconds of a training
    shot = ("--one-shot", ",".join(map(str, rounds)))
    made = [
        Part(search, "tickets", (*learn, *PRUNE, "--rounds", rounds[-1]), seconds=one * (rounds[-1] + 1)),
        Part(f"{home}/one-shot", "tickets", (*learn, *PRUNE, *shot), seconds=one * (len(rounds) + 1)),
    ]
    for control in CONTROLS:
        for number in rounds:
            ticket = (
                conditions.out / search / "arms" / f"model-seed{seed}" / "tickets" / f"round-{number:02d}.safetensors"
            )
            flags = (*learn, "--ticket", ticket, "--control", control)
            made.append(Part(f"{home}/{control}-{number:02d}", "train", flags, (search,), one))
    return made


def conclude(conditions: Conditions) -> Record:
    seeds, rounds = list(range(conditions.seeds)), rounds_of(conditions)

    def of_seeds(part: str) -> Record:
        return merged([conditions.record(f"seed-{seed}/{part}") for seed in seeds], seeds)

    record, shot = of_seeds("ticket"), of_seeds("one-shot").arms[0]
    ticket = record.arms[0].but(name="ticket", title="winning ticket")
    arms = [ticket, shot.but(name="one-shot", title="pruned in one shot")]
    for control, title in CONTROLS.items():
        tried = {number: of_seeds(f"{control}-{number:02d}").arms[0] for number in rounds}
        arms.append(_control(control, title.removeprefix("one ").removeprefix("of "), ticket, tried))
    found = _measured(record, arms, rounds)
    left = {number: f"{100 * ticket.runs[0].levels[number].share:.3g} %" for number in rounds}
    figures = {name: sum(values) / len(values) for name, values in found.items() if values}
    return record.but(
        arms=[_where_measured(arm) for arm in arms],
        published=beside("lottery_published.toml", found),
        finding=sentence(_claims(found, left)),
        figures={**record.figures, **figures},
        seconds={arm.name: sum(run.seconds for run in arm.runs) for arm in arms},
    )


def _where_measured(arm: Arm) -> Arm:
    """With the points of its curves at which dev was measured: a search has sixteen trainings of 20,000 steps."""
    return arm.but(runs=[run.but(curve=[point for point in run.curve if point.dev]) for run in arm.runs])


def _control(name: str, title: str, ticket: Arm, tried: Mapping[int, Arm]) -> Arm:
    """An arm with a level for every size that a control was trained at; of these, the sparsest is its result."""
    runs = []
    for place, of_ticket in enumerate(ticket.runs):
        levels = []
        for number, arm in tried.items():
            run, size = arm.runs[place], of_ticket.levels[number]
            own = {"quality": run.quality, "best_step": run.best_step, "stopped": run.stopped, "dev": {}, "ticket": ""}
            levels.append(size.but(**own))
        last = list(tried.values())[-1].runs[place]
        seconds = sum(arm.runs[place].seconds for arm in tried.values())
        runs.append(last.but(levels=levels, seconds=seconds))
    return list(tried.values())[-1].but(name=name, title=title, runs=runs)


def _measured(record: Record, arms: Sequence[Arm], rounds: Sequence[int]) -> dict[str, list[float]]:
    """Every figure that the table and the findings need, a value for each seed; "at 7" is what seven rounds leave."""

    def stop(level: Level) -> float:
        return float(level.stopped.step if level.stopped else level.best_step)

    def at_stop(level: Level) -> float:
        return 100 * (level.stopped.quality if level.stopped else level.quality)[record.metric]

    def at_end(level: Level) -> float:
        return 100 * level.quality[record.metric]

    found: dict[str, list[float]] = {}
    named: Mapping[str, Callable[[Level], float]] = {"stop": stop, "at stop": at_stop, "at end": at_end}
    ticket = arms[0]
    for what, value in named.items():
        found[f"dense, {what}"] = [value(run.levels[0]) for run in ticket.runs]
        for arm in arms:
            for place, number in enumerate(rounds):
                level = number if arm is ticket else place + (arm.name == "one-shot")  # whose first is the whole model
                found[f"{arm.name} {number}, {what}"] = [value(run.levels[level]) for run in arm.runs]
    for number in rounds:
        ours, dense = found[f"ticket {number}, stop"], found["dense, stop"]
        found[f"sooner {number}"] = [100 * (1 - mine / whole) for mine, whole in zip(ours, dense, strict=True)]
        found[f"gain {number}"] = _less(found[f"ticket {number}, at stop"], found["dense, at stop"])
    return found


def _less(a: Sequence[float], b: Sequence[float]) -> list[float]:
    return [mine - other for mine, other in zip(a, b, strict=True)]


def _claims(found: Mapping[str, Sequence[float]], left: Mapping[int, str]) -> list[Claim]:
    """`left` has the share of the weights after so many rounds; a quick run has fewer sizes than the paper."""
    rounds = list(left)
    second, third, last = rounds[min(1, len(rounds) - 1)], rounds[min(2, len(rounds) - 1)], rounds[-1]
    claims = [
        Claim(
            f"a ticket of {left[second]} stops sooner than the whole network",
            over_seeds(found["dense, stop"], found[f"ticket {second}, stop"]),
            "iterations",
            0,
        ),
        Claim(
            f"a ticket of {left[third]} is more accurate than the whole network",
            over_seeds(found[f"ticket {third}, at stop"], found["dense, at stop"]),
            digits=2,
        ),
    ]
    for name, words in {**CONTROLS, "one-shot": "one pruned in one shot"}.items():
        for number in rounds[min(1, len(rounds) - 1) :] if name in CONTROLS else [last]:
            pair = (found[f"{arm} {number}, at stop"] for arm in ("ticket", name))
            claims.append(Claim(f"a ticket of {left[number]} beats {words}", over_seeds(*pair), digits=2))
    return claims


LOTTERY_MNIST = experiment(
    Experiment(
        "lottery-mnist",
        "The lottery ticket: LeNet-300-100 on MNIST",
        FRANKLE_2019,
        "a pruned network learns as well as the whole one, from its own start and not from another",
        MNIST,
        cost="about 2 hours",
        quick_cost="about 2 minutes",
        parts=parts,
        conclude=conclude,
        seeds=5,
        options={"network": "lenet-300-100"},
    )
)
