"""The teacher's outputs: collected once and cached, or computed at every step where a cache cannot hold them.

Of texts, tokens and spans a cache holds logits and hidden states; of tasks over a vocabulary the most probable tokens,
or samples. Outputs are found by uid, so that shuffling, resuming and a second process never mis-pair one.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.core.errors import KnobError, MismatchError, ModelError, TeacherMismatch
from limbeck.core.progress import Watcher
from limbeck.core.tap import install
from limbeck.core.trace import ATTENTION_PARTS, NOTHING, NoTeacher, Request, Teacher, Want
from limbeck.data.batches import Dataset, batches
from limbeck.jobs.plan import ArmPlan, Training
from limbeck.jobs.settings import Run
from limbeck.jobs.token_cache import TESTED, TOKENS, Collate, check_cache, fill_cache, manifest
from limbeck.measure.evaluator import Evaluation
from limbeck.objectives.sampled import SampledTargets
from limbeck.objectives.truncated import Truncated
from limbeck.students.sizes import shape_of
from limbeck.tasks.base import COLLECTING, TEXTS, Setup
from limbeck.teachers.live import LiveTeacher, MemoryTeacher
from limbeck.teachers.logits import KEEPABLE, LogitsCache
from limbeck.teachers.settings import TeacherCacheSettings
from limbeck.teachers.topk import TopKCache

WORTH_SAYING = 20_000_000  # bytes
CACHEABLE = Want.TOP | Want.SAMPLED  # of a distribution over a vocabulary


@dataclass(frozen=True)
class TeacherOutputs:
    """The teacher on test, and the arms with their teachers, targets and evaluators."""

    test: Evaluation | None
    arms: list[ArmPlan]
    live: bool = False  # some arm runs the teacher at every step, so that it must stay in memory
    notes: list[str] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)


def cache_folder(run: Run) -> Path:
    return Path(run.teacher_cache.cache or Path(run.out) / "teacher-cache")


def collect_teacher_outputs(setup: Setup, arms: Sequence[ArmPlan], run: Run, watcher: Watcher) -> TeacherOutputs:
    """Everything that the arms need of the teacher. One that this teacher cannot teach is a TeacherMismatch."""
    collect = _collect_tokens if setup.info.over_vocabulary else _collect_logits
    found = collect(setup, list(arms), run, watcher)
    watcher.at(COLLECTING, 1.0)
    return found


def free_memory(setup: Setup) -> None:
    """All outputs are there: the memory of the teacher's weights goes to the students. What was tied stays tied.

    A language model keeps its head: what it showed of the test split is the head's input."""
    for teacher in (teacher for teacher in setup.teachers if teacher.source):
        if setup.info.level == "vocabulary" and not setup.info.is_seq2seq:
            teacher.network.base_model.to("meta")
        else:
            teacher.network.to("meta")
            teacher.network.tie_weights()


def _union(several: Sequence[Request]) -> Request:
    return reduce(or_, several, NOTHING)


def _with_teacher(arm: ArmPlan, evaluator_teacher: Teacher, test: Evaluation | None, teacher_of: Any) -> ArmPlan:
    steps = tuple(
        replace(step, teacher=teacher_of(step)) if isinstance(step, Training) and step.teacher_request.want else step
        for step in arm.steps
    )
    evaluator = arm.data.evaluator.with_teacher(evaluator_teacher, test)
    return replace(arm, steps=steps, data=replace(arm.data, evaluator=evaluator))


# Logits and states, of texts, tokens and spans


def _collect_logits(setup: Setup, arms: list[ArmPlan], run: Run, watcher: Watcher) -> TeacherOutputs:
    teacher = setup.teacher
    assert teacher is not None
    always, place = run.teacher_cache.live, cache_folder(run)
    steps = [step for arm in arms for step in arm.trainings if step.teacher_request.want]
    online = _union([step.teacher_request for step in steps if always or not _holds(step)])
    live: Teacher = NoTeacher()
    if online.want:
        network = _tapped(setup, arms) if online.want & ATTENTION_PARTS else teacher.network
        live = LiveTeacher(network, online | Request())
    notes = []
    beside: Teacher
    if always:
        cache, beside = None, LiveTeacher(teacher.network)
    else:
        if online.want:
            notes.append(f"The teacher's {online.want & ~KEEPABLE} cannot be cached: it runs at every step for them.")
            watcher.say(notes[0])
        cache = _fill_logits(
            setup, arms, _union([step.teacher_request for step in steps if _holds(step)]), run, watcher
        )
        beside = cache.teacher(Request())
    test = setup.task.evaluate_teacher(setup, beside, place)

    def teacher_of(step: Training) -> Teacher:
        if cache is None or not _holds(step):
            return live
        return cache.teacher(step.teacher_request | Request())

    taught = [_with_teacher(arm, beside, test, teacher_of) for arm in arms]
    return TeacherOutputs(test, taught, bool(online.want) or always, notes)


def _holds(step: Training) -> bool:
    return not step.teacher_request.want & ~KEEPABLE


def _tapped(setup: Setup, arms: Sequence[ArmPlan]) -> Any:
    """The teacher with its attention recordable, or the arms that need it are refused."""
    assert setup.teacher is not None
    try:
        return install(setup.teacher.network)
    except ModelError as error:
        curious = [number for number, arm in enumerate(arms) if arm.teacher_request.want & ATTENTION_PARTS]
        raise TeacherMismatch(curious, error) from None


def _fill_logits(setup: Setup, arms: Sequence[ArmPlan], needed: Request, run: Run, watcher: Watcher) -> LogitsCache:
    """Every row of every split, augmented ones too."""
    assert setup.teacher is not None
    about = {name: setup.fingerprints[name] for name in ("teacher", "tokenizer", "data")}
    cache = LogitsCache(cache_folder(run), about, needed | Request())
    _say_damaged(cache.damaged, watcher)
    missing = _missing(cache, [split for arm in arms for split in arm.data.for_teacher])
    lengths = [length for split in missing for length in split.lengths]
    needs = cache.estimate(shape_of(setup.teacher.network), setup.info, lengths)
    _announce(needs, cache.folder, f"the teacher's {cache.request.want}", watcher)
    teacher = LiveTeacher(setup.teacher.network, cache.request)
    total, done = sum(map(len, missing)), 0
    for split in missing:
        rows = batches(split, Collate(setup), run.teacher_cache.batch_size)
        for count in cache.fill_by_batch(teacher, rows):
            watcher.at(COLLECTING, (done + count) / total)
        done += len(split)
    return cache


def _missing(cache: LogitsCache, splits: Sequence[Any]) -> list[Any]:
    """What is not cached yet, each row once however many arms need it."""
    found, seen = [], np.empty(0, dtype=np.int64)
    for split in splits:
        lacking = np.flatnonzero(cache.lacks(split.uids) & ~np.isin(split.uids, seen))
        seen = np.concatenate([seen, split.uids])
        if len(lacking) == len(split):
            found.append(split)
        elif len(lacking):
            found.append(split.take(lacking))
    return found


def _announce(needed: float, folder: Path, what: str, watcher: Watcher) -> None:
    """Says how much will be written, and refuses what the disk cannot take."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise KnobError(
            f"{what} need {needed / 1e6:,.2f} MB, but {folder} has {free / 1e6:,.2f} MB left",
            "free some space, then run the same command with --resume; or give another folder with "
            "--teacher-cache.cache, or run the teacher at every step with --teacher-cache.live",
        )
    if needed > WORTH_SAYING:
        watcher.say(f"caching {what} takes {needed / 1e6:,.0f} MB in {folder}")


def _say_damaged(damaged: Sequence[Path], watcher: Watcher) -> None:
    for path in damaged:
        watcher.say(f"{path} was damaged and is filled again")


# Distributions over a vocabulary, of language models and seq2seq


def _collect_tokens(setup: Setup, arms: list[ArmPlan], run: Run, watcher: Watcher) -> TeacherOutputs:
    place = cache_folder(run)
    _check_whole(arms, run)
    wanted = [(arm.data, {step.targets for step in arm.trainings}) for arm in arms]
    data, notes = setup.task.with_targets(setup, wanted, place, watcher)
    arms = [replace(arm, data=one) for arm, one in zip(arms, data, strict=True)]
    watcher.at(COLLECTING, TEXTS)
    beside, live = _live_teachers(setup, arms)
    test = setup.task.evaluate_teacher(setup, beside[setup.info.vocab_size], place)
    for size in beside.keys() - {setup.info.vocab_size}:  # students that know fewer tokens are compared on those
        other = next(arm.data for arm in arms if arm.data.info.vocab_size == size)
        setup.task.evaluate_teacher(replace(setup, data=other), beside[size], place)
    watcher.at(COLLECTING, TESTED)
    stores = _stores(setup, arms, run, watcher)
    online = [arm for arm in arms if any(_runs_live(step, run) for step in arm.trainings)]
    if online and not run.teacher_cache.live:
        whole = _union([arm.teacher_request for arm in online]).want & ~CACHEABLE
        notes.append(f"The objective wants the teacher's {whole}, too large to cache: the teacher runs at every step.")
    for note in notes:
        watcher.say(note)

    def teacher_of(arm: ArmPlan, step: Training) -> Teacher:
        if _runs_live(step, run):
            return live[arm.data.info.vocab_size]
        cached = stores[_store_name(arm, step)].teacher()
        return setup.task.switched(arm.run, setup, cached, arm.data.train(step.targets))

    taught = [
        _with_teacher(arm, beside[arm.data.info.vocab_size], test, lambda step, arm=arm: teacher_of(arm, step))
        for arm in arms
    ]
    forgets = any(isinstance(one, MemoryTeacher) and one.forgets for one in beside.values())
    more, figures = _about_stores(list(stores.values()), setup)
    return TeacherOutputs(test, taught, bool(online) or forgets, [*notes, *more], figures)


def _check_whole(arms: Sequence[ArmPlan], run: Run) -> None:
    whole = _union([arm.teacher_request for arm in arms]).want & ~CACHEABLE
    if whole and run.teacher_cache.cache and not run.teacher_cache.live and len(arms) < 3:
        raise MismatchError(
            f"the objective wants the teacher's {whole}, of which a cache holds only the top",
            "leave out --cache, or use --recipe truncated",
        )


def _runs_live(step: Training, run: Run) -> bool:
    want = step.teacher_request.want
    return bool(want) and (run.teacher_cache.live or bool(want & ~CACHEABLE))


def _live_teachers(setup: Setup, arms: Sequence[ArmPlan]) -> tuple[dict[int, Teacher], dict[int, Teacher]]:
    """By vocabulary size: the teacher that students are compared with on test, and the one for training steps."""
    sizes = {setup.info.vocab_size, *(arm.data.info.vocab_size for arm in arms)}
    if setup.teacher is None:
        return dict.fromkeys(sizes, NoTeacher()), dict.fromkeys(sizes, NoTeacher())
    request = _union([arm.teacher_request for arm in arms]) | TOKENS
    network = install(setup.teacher.network) if request.want & ATTENTION_PARTS else setup.teacher.network
    live: dict[int, Teacher] = {size: LiveTeacher(network, request, size) for size in sizes}
    return {size: MemoryTeacher(teacher) for size, teacher in live.items()}, live


def _store_name(arm: ArmPlan, step: Training) -> tuple[str, str]:
    """One cache per way of keeping and of masking."""
    kind = "sampled" if step.teacher_request.want & Want.SAMPLED else "top"
    return kind, arm.data.fingerprints.get("mask", "")


def _users(
    setup: Setup, arms: Sequence[ArmPlan], run: Run
) -> Iterator[tuple[tuple[str, str], list[tuple[ArmPlan, Training]], Path]]:
    """The name of every cache, the steps that learn from it, and its folder."""
    groups: dict[tuple[str, str], list[tuple[ArmPlan, Training]]] = {}
    for arm in arms:
        for step in arm.trainings:
            if step.teacher_request.want and not _runs_live(step, run):
                groups.setdefault(_store_name(arm, step), []).append((arm, step))
    for number, (name, users) in enumerate(groups.items()):
        place = cache_folder(run)
        place = place / "tokens" if setup.info.is_seq2seq and not run.teacher_cache.cache else place
        place = place if not number else place.with_name(f"{place.name}-{name[0]}{name[1][:6]}")
        yield name, users, place


def check_named_cache(setup: Setup, arms: Sequence[ArmPlan], run: Run) -> None:
    """Refuses the cache of another teacher, or of other outputs, before anything is written."""
    if setup.info.over_vocabulary and run.teacher_cache.cache:
        for _, users, place in _users(setup, arms, run):
            if (place / "index.json").exists():
                _check_store(TopKCache.open(place), setup, users, run)


def _stores(setup: Setup, arms: Sequence[ArmPlan], run: Run, watcher: Watcher) -> dict[tuple[str, str], TopKCache]:
    found = {}
    for name, users, place in _users(setup, arms, run):
        found[name] = _open_store(setup, users, run, place)
        _fill_tokens(found[name], setup, users, run, watcher)
    return found


def _open_store(setup: Setup, users: Sequence[tuple[ArmPlan, Training]], run: Run, place: Path) -> TopKCache:
    """The outputs cached so far, checked against what is needed; a new cache where there are none."""
    if (place / "index.json").exists() or setup.teacher is None:
        store = TopKCache.open(place, write=setup.teacher is not None)
    else:
        arm, _ = users[0]
        draws = (run.teacher_cache.draws or 50) if _wanted(users) & Want.SAMPLED else 0
        heat = max((part.temperature for part in _cached_terms(users)), default=1.0)
        prints = {**setup.fingerprints, **arm.data.fingerprints}
        about = manifest(run, arm.run, prints, arm.data.info.vocab_size, run.teacher_cache.top, draws, heat)
        store = TopKCache(place, about, write=True)
    _check_store(store, setup, users, run)
    return store


def _wanted(users: Sequence[tuple[ArmPlan, Training]]) -> Want:
    return _union([step.teacher_request for _, step in users]).want


def _cached_terms(users: Sequence[tuple[ArmPlan, Training]]) -> list[Truncated | SampledTargets]:
    terms = [term for _, step in users for term in step.objective.weighted]
    return [part for weight, part in terms if weight and isinstance(part, Truncated | SampledTargets)]


def _check_store(store: TopKCache, setup: Setup, users: Sequence[tuple[ArmPlan, Training]], run: Run) -> None:
    data, top = users[0][0].data, run.teacher_cache.top
    check_cache(store, {**setup.fingerprints, **data.fingerprints}, data.info.vocab_size, _wanted(users))
    other = top != TeacherCacheSettings().top and min(top, data.info.vocab_size) != store.manifest.k
    if other and store.manifest.kind == "top":
        raise MismatchError(
            f"--top asks for {top} tokens, but the cache in {store.folder} holds {store.manifest.k}",
            "leave --top out (--objective.truncated.k takes fewer than are held), or give another folder",
        )
    for part in _cached_terms(users):
        part.fits(store.manifest.k, store.manifest.temperature)


def _fill_tokens(
    store: TopKCache, setup: Setup, users: Sequence[tuple[ArmPlan, Training]], run: Run, watcher: Watcher
) -> None:
    """Every training row that is not there yet, from its own teacher."""
    _say_damaged(store.damaged, watcher)
    datasets: dict[int, tuple[Dataset, ArmPlan]] = {}
    for arm, step in users:
        rows = arm.data.train(step.targets)
        datasets.setdefault(id(rows), (rows, arm))
    for rows, arm in datasets.values():
        fill_cache(store, setup, rows, arm.data, run.teacher_cache.batch_size, watcher)


def _about_stores(stores: Sequence[TopKCache], setup: Setup) -> tuple[list[str], dict[str, float]]:
    """What the caches of a language model took."""
    notes, figures = [], {}
    if setup.teacher is None and stores:
        notes.append("Only cached teacher outputs were available, so the teacher was not evaluated.")
    for store in stores if not setup.info.is_seq2seq else ():
        info = store.info()
        what = "samples" if info.manifest.kind == "sampled" else "most probable tokens"
        notes.append(
            f"The teacher's cache, {info.manifest.k} {what} of each of {info.tokens:,} tokens, takes "
            f"{info.bytes_per_token:.0f} bytes per token on disk."
        )
        figures = {"cache_bytes_per_token": info.bytes_per_token, "cache_bytes": float(info.bytes)}
    return notes, figures
