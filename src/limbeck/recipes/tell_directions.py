"""What a Record of several directions has beside its figures: BLEU of each, and when its teacher was switched off."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from limbeck.core.record import CurvePoint, Record, SeedResult
from limbeck.measure.quality import quality
from limbeck.recipes.compare_lanes import Lane
from limbeck.recipes.ground import Ground
from limbeck.recipes.tell_compare import Contest
from limbeck.teachers.switch import Switch, score_name


def with_directions(contest: Contest, record: Record) -> Record:
    ground = contest.material
    assert isinstance(ground, Ground)
    notes = [note for lane in contest.done for note in _switched(contest, lane)]
    if ground.directions:
        first = ground.directions[0].name
        notes.append(f"Size and speed of the teacher are those of one of {len(ground.directions)}, the one of {first}.")
    figures = dict([*_on_dev(contest, ground), *_on_test(contest, ground)])
    return record.but(figures={**record.figures, **figures}, notes=[*record.notes, *notes])


def _switches(lane: Lane) -> list[Switch]:
    return [phase.teacher for phase in lane.cells[0].plan.phases if isinstance(phase.teacher, Switch)]


def _on_test(contest: Contest, ground: Ground) -> Iterator[tuple[str, float]]:
    for name, part in ground.parts("test").items():

        def bleu(rows: np.ndarray, part: slice = part) -> float:
            every = np.ones(part.stop - part.start, dtype=bool)
            return quality(ground.task, rows[part], every, every)[0]["bleu"]

        yield f"{score_name(name)}, teacher", bleu(contest.teacher.logits)
        for lane in contest.done:
            found = [bleu(outcome.logits) for outcome in contest.outcomes[lane.name]]
            yield f"{score_name(name)}, {lane.name}", sum(found) / len(found)


def _on_dev(contest: Contest, ground: Ground) -> Iterator[tuple[str, float]]:
    """Of students at the step whose weights were kept, a mean over seeds."""
    teachers = {name: score for lane in contest.done for one in _switches(lane) for name, score in one.scores.items()}
    for name in ground.parts("dev"):
        if name in teachers:
            yield f"dev {score_name(name)}, teacher", teachers[name]
        for lane in contest.done:
            runs = [outcome.result for outcome in contest.outcomes[lane.name]]
            best = [
                point.dev[score_name(name)] for run in runs for point in _measured(run) if point.step == run.best_step
            ]
            if best:
                yield f"dev {score_name(name)}, {lane.name}", sum(best) / len(best)


def _measured(run: SeedResult) -> list[CurvePoint]:
    return [point for point in run.curve if point.dev]


def _switched(contest: Contest, lane: Lane) -> Iterator[str]:
    """A sentence for every seed and direction, from the curve: the switch follows from it alone."""
    for switch in _switches(lane)[:1]:
        if switch.settings.strategy == "fixed":
            continue
        for outcome in contest.outcomes[lane.name]:
            for name in switch.directions.names:
                said = _course(switch, name, _measured(outcome.result))
                whose = f"the teacher of {name}" if name else "the teacher"
                yield f"{lane.name}, seed {outcome.result.seed}: {whose} {said}"


def _course(switch: Switch, name: str, points: list[CurvePoint]) -> str:
    own = switch.scores[name]
    dev = [(point.step, point.dev[score_name(name)]) for point in points if score_name(name) in point.dev]
    if not dev:
        return "stayed on, since dev was never measured."
    if switch.settings.strategy == "adaptive":
        last = switch.share_at(name, dev[-1][1])
        return f"had {last:.2g} of its weight left at the end (dev BLEU {dev[-1][1]:.1f}, its own {own:.1f})."
    turns, on = [], True
    for step, score in dev:
        if bool(switch.share_at(name, score)) != on:
            on = not on
            turns.append(
                f"switched {'on again' if on else 'off'} at step {step} (dev BLEU {score:.1f}, its own {own:.1f})"
            )
    best = max(score for _, score in dev)
    return f"was {', '.join(turns)}." if turns else f"stayed on (best dev BLEU {best:.1f}, its own {own:.1f})."
