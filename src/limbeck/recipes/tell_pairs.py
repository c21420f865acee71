"""What a Record of translators has beside its figures: examples of what they write, and the best student in int8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from limbeck.core.errors import LimbeckError
from limbeck.core.progress import Watcher
from limbeck.core.record import Artifact, Comparison, Record, Sample
from limbeck.measure.significance import compare
from limbeck.measure.size import size_of
from limbeck.recipes.cell import Answers, Outcome
from limbeck.recipes.job import MEASURING
from limbeck.recipes.sequence_exam import SequenceExam
from limbeck.recipes.tell import speeds_of
from limbeck.recipes.tell_compare import Contest
from limbeck.recipes.tell_directions import with_directions
from limbeck.students.open_translator import open_translator
from limbeck.teachers.ct2 import Converted, convert

INT8 = "student-int8"  # the folder


def with_translations(contest: Contest, record: Record, watcher: Watcher) -> Record:
    exam = contest.done[0].student.cells()[0].exam
    assert isinstance(exam, SequenceExam)
    record = with_directions(contest, record.but(samples=_samples(contest, exam)))
    best = _best(contest)
    if best is None:
        return record
    name, outcome = best
    try:
        artifact, said, troubles = _int8(contest, exam, name, outcome, watcher)
    except LimbeckError as error:
        return record.but(notes=[*record.notes, f"No int8 student: {error.problem}. {error.remedy}"])
    compared = artifact.but(comparison=_against(contest, exam, said, outcome, name))
    return record.but(artifacts=[*record.artifacts, compared], notes=[*record.notes, *troubles])


def _best(contest: Contest) -> tuple[str, Outcome] | None:
    """Of the students with a teacher the best by dev; where there is none, of all."""
    taught = [lane for lane in contest.done if not lane.plain] or contest.done
    every = [(lane.name, outcome) for lane in taught for outcome in contest.outcomes[lane.name]]
    return max(every, key=lambda pair: pair[1].dev_score, default=None)


def _samples(contest: Contest, exam: SequenceExam) -> list[Sample]:
    """Test sources, spread over the split, and what the first seed of every arm writes by a beam."""
    count = min(contest.run.measure.examples, len(exam.unseen))
    if not count:
        return []
    rows = np.linspace(0, len(exam.unseen) - 1, count).round().astype(int).tolist()
    asked = exam.unseen.take(rows)
    written: dict[str, list[str]] = {}
    if exam.taught:
        written["teacher"] = [exam.taught[row] for row in rows]
    for lane in contest.done:
        model, tokenizer = open_translator(contest.outcomes[lane.name][0].model)
        translator = replace(exam, tokenizer=tokenizer).translator(model)
        width = contest.run.translate.test_beam
        written[lane.name] = [one[0].text for one in translator.translate(asked.sources, width)]
    return [
        Sample(
            source=asked.sources[row],
            reference=asked.targets[row],
            written={arm: texts[row] for arm, texts in written.items()},
        )
        for row in range(count)
    ]


def _int8(
    contest: Contest, exam: SequenceExam, name: str, outcome: Outcome, watcher: Watcher
) -> tuple[Artifact, Answers, list[str]]:
    """The best student in CTranslate2, measured where it will run; and what hindered its clock."""
    run, home = contest.run, contest.folder / INT8
    convert(outcome.model, home, "int8")
    network, _ = open_translator(outcome.model)
    settings = run.translate
    translator = Converted(
        home,
        length_penalty=settings.length_penalty,
        longest=settings.longest,
        batch_tokens=settings.batch_tokens,
    )
    said, _ = exam.of_engine(translator)
    texts, beam = contest.material.texts, settings.test_beam
    how = (texts, run.measure, run.data.max_length, watcher, MEASURING, beam)
    speeds, troubles = speeds_of({INT8: home}, *how)
    artifact = Artifact(
        name=INT8,
        arm=name,
        seed=outcome.result.seed,
        engine="CTranslate2",
        precision="int8",
        path=INT8,
        quality=said.quality,
        size=size_of(network, home),
        speed=speeds.get(INT8),
    )
    return artifact, said, troubles


def _against(contest: Contest, exam: SequenceExam, said: Answers, outcome: Outcome, name: str) -> Comparison:
    rows = np.ones(len(exam.unseen), dtype=bool)
    logits: Sequence[np.ndarray] = [said.logits]
    return compare(
        exam.task,
        exam.task.metric,
        INT8,
        name,
        logits,
        [outcome.logits],
        rows,
        rows,
        rounds=contest.run.measure.bootstrap,
    )
