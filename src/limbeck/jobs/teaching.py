"""The teacher's outputs: collected once and cached, or computed at every step where a cache cannot hold them.

Of texts, tokens and spans a cache holds logits and hidden states; of tasks over a vocabulary the most probable tokens,
or samples. Outputs are found by uid, so that shuffling, resuming and a second process never mis-pair one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from pathlib import Path

import numpy as np
from transformers import PreTrainedModel

from limbeck.core.errors import KnobError, MismatchError, ModelError, TeacherMismatch
from limbeck.core.progress import Watcher
from limbeck.core.tap import install
from limbeck.core.trace import ATTENTION_PARTS, NOTHING, ONLY_LOGITS, NoTeacher, Request, Teacher, Want
from limbeck.data.batches import Collator, Dataset, batches
from limbeck.data.settings import TaskKnobs
from limbeck.jobs.plan import ArmPlan, Training
from limbeck.jobs.settings import CacheRun, Run
from limbeck.measure.evaluator import Evaluation
from limbeck.objectives.sampled import SampledTargets
from limbeck.objectives.truncated import Truncated
from limbeck.students.sizes import shape_of
from limbeck.tasks.base import COLLECTING, GOLD, TEXTS_SHARE, EncodedData, Member, Setup
from limbeck.teachers.average import AverageTeacher, Voice
from limbeck.teachers.live import LiveTeacher, MemoryTeacher
from limbeck.teachers.logits import CACHEABLE_STATES, LogitsCache
from limbeck.teachers.settings import TeacherCacheSettings
from limbeck.teachers.topk import Manifest, TopKCache

WORTH_SAYING = 20_000_000  # bytes
TESTED = 0.75  # the share of the outputs over a vocabulary that is there before the training tokens
TOKENS = Request(Want.LOGITS | Want.TOP | Want.SAMPLED)  # what a live model gives of tokens
CACHEABLE_TOKENS = Want.TOP | Want.SAMPLED  # of a distribution over a vocabulary
_HOW = "make it again with `limbeck cache`, or give another folder with --cache"


@dataclass(frozen=True)
class TeacherOutputs:
    """The teacher on test, and the arms with their teachers, targets and evaluators."""

    teacher_test: Evaluation | None
    arms: list[ArmPlan]
    live: bool = False  # some arm runs the teacher at every step, so that it must stay in memory
    notes: list[str] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    member_tests: Sequence[Evaluation] = ()  # of several teachers that are averaged, each on test


def collect_teacher_outputs(setup: Setup, arms: Sequence[ArmPlan], run: Run, watcher: Watcher) -> TeacherOutputs:
    """Everything that the arms need of the teacher. One that this teacher cannot teach is a TeacherMismatch."""
    collect = _collect_tokens if setup.info.over_vocabulary else _collect_logits
    collect = _collect_average if setup.members else _collect_answers if setup.answers else collect
    found = collect(setup, arms, run, watcher)
    watcher.at(COLLECTING, 1.0)
    return found


def free_memory(setup: Setup) -> None:
    """Frees the teacher's weights once all outputs are collected; tied weights stay tied.

    A language model keeps its head: what is remembered of the test split is the head's input."""
    for teacher in (teacher for teacher in setup.teachers if teacher.source):
        if setup.info.level == "vocabulary" and not setup.info.is_seq2seq:
            teacher.network.base_model.to("meta")
        else:
            teacher.network.to("meta")
            teacher.network.tie_weights()


def _cache_folder(run: Run) -> Path:
    return Path(run.teacher_cache.cache or Path(run.out) / "teacher-cache")


def _union(several: Iterable[Request]) -> Request:
    return reduce(or_, several, NOTHING)


def _runs_live(step: Training, run: Run, cacheable: Want) -> bool:
    want = step.teacher_request.want
    return bool(want) and (run.teacher_cache.live or bool(want & ~cacheable))


def _with_teacher(
    arm: ArmPlan, beside: Teacher, test: Evaluation | None, teacher_of: Callable[[Training], Teacher]
) -> ArmPlan:
    """With a teacher for each step that wants one; `beside` it the student is evaluated."""
    data = replace(arm.data, evaluator=arm.data.evaluator.with_teacher(beside, test))
    taught = [replace(step, teacher=teacher_of(step)) if step.teacher_request.want else step for step in arm.trainings]
    source = replace(arm.source, beside=beside, teacher_test=test) if arm.source else None
    return replace(arm.with_trainings(taught), data=data, source=source)


def _say_damaged(damaged: Sequence[Path], watcher: Watcher) -> None:
    for path in damaged:
        watcher.say(f"{path} was damaged and is filled again")


# Logits and states, of texts, tokens and spans


def _collect_logits(setup: Setup, arms: Sequence[ArmPlan], run: Run, watcher: Watcher) -> TeacherOutputs:
    assert setup.teacher is not None
    network, always = setup.teacher.network, run.teacher_cache.live
    steps = [step for arm in arms for step in arm.trainings]
    online = _union(step.teacher_request for step in steps if _runs_live(step, run, CACHEABLE_STATES))
    live: Teacher = NoTeacher()
    if online.want:
        live = LiveTeacher(_tapped(network, arms) if online.want & ATTENTION_PARTS else network, online | ONLY_LOGITS)
    notes = []
    if online.want and not always:
        notes.append(
            f"The teacher's {online.want & ~CACHEABLE_STATES} cannot be cached: it runs at every step for them."
        )
        watcher.say(notes[0])
    if always:
        beside: Teacher = LiveTeacher(network)
    else:
        needed = _union(step.teacher_request for step in steps if not _runs_live(step, run, CACHEABLE_STATES))
        cache = _fill_logits(setup, arms, needed, run, watcher)
        beside = cache.teacher(ONLY_LOGITS)
    test = setup.task.evaluate_teacher(setup, beside, _cache_folder(run))

    def teacher_of(step: Training) -> Teacher:
        return live if _runs_live(step, run, CACHEABLE_STATES) else cache.teacher(step.teacher_request | ONLY_LOGITS)

    taught = [_with_teacher(arm, beside, test, teacher_of) for arm in arms]
    return TeacherOutputs(test, taught, bool(online.want) or always, notes)


def _collect_answers(setup: Setup, arms: Sequence[ArmPlan], run: Run, watcher: Watcher) -> TeacherOutputs:
    """Those that stand in the data: nothing is run, and nothing cached."""
    assert setup.answers is not None
    return _of_one(setup, arms, setup.answers)


def _collect_average(setup: Setup, arms: Sequence[ArmPlan], run: Run, watcher: Watcher) -> TeacherOutputs:
    """Of several teachers, each with a cache of its own, in the folder that one would have."""
    live, voices = run.teacher_cache.live, []
    for number, one in enumerate(setup.members):
        if live:
            teacher: Teacher = LiveTeacher(one.model.network)
        else:
            watcher.say(f"running teacher {number + 1} of {len(setup.members)}")
            part = (number / len(setup.members), 1 / len(setup.members))
            teacher = _fill_logits(setup, arms, ONLY_LOGITS, run, watcher, one, part).teacher()
        voices.append(Voice(teacher, one.weight, one.temperature, one.order))
    alone = [AverageTeacher([Voice(voice.teacher, order=voice.order)]) for voice in voices]
    tests = [setup.task.evaluate_teacher(setup, teacher, _cache_folder(run)) for teacher in alone]
    found = _of_one(setup, arms, AverageTeacher(voices))
    note = (
        f"The teacher is the mean of the probabilities of {_told(setup)}; the objective's temperature softens the mean."
    )
    return replace(found, live=live, notes=[note], member_tests=[test for test in tests if test])


def _told(setup: Setup) -> str:
    """The teachers that are averaged, and what tells them apart."""
    members, total = setup.members, sum(one.weight for one in setup.members)
    names = [one.model.source or type(one.model.network).__name__ for one in members]
    alike = len({(one.weight, one.temperature) for one in members}) == 1 and members[0].temperature == 1
    how = [f" (weight {one.weight / total:.3g}, temperature {one.temperature:g})" for one in members]
    return " and ".join(name + ("" if alike else which) for name, which in zip(names, how, strict=True))


def _of_one(setup: Setup, arms: Sequence[ArmPlan], teacher: Teacher) -> TeacherOutputs:
    """The arms with a teacher that gives logits of whole rows, for every step and for the test."""
    test = setup.task.evaluate_teacher(setup, teacher, Path())
    return TeacherOutputs(test, [_with_teacher(arm, teacher, test, lambda step: teacher) for arm in arms])


def _tapped(network: PreTrainedModel, arms: Sequence[ArmPlan]) -> PreTrainedModel:
    """The teacher with its attention recordable, or the arms that need it are refused."""
    try:
        return install(network)
    except ModelError as error:
        curious = [number for number, arm in enumerate(arms) if arm.teacher_request.want & ATTENTION_PARTS]
        raise TeacherMismatch(curious, error) from None


def _fill_logits(
    setup: Setup,
    arms: Sequence[ArmPlan],
    needed: Request,
    run: Run,
    watcher: Watcher,
    one: Member | None = None,
    part: tuple[float, float] = (0.0, 1.0),
) -> LogitsCache:
    """Every row of every split, augmented ones too, each once however many arms need it; of `one` of several teachers,
    which is so much and such a `part` of the work."""
    model, place = one.model if one else setup.teacher, _cache_folder(run)
    assert model is not None
    prints: Mapping[str, str] = setup.fingerprints
    if one:
        prints, place = one.fingerprints, place / f"teacher-{one.fingerprints['teacher']}"
    cache = LogitsCache(place, {name: prints[name] for name in ("teacher", "tokenizer", "data")}, needed | ONLY_LOGITS)
    _say_damaged(cache.damaged, watcher)
    missing, seen = [], np.empty(0, dtype=np.int64)
    for split in (split for arm in arms for split in arm.data.for_teacher):
        lacking = np.flatnonzero(cache.lacks(split.uids) & ~np.isin(split.uids, seen))
        seen = np.concatenate([seen, split.uids])
        if len(lacking):
            missing.append((one.encode(split) if one else split, lacking))
    lengths = [split.lengths[row] for split, lacking in missing for row in lacking]
    _check_space(cache, cache.estimate(shape_of(model.network), setup.info, lengths), watcher)
    teacher = LiveTeacher(model.network, cache.request)
    done = 0
    collate = Collator.of(model.processor if one else setup.data.processor, setup.info)
    for split, lacking in missing:
        for rows in cache.fill_by_batch(teacher, batches(split, collate, run.teacher_cache.batch_size, lacking)):
            watcher.at(COLLECTING, part[0] + part[1] * (done + rows) / len(lengths))
        done += len(lacking)
    return cache


def _check_space(cache: LogitsCache, needed: float, watcher: Watcher) -> None:
    """Says how much will be written, and refuses what the disk cannot take."""
    what, free = f"the teacher's {cache.request.want}", shutil.disk_usage(cache.folder).free
    if needed > free:
        raise KnobError(
            f"{what} need {needed / 1e6:,.2f} MB, but {cache.folder} has {free / 1e6:,.2f} MB left",
            "free some space, then run the same command with --resume; or give another folder with "
            "--teacher-cache.cache, or run the teacher at every step with --teacher-cache.live",
        )
    if needed > WORTH_SAYING:
        watcher.say(f"caching {what} takes {needed / 1e6:,.0f} MB in {cache.folder}")


# Distributions over a vocabulary, of language models and seq2seq


def _collect_tokens(setup: Setup, arms: Sequence[ArmPlan], run: Run, watcher: Watcher) -> TeacherOutputs:
    place, task = _cache_folder(run), setup.task
    wanted = [(arm.data, {step.targets for step in arm.trainings} or {GOLD}) for arm in arms]  # passes look at some
    data, notes = task.with_targets(setup, wanted, place, watcher)
    arms = [replace(arm, data=one) for arm, one in zip(arms, data, strict=True)]
    watcher.at(COLLECTING, TEXTS_SHARE)
    beside, live = _live_teachers(setup, arms)
    test = task.evaluate_teacher(setup, beside[setup.info.vocab_size], place)
    for size in beside.keys() - {setup.info.vocab_size}:  # students that know fewer tokens are compared on those
        other = next(arm.data for arm in arms if arm.data.info.vocab_size == size)
        task.evaluate_teacher(replace(setup, data=other), beside[size], place)
    watcher.at(COLLECTING, TESTED)
    caches = {}
    for users in _cache_users(setup, arms, run):
        caches[users.name] = users.open(setup, run)
        users.fill(caches[users.name], setup, run, watcher)
    online = [arm for arm in arms if any(_runs_live(step, run, CACHEABLE_TOKENS) for step in arm.trainings)]
    if online and not run.teacher_cache.live:
        whole = _union(arm.teacher_request for arm in online).want & ~CACHEABLE_TOKENS
        notes.append(f"The objective wants the teacher's {whole}, too large to cache: the teacher runs at every step.")
    for note in notes:
        watcher.say(note)

    def taught(arm: ArmPlan) -> ArmPlan:
        size = arm.data.info.vocab_size

        def teacher_of(step: Training) -> Teacher:
            if _runs_live(step, run, CACHEABLE_TOKENS):
                return live[size]
            cached = caches[_cache_name(arm, step)].teacher()
            return task.switched(arm.run, setup, cached, arm.data.train(step.targets))

        return _with_teacher(arm, beside[size], test, teacher_of)

    forgets = any(isinstance(one, MemoryTeacher) and one.forgets for one in beside.values())
    found = TeacherOutputs(test, list(map(taught, arms)), bool(online) or forgets, notes)
    if setup.teacher is None and caches:
        notes.append("Only cached teacher outputs were available, so the teacher was not evaluated.")
    for cache in caches.values() if not setup.info.is_seq2seq else ():
        info = cache.info()
        what = "samples" if info.manifest.kind == "sampled" else "most probable tokens"
        notes.append(
            f"The teacher's cache, {info.manifest.k} {what} of each of {info.tokens:,} tokens, takes "
            f"{info.bytes_per_token:.0f} bytes per token on disk."
        )
        found.figures.update(cache_bytes_per_token=info.bytes_per_token, cache_bytes=float(info.bytes))
    return found


def _live_teachers(setup: Setup, arms: Sequence[ArmPlan]) -> tuple[dict[int, Teacher], dict[int, Teacher]]:
    """By vocabulary size: the teacher that students are compared with on test, and the one for training steps."""
    sizes = {setup.info.vocab_size, *(arm.data.info.vocab_size for arm in arms)}
    if setup.teacher is None:
        return dict.fromkeys(sizes, NoTeacher()), dict.fromkeys(sizes, NoTeacher())
    request = _union(arm.teacher_request for arm in arms) | TOKENS
    network = install(setup.teacher.network) if request.want & ATTENTION_PARTS else setup.teacher.network
    live: dict[int, Teacher] = {size: LiveTeacher(network, request, size) for size in sizes}
    return {size: MemoryTeacher(teacher) for size, teacher in live.items()}, live


def _cache_name(arm: ArmPlan, step: Training) -> tuple[str, str]:
    """One cache per way of keeping and of masking."""
    kind = "sampled" if step.teacher_request.want & Want.SAMPLED else "top"
    return kind, arm.data.fingerprints.get("mask", "")


@dataclass(frozen=True)
class _CacheUsers:
    """The training steps that learn from one cache."""

    name: tuple[str, str]
    place: Path
    steps: list[tuple[ArmPlan, Training]] = field(default_factory=list)

    @property
    def terms(self) -> list[Truncated | SampledTargets]:
        terms = [term for _, step in self.steps for term in step.objective.weighted]
        return [part for weight, part in terms if weight and isinstance(part, Truncated | SampledTargets)]

    def open(self, setup: Setup, run: Run) -> TopKCache:
        """The outputs cached so far, checked against what is needed; a new cache where there are none."""
        arm, kept = self.steps[0][0], run.teacher_cache
        if (self.place / "index.json").exists() or setup.teacher is None:
            cache = TopKCache.open(self.place, write=setup.teacher is not None)
        else:
            draws = (kept.draws or 50) if self.name[0] == "sampled" else 0
            heat = max((part.temperature for part in self.terms), default=1.0)
            prints = {**setup.fingerprints, **arm.data.fingerprints}
            about = manifest(run, arm.run, prints, arm.data.info.vocab_size, kept.top, draws, heat)
            cache = TopKCache(self.place, about, write=True)
        self.check(cache, setup, run)
        return cache

    def check(self, cache: TopKCache, setup: Setup, run: Run) -> None:
        """Refuses the cache of another teacher, or of other outputs."""
        data, top, about = self.steps[0][0].data, run.teacher_cache.top, cache.manifest
        want = _union(step.teacher_request for _, step in self.steps).want
        check_cache(cache, {**setup.fingerprints, **data.fingerprints}, data.info.vocab_size, want)
        if about.kind == "top" and top != TeacherCacheSettings().top and min(top, data.info.vocab_size) != about.k:
            raise MismatchError(
                f"--top asks for {top} tokens, but the cache in {cache.folder} holds {about.k}",
                "leave --top out (--objective.truncated.k takes fewer than are held), or give another folder",
            )
        for part in self.terms:
            part.fits(about.k, about.temperature)

    def fill(self, cache: TopKCache, setup: Setup, run: Run, watcher: Watcher) -> None:
        """Every training row that is not there yet, from its own teacher."""
        _say_damaged(cache.damaged, watcher)
        datasets: dict[int, tuple[Dataset, EncodedData]] = {}
        for arm, step in self.steps:
            rows = arm.data.train(step.targets)
            datasets.setdefault(id(rows), (rows, arm.data))
        for rows, data in datasets.values():
            fill_cache(cache, setup, rows, data, run.teacher_cache.batch_size, watcher)


def _cache_users(setup: Setup, arms: Sequence[ArmPlan], run: Run) -> list[_CacheUsers]:
    place = _cache_folder(run)
    place = place / "tokens" if setup.info.is_seq2seq and not run.teacher_cache.cache else place
    found: dict[tuple[str, str], _CacheUsers] = {}
    for arm, step in [(one, step) for one in arms for step in one.trainings]:
        if step.teacher_request.want and not _runs_live(step, run, CACHEABLE_TOKENS):
            name = _cache_name(arm, step)
            own = place.with_name(f"{place.name}-{name[0]}{name[1][:6]}") if found else place
            found.setdefault(name, _CacheUsers(name, own)).steps.append((arm, step))
    return list(found.values())


def check_named_cache(setup: Setup, arms: Sequence[ArmPlan], run: Run) -> None:
    """Refuses a named cache that does not serve the arms, before anything is written."""
    if not setup.info.over_vocabulary or not run.teacher_cache.cache:
        return
    whole = _union(arm.teacher_request for arm in arms).want & ~CACHEABLE_TOKENS
    if whole and run.kind != "compare" and not run.teacher_cache.live:
        raise MismatchError(
            f"the objective wants the teacher's {whole}, of which a cache holds only the top",
            "leave out --cache, or use --recipe truncated",
        )
    for users in _cache_users(setup, arms, run):
        if (users.place / "index.json").exists():
            users.check(TopKCache.open(users.place), setup, run)


def manifest(
    run: Run | CacheRun,
    masked: TaskKnobs,
    prints: Mapping[str, str],
    vocab_size: int,
    top: int,
    draws: int,
    temperature: float,
) -> Manifest:
    """What a cache of a language model is of; the notes are for people."""
    tables = {
        name: table.model_dump() for name, table in (masked.model_extra or {}).items() if name in ("blocks", "mask")
    }
    return Manifest(
        kind="sampled" if draws else "top",
        k=draws or min(top, vocab_size),
        vocabulary=vocab_size,
        temperature=temperature,
        fingerprints={name: prints[name] for name in ("teacher", "tokenizer", "data", "mask") if name in prints},
        notes={"teacher": run.teacher, "task": run.data.task, "data": run.data.train, **tables},
    )


def check_cache(cache: TopKCache, prints: Mapping[str, str], vocab_size: int, want: Want) -> None:
    """Refuses outputs of another teacher, for other examples, or of another kind."""
    about, is_top = cache.manifest, cache.manifest.kind == "top"
    known = [name for name in ("teacher", "tokenizer", "mask") if name in prints]
    if other := [name for name in known if about.fingerprints.get(name) != prints[name]]:
        raise MismatchError(f"the cache in {cache.folder} was made with another {' and another '.join(other)}", _HOW)
    if about.vocabulary != vocab_size:
        raise MismatchError(
            f"the cache in {cache.folder} is over {about.vocabulary:,} tokens, the student knows {vocab_size:,}", _HOW
        )
    if lacking := want & ~(Want.TOP if is_top else Want.SAMPLED):
        raise MismatchError(
            f"the cache in {cache.folder} holds {'the top' if is_top else 'samples'}, but the objective "
            f"wants {lacking}",
            f"use the objective '{'truncated' if is_top else 'sampled'}', or make another cache",
        )


def fill_cache(
    cache: TopKCache, setup: Setup, rows: Dataset, data: EncodedData, batch_size: int, watcher: Watcher
) -> None:
    uids: np.ndarray = rows.uids  # type: ignore[attr-defined]  # rows over a vocabulary have them
    lacking = np.flatnonzero(cache.lacks(uids))
    if not len(lacking):
        return
    if setup.teacher is None:
        raise MismatchError(
            f"the cache in {cache.folder} has no output for {len(lacking):,} of {len(uids):,} examples: it was made "
            "from other text, with blocks of another length, or with fewer masks",
            "give the text and the settings it was made with (limbeck cache --info shows them), or --teacher",
        )
    if len(cache):
        watcher.say(f"{cache.folder} lacks {len(lacking):,} of {len(uids):,} examples; they are added")
    once = lacking[np.sort(np.unique(uids[lacking], return_index=True)[1])]  # of rows that are the same example, one
    before = len(uids) - len(lacking)
    collate = Collator.of(data.processor, data.info)
    for model, owned in setup.task.row_teachers(setup, rows):
        mine = once[np.isin(once % len(rows), owned)]
        teacher = LiveTeacher(model.network, TOKENS, data.info.vocab_size)
        for number in np.unique(mine // len(rows)):  # one round of masks after another
            some = mine[mine // len(rows) == number]
            for done in cache.fill_by_batch(teacher, batches(rows, collate, batch_size, some)):
                share = TESTED + (1 - TESTED) * (before + done) / len(uids)
                watcher.at(COLLECTING, share, "distributions of the training tokens")
            before += len(some)
    cache.close()
