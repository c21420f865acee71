"""What a Record of seq2seq models has beside its figures: examples, directions, and the best student in int8."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from limbeck.core.errors import LimbeckError
from limbeck.core.progress import Watcher
from limbeck.core.record import Artifact, Comparison, Record, Sample
from limbeck.engines.ctranslate2 import CTranslate2Engine
from limbeck.exporters.ctranslate2 import convert
from limbeck.measure.quality import compare
from limbeck.measure.size import size_of
from limbeck.measure.speed import speeds_of
from limbeck.tasks.base import Evaluation
from limbeck.tasks.directions import dev_figures, switch_notes
from limbeck.teachers.switch import Switch, score_name

INT8 = "student-int8"  # the folder


def with_generated(record: Record, finished: Any, task: Any, watcher: Watcher) -> Record:
    evaluator = finished.done[0].data.evaluator
    record = record.model_copy(update={"samples": _samples(finished, evaluator, task)})
    record = _with_directions(record, finished, evaluator)
    arm, result = finished.best()
    try:
        int8, found, troubles = _int8(finished, evaluator, task, arm, result, watcher)
    except LimbeckError as error:
        return record.but(notes=[*record.notes, f"No int8 student: {error.problem}. {error.remedy}"])
    both = _against(finished, evaluator, found, result, arm.name)
    artifact = int8.model_copy(update={"comparison": both})
    return record.model_copy(update={"artifacts": [*record.artifacts, artifact], "notes": [*record.notes, *troubles]})


def _samples(finished: Any, evaluator: Any, task: Any) -> list[Sample]:
    """Test sources, spread over the split, and what the first seed of every arm generates by a beam."""
    count = min(finished.run.measure.examples, evaluator.test_rows)
    if not count:
        return []
    rows = np.linspace(0, evaluator.test_rows - 1, count).round().astype(int).tolist()
    chosen = evaluator.test_texts.take(rows)
    written: dict[str, list[str]] = {}
    if finished.test is not None and finished.test.texts:
        written["teacher"] = [finished.test.texts[row] for row in rows]
    for arm in finished.done:
        model = task.load(str(finished.results[arm.name][0].model))
        engine = replace(evaluator, processor=model.processor).engine(model.network)
        written[arm.name] = [one[0].text for one in engine.translate(chosen.sources, task.settings.test_beam)]
    return [
        Sample(
            source=chosen.sources[row],
            reference=chosen.targets[row],
            written={name: texts[row] for name, texts in written.items()},
        )
        for row in range(count)
    ]


def _with_directions(record: Record, finished: Any, evaluator: Any) -> Record:
    """BLEU of each direction, and when its teacher was switched off."""
    setup = finished.setup
    runs = {arm.name: [one.result for one in finished.results[arm.name]] for arm in finished.done}
    switches = {
        arm.name: step.teacher for arm in finished.done for step in arm.trainings if isinstance(step.teacher, Switch)
    }
    notes = [note for name, switch in switches.items() for note in switch_notes(name, switch, runs[name])]
    if setup.several:
        first = setup.directions[0].name
        notes.append(f"Size and speed of the teacher are those of one of {len(setup.directions)}, the one of {first}.")
    teachers = {name: score for switch in switches.values() for name, score in switch.scores.items()}
    figures = dict(dev_figures(setup.parts("dev"), teachers, runs))
    for name, part in setup.parts("test").items():
        if finished.test is not None:
            figures[f"{score_name(name)}, teacher"] = evaluator.scores(finished.test.statistics[part])["bleu"]
        for arm in finished.done:
            found = [evaluator.scores(one.statistics[part])["bleu"] for one in finished.results[arm.name]]
            figures[f"{score_name(name)}, {arm.name}"] = sum(found) / len(found)
    return record.model_copy(update={"figures": {**record.figures, **figures}, "notes": [*record.notes, *notes]})


def _int8(
    finished: Any, evaluator: Any, task: Any, arm: Any, result: Any, watcher: Watcher
) -> tuple[Artifact, Evaluation, list[str]]:
    """The best student in CTranslate2, measured where it will run; and what hindered its timing."""
    run, folder = finished.run, finished.folder / INT8
    convert(result.model, folder, "int8")
    engine = CTranslate2Engine(folder, **task.generation())
    found = replace(evaluator, processor=arm.data.processor).test_engine(engine)
    texts = task.timing_inputs(finished.setup)
    speeds, troubles = speeds_of({INT8: folder}, texts, run.measure, run.data.max_length, watcher, task.beam)
    made = Artifact(
        name=INT8,
        arm=arm.name,
        seed=result.result.seed,
        engine="CTranslate2",
        precision="int8",
        path=INT8,
        quality=found.scores,
        size=size_of(arm.start.network, folder),
        speed=speeds.get(INT8),
    )
    return made, found, troubles


def _against(finished: Any, evaluator: Any, found: Evaluation, result: Any, name: str) -> Comparison:
    rows = np.ones(evaluator.test_rows, dtype=bool)
    info = finished.setup.info
    mine, theirs, rounds = [found.statistics], [result.statistics], finished.run.measure.bootstrap
    return compare(info, info.metric, INT8, name, mine, theirs, rows, rows, rounds=rounds)
