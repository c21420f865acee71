"""From what was trained to a Record: the one place where Records and arms are built."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from limbeck.core.card import METHODS, card_of
from limbeck.core.compress import PASSES
from limbeck.core.files import portable_texts
from limbeck.core.metric import metric_of
from limbeck.core.progress import Watcher
from limbeck.core.record import Arm, Artifact, Citation, Comparison, DataCard, Failure, Record, Size, Speed
from limbeck.jobs.chain import START
from limbeck.jobs.measured import describe, measured_record
from limbeck.jobs.plan import ArmPlan, Training
from limbeck.jobs.settings import Job, JobKind
from limbeck.jobs.trial import TrialResult
from limbeck.measure.evaluator import Evaluation
from limbeck.measure.quality import compare
from limbeck.measure.size import size_of
from limbeck.measure.speed import speeds_of
from limbeck.recipes.recipe import RECIPES, Apply
from limbeck.students.sizes import shape_of
from limbeck.tasks.base import Setup

TOGETHER = 0.95  # how sure all intervals are at once
TEACHER = "teacher"
TIMED_ONCE = "Models of one shape were timed once."
UNTUNED = "Nothing was tuned: every column ran with the knobs of its recipe and of this run, once for each seed."


@dataclass(frozen=True)
class Finished:
    """What was run, and what came of it."""

    kind: JobKind  # in a comparison titles tell an arm's name, else its shape
    run: Job
    setup: Setup
    arms: Sequence[ArmPlan]
    results: Mapping[str, Sequence[TrialResult]]  # arm → the seeds that were trained
    folder: Path
    teacher_test: Evaluation | None = None  # the teacher on the test split
    teacher_folder: Path | None = None
    teacher_size: Size | None = None
    member_tests: Sequence[Evaluation] = ()  # of several teachers that are averaged, each on the test split
    member_sizes: Sequence[Size] = ()
    failed: Sequence[Failure] = ()
    notes: Sequence[str] = ()
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def done(self) -> list[ArmPlan]:
        return [arm for arm in self.arms if arm.name in self.results]

    @property
    def columns(self) -> list[ArmPlan]:
        """The arms that a person asked for."""
        return [arm for arm in self.done if arm.column]

    @property
    def seconds(self) -> float:
        """Of all training."""
        return sum(one.result.seconds for results in self.results.values() for one in results)

    def best(self) -> tuple[ArmPlan, TrialResult]:
        """The best by dev, of the arms with a teacher where there are any."""
        taught = [arm for arm in self.done if not arm.supervised] or self.done
        every = [(arm, one) for arm in taught for one in self.results[arm.name]]
        return max(every, key=lambda pair: pair[1].dev_score)


def build_record(finished: Finished, command: str, watcher: Watcher, exports: Sequence[Artifact] = ()) -> Record:
    """What was trained and what came of it. The command is that of this process, where none is given."""
    run, setup, task = finished.run, finished.setup, finished.setup.info
    speeds, troubles = _speeds(finished, exports, watcher)
    made = [*_made(finished), *((one.path, one) for one in exports)]
    arms = [*_teacher_arm(finished, speeds), *_student_arms(finished, speeds)]
    own = setup.data if finished.kind == "compare" or not finished.columns else finished.columns[0].data
    record = measured_record(
        finished.kind,
        finished.folder.name,
        command or " ".join(sys.argv),
        task,
        own.card.but(overlap=int(own.evaluator.seen.sum()) or own.card.overlap),
        arms,
        floor=own.evaluator.floor(),
        artifacts=[one.but(speed=speeds.get(key)) for key, one in made],
        seeds=run.seed_list,
        knobs=run.model_dump(),
        fingerprints={**setup.fingerprints, **own.fingerprints},
        steps={arm.name: [str(step) for step in arm.steps] for arm in finished.done},
        comparisons=_comparisons(finished),
        failed=_together(finished.failed),
        disagreements=finished.best()[1].disagreements if finished.teacher_test is not None else [],
        figures=dict(finished.figures),
        seconds={arm.name: sum(one.seconds for one in arm.runs) for arm in arms if arm.role != TEACHER},
        citations=_citations(finished),
        notes=portable_texts([*finished.notes, *_notes(finished, own.card), *troubles]),
    )
    return setup.task.add_to_record(record, finished, watcher)


def _teacher_arm(finished: Finished, speeds: Mapping[str, Speed]) -> list[Arm]:
    teacher, test = finished.setup.teacher, finished.teacher_test
    if test is None:
        return []
    arm = Arm(name=TEACHER, title="teacher, an engine", role=TEACHER, runs=[test.result()])
    if teacher is None:
        column = getattr(finished.setup.answers, "column", "")
        return [arm.model_copy(update={"title": f"teacher, column '{column}'"}) if column else arm]
    if finished.member_tests:
        return [_average_arm(finished, arm), *_member_arms(finished, speeds)]
    title = TEACHER if finished.kind == "compare" else f"teacher, {describe(teacher.network)}"
    shape, size = shape_of(teacher.network), finished.teacher_size
    return [arm.model_copy(update={"title": title, "shape": shape, "size": size, "speed": speeds.get(TEACHER)})]


def _average_arm(finished: Finished, arm: Arm) -> Arm:
    """Several teachers as one: as large as all of them together, and not timed."""
    sizes = [size.model_dump() for size in finished.member_sizes]
    whole = Size(**{name: sum(size[name] for size in sizes) for name in sizes[0]})
    return arm.model_copy(update={"title": f"teacher, mean of {len(sizes)}", "size": whole})


def _member_arms(finished: Finished, speeds: Mapping[str, Speed]) -> list[Arm]:
    """Each of the teachers that are averaged. The first one is timed."""
    found = []
    members = zip(finished.setup.members, finished.member_tests, finished.member_sizes, strict=True)
    for number, (one, test, size) in enumerate(members, 1):
        network = one.model.network
        title = f"teacher {number}, {describe(network)}"
        speed = speeds.get(TEACHER) if one.model is finished.setup.teacher else None
        shown = {"shape": shape_of(network), "size": size, "speed": speed}
        found.append(Arm(name=f"{TEACHER}-{number}", title=title, role=TEACHER, runs=[test.result()], **shown))
    return found


def _student_arms(finished: Finished, speeds: Mapping[str, Speed]) -> list[Arm]:
    """Of a comparison the largest shape first, and of one shape the best; a single student after its baseline."""
    info = finished.setup.info
    sign = -1 if info.higher_is_better else 1
    arms = [
        Arm(
            name=arm.name,
            title=_title(finished, arm),
            role="model" if finished.kind in ("train", "compress") else "baseline" if arm.supervised else "student",
            objective="; then ".join(str(step.objective) for step in arm.trainings),
            start=arm.start.words,
            shape=shape_of(arm.start.network),
            runs=[one.result for one in finished.results[arm.name]],
            size=_size(arm, finished.results[arm.name][0]),
            speed=speeds.get(timed_as(arm)),
        )
        for arm in finished.done
    ]

    def worth(arm: Arm) -> tuple[float, str, float]:
        scored = [run.quality[info.metric] for run in arm.runs if info.metric in run.quality]
        mean = sign * sum(scored) / len(scored) if scored else math.inf
        return -(arm.size.parameters if arm.size else 0), str(arm.shape), mean

    return sorted(arms, key=worth) if finished.kind == "compare" else arms


def _size(arm: ArmPlan, result: TrialResult) -> Size:
    """Passes give a model another one than that it started with."""
    made = next((made.size for made in result.artifacts if made.path.endswith("/model")), None)
    return made or size_of(arm.start.network, result.model)


def _title(finished: Finished, arm: ArmPlan) -> str:
    """A column's own name; a baseline that was added is known by whom it serves."""
    alone, shape = finished.setup.task.labels_only, describe(arm.start.network)
    if finished.kind == "train":
        return f"{shape}, trained on {alone.removesuffix(' only')}"
    if finished.kind == "compress":
        return f"{shape}, {arm.name}"
    if finished.kind == "distill":
        return f"{shape}, {alone if arm.supervised else 'distilled'}"
    served = [other.name for other in finished.arms if other.baseline == arm.name]
    whose = " and ".join(served) if len(served) < 3 else f"{served[0]} and {len(served) - 1} more"
    return arm.name if arm.column else f"{alone}, beside {whose}"


def _speeds(finished: Finished, exports: Sequence[Artifact], watcher: Watcher) -> tuple[dict[str, Speed], list[str]]:
    """Of the teacher, of one model of each build and of exports, in one rotation.

    What passes made on the way is timed too where that is what the run is for, or time is no matter."""
    setup, run = finished.setup, finished.run
    if not run.measure.speed:
        return {}, []
    folders = {TEACHER: finished.teacher_folder} if finished.teacher_folder else {}
    folders |= {timed_as(arm): finished.results[arm.name][0].model for arm in reversed(finished.done)}
    folders |= {one.path: finished.folder / one.path for one in exports}
    if finished.kind == "compress" or run.measure.speed_share == 1:
        folders |= {key: finished.folder / made.path for key, made in reversed(_made(finished)) if key not in folders}
    texts, longest = setup.task.texts(setup, "test"), setup.data.max_length or run.data.max_length
    trained = math.inf if finished.kind == "compress" else finished.seconds  # measuring is what that is for
    speeds, notes = speeds_of(folders, texts, run.measure, longest, watcher, setup.task.beam, trained)
    several = finished.kind == "compare" and len({timed_as(arm) for arm in finished.done}) < len(finished.done)
    return speeds, [*notes, *([TIMED_ONCE] if speeds and several else [])]


def _made(finished: Finished) -> list[tuple[str, Artifact]]:
    """What passes made, of every arm and seed, and what each is timed as: alike for all seeds."""
    run, found = finished.run, []
    for arm in finished.done:
        itself = finished.kind == "compress" and getattr(run, "teacher", "") == getattr(run, "model", None)
        for made in (made for one in finished.results[arm.name] for made in one.artifacts):
            key = timed_as(arm) if made.path.endswith("/model") else f"{arm.name} {made.name}"
            found.append((TEACHER if made.step == START and itself else key, made))
    return found


def timed_as(arm: ArmPlan) -> str:
    """Models that share this take the same time: the same layers over the same tokens."""
    network, passes = arm.start.network, [str(step) for step in arm.steps if isinstance(step, Apply)]
    shape, source = shape_of(network).model_dump_json(), getattr(arm.run, "student_from", "")
    return " ".join([shape, str(network.num_parameters()), source, *passes])


def _comparisons(finished: Finished) -> list[Comparison]:
    """Each arm against the same student without a teacher, on the seeds that both have.

    Of many intervals at 95 % one in twenty misses, so that the best of them would be believed too easily. Each is
    taken wider instead (Bonferroni), and all of them hold together at 95 %."""
    info, test, results = finished.setup.info, finished.teacher_test, finished.results
    pairs = {}
    for arm in (arm for arm in finished.done if arm.baseline in results):
        mine, plain = ({one.result.seed: one.statistics for one in results[name]} for name in (arm.name, arm.baseline))
        if both := [seed for seed in mine if seed in plain]:
            pairs[arm.name] = (arm.baseline, [mine[seed] for seed in both], [plain[seed] for seed in both])
    # Where the statistics hold all there is, every row counts.
    labels = has_label = np.ones(len(next(iter(results.values()))[0].statistics), dtype=bool)
    if test is not None and len(test.has_label):
        labels, has_label = test.labels, test.has_label
    if not pairs or not has_label.any():
        return []
    sure = math.ceil(1e4 * (1 - (1 - TOGETHER) / len(pairs)) - 1e-6) / 1e4
    rounds = finished.run.measure.bootstrap
    return [
        compare(info, info.metric, name, *pair, labels, has_label, rounds=rounds, confidence=sure)
        for name, pair in pairs.items()
    ]


def _together(failed: Sequence[Failure]) -> list[Failure]:
    """One entry for all seeds of an arm that failed alike."""
    seeds: dict[tuple[str, str], list[int]] = {}
    for one in failed:
        seeds.setdefault((one.arm, one.reason), []).extend(one.seeds)
    return [Failure(arm=arm, reason=reason, seeds=seeds[arm, reason]) for arm, reason in sorted(seeds)]


def _citations(finished: Finished) -> list[Citation]:
    """Of every recipe, term with weight and pass, each paper once."""
    papers = [finished.setup.task.paper] if finished.kind == "train" else []
    for arm in sorted(finished.done if not papers else [], key=lambda arm: not arm.column):
        papers += [RECIPES[arm.recipe].paper] if arm.recipe in RECIPES else []
        for step in arm.steps:
            if isinstance(step, Training):
                papers += [METHODS[card_of(part).name].paper for weight, part in step.objective.weighted if weight]
            elif isinstance(step, Apply):
                papers += [card.paper for card in PASSES.values() if card.cls is type(step.compress)]
    unique = {paper.key: paper for paper in papers}
    return [Citation(text=str(paper), bibtex=paper.bibtex()) for paper in unique.values()]


def _notes(finished: Finished, card: DataCard) -> list[str]:
    notes = _comparison_notes(finished) if finished.kind == "compare" else _student_notes(finished)
    notes += [f"{arm.name}: {note}" for arm in finished.done for note in finished.results[arm.name][0].notes]
    if finished.kind == "compare":
        notes += [note for arm in finished.done if (note := _cost_note(finished, arm))]
    if finished.kind == "train" or finished.setup.info.over_vocabulary:
        return notes
    return [*notes, *_label_notes(card), *_best_notes(finished, card)]


def _student_notes(finished: Finished) -> list[str]:
    notes: list[str] = []
    for arm in finished.columns:
        notes += arm.data.notes
        if arm.data.augmented:
            notes.append(f"{arm.data.augmented:,} augmented texts were labelled by the teacher (--augment.kind).")
        if arm.uses_teacher and not arm.baseline:
            notes.append("No student was trained without the teacher, so what distillation gave is not known.")
        if arm.data.processor is not finished.setup.data.processor and finished.setup.teacher:
            notes.append("Student and teacher use different tokenizers; the teacher's outputs are per text.")
    return notes


def _comparison_notes(finished: Finished) -> list[str]:
    origins: dict[str, list[str]] = {}
    for arm in finished.columns:
        origins.setdefault(arm.start.origin, []).append(arm.name)
    return [
        *([UNTUNED] if len(finished.columns) > 1 else []),
        *(f"{', '.join(names)}: {origin}" for origin, names in origins.items()),
    ]


def _cost_note(finished: Finished, arm: ArmPlan) -> str:
    """Where an arm learns from more rows, or for longer, than the student it is compared with."""
    plain = next((other for other in finished.arms if other.name == arm.baseline), None)
    if plain is None or (arm.rows, round(arm.epochs, 6)) == (plain.rows, round(plain.epochs, 6)):
        return ""
    steps = [step.name for step in arm.trainings]
    over = f" in the steps {', '.join(steps)}" if len(steps) > 1 else ""
    return (
        f"{arm.name} learned for {arm.epochs:.3g} epochs of {arm.rows:,} rows{over}; the same student without a "
        f"teacher for {plain.epochs:.3g} of {plain.rows:,}."
    )


def _best_notes(finished: Finished, card: DataCard) -> list[str]:
    """What told the best weights of the students, where a person asked or rows without labels leave it open."""
    run, metric = finished.run.train, metric_of(finished.setup.info, finished.setup.info.metric).title
    evaluated = any(step.evaluated and step.uses_teacher for arm in finished.done for step in arm.trainings)
    asked = run.best_by != "auto" or finished.run.data.unlabelled
    if not (asked and evaluated and run.keep == "best" and card.splits["dev"].labelled):
        return []
    by = {"agreement": "agreement with the teacher", "both": f"the mean of {metric} and agreement with the teacher"}
    return [f"The best weights of students were chosen by {by.get(run.best_by, metric)} on dev (--train.best-by)."]


def _label_notes(card: DataCard) -> list[str]:
    """What labels were missing for."""
    train, dev, test = (card.splits[name] for name in ("train", "dev", "test"))
    notes = []
    if train.labelled < train.rows:
        unlabelled = train.rows - train.labelled
        notes.append(f"{unlabelled:,} training rows have no label; only the teacher's terms learn from them.")
    if not dev.labelled:
        notes.append("The dev set has no labels: early stopping watched agreement with the teacher.")
    if not test.labelled:
        notes.append("The test set has no labels: only agreement with the teacher could be measured.")
    return notes
