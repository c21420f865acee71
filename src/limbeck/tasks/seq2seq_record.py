"""What a Record of seq2seq models has beside its figures: examples and directions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from limbeck.core.record import CurvePoint, Record, Sample, SeedResult
from limbeck.measure.seq2seq_evaluator import Seq2SeqEvaluator, best_texts
from limbeck.students.load import load
from limbeck.tasks.base import EncodedData, FinishedRun
from limbeck.tasks.teacher_texts import TaughtTexts
from limbeck.teachers.switch import Switch, score_name


def evaluator_of(data: EncodedData) -> Seq2SeqEvaluator:
    assert isinstance(data.evaluator, Seq2SeqEvaluator)
    return data.evaluator


def samples(finished: FinishedRun) -> list[Sample]:
    """Test sources, spread over the split, and what the first seed of every arm generates by a beam."""
    evaluator = evaluator_of(finished.done[0].data)
    count = min(finished.run.measure.examples, evaluator.test_rows)
    if not count:
        return []
    rows = np.linspace(0, evaluator.test_rows - 1, count).round().astype(int).tolist()
    chosen = evaluator.test_texts.take(rows)
    written: dict[str, list[str]] = {}
    if finished.teacher_test is not None and finished.teacher_test.texts:
        written["teacher"] = [finished.teacher_test.texts[row] for row in rows]
    for arm in finished.done:
        folder, trusted = str(finished.results[arm.name][0].model), finished.run.trust_remote_code
        network, processor = load(folder, "translate", trust_remote_code=trusted)
        engine = replace(evaluator, processor=processor).engine(network)
        written[arm.name] = best_texts(engine.translate(chosen.sources, evaluator.settings.test_beam))
    return [
        Sample(source=source, reference=target, written={name: texts[row] for name, texts in written.items()})
        for row, (source, target) in enumerate(zip(chosen.sources, chosen.targets, strict=True))
    ]


def with_directions(record: Record, finished: FinishedRun) -> Record:
    """BLEU of each direction, and when its teacher was switched off."""
    texts: TaughtTexts = finished.setup.splits
    evaluator = evaluator_of(finished.done[0].data)
    runs = {arm.name: [one.result for one in finished.results[arm.name]] for arm in finished.done}
    switches = {
        arm.name: step.teacher for arm in finished.done for step in arm.trainings if isinstance(step.teacher, Switch)
    }
    notes = [note for name, switch in switches.items() for note in switch_notes(name, switch, runs[name])]
    if texts.several:
        first, count = texts.directions[0].name, len(texts.directions)
        notes.append(f"Size and speed of the teacher are those of one of {count}, the one of {first}.")
    teachers = {name: score for switch in switches.values() for name, score in switch.scores.items()}
    figures: dict[str, float] = {}
    for name in texts.parts("dev"):
        if name in teachers:
            figures[f"dev {score_name(name)}, teacher"] = teachers[name]
        for arm, results in runs.items():  # at the step whose weights were kept, a mean over seeds
            points = [point for one in results for point in measured(one) if point.step == one.best_step]
            if points:
                figures[f"dev {score_name(name)}, {arm}"] = sum(p.dev[score_name(name)] for p in points) / len(points)
    for name, part in texts.parts("test").items():
        if finished.teacher_test is not None:
            figures[f"{score_name(name)}, teacher"] = evaluator.scores(finished.teacher_test.statistics[part])["bleu"]
        for arm in runs:
            found = [evaluator.scores(one.statistics[part])["bleu"] for one in finished.results[arm]]
            figures[f"{score_name(name)}, {arm}"] = sum(found) / len(found)
    return record.but(figures={**record.figures, **figures}, notes=[*record.notes, *notes])


def measured(run: SeedResult) -> list[CurvePoint]:
    return [point for point in run.curve if point.dev]


def switch_notes(arm: str, switch: Switch, results: Sequence[SeedResult]) -> Iterator[str]:
    """A sentence for every seed and direction, from the curve: the switch follows from it alone."""
    if switch.settings.strategy == "fixed":
        return
    for result in results:
        for name in switch.directions.names:
            whose = f"the teacher of {name}" if name else "the teacher"
            yield f"{arm}, seed {result.seed}: {whose} {_history(switch, name, measured(result))}"


def _history(switch: Switch, name: str, points: list[CurvePoint]) -> str:
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
