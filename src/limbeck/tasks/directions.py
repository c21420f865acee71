"""Several directions at once: their teachers, their texts, and what a Record says of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.objective import Objective
from limbeck.core.progress import Watcher
from limbeck.core.record import CurvePoint, SeedResult
from limbeck.core.want import Want
from limbeck.data.seq2seq.directions import read_directions, tag_of, target_language
from limbeck.data.seq2seq.pairs import ParallelCorpus
from limbeck.data.settings import DirectionSettings, ParallelSettings
from limbeck.objectives.truncated import Truncated
from limbeck.students.languages import languages_said
from limbeck.students.seq2seq import decoder_start
from limbeck.tasks.base import Model, same_tokens
from limbeck.teachers.settings import SwitchSettings, TranslateSettings
from limbeck.teachers.switch import Switch, score_name


@dataclass(frozen=True)
class Direction:
    """A direction with its teacher and its texts. The only one of a run has no name."""

    name: str
    teacher: Model
    corpus: ParallelCorpus
    repeat: int = 1


def open_directions(knobs: Any, load: Callable[[str], Model], watcher: Watcher) -> list[Direction]:
    named: Mapping[str, DirectionSettings] = knobs.tables(DirectionSettings)
    models: dict[str, Model] = {}
    for name, direction in named.items():
        watcher.say(f"loading the teacher of {name}, {direction.teacher}")
        models[name] = load(direction.teacher)
        for line in languages_said(models[name].processor):
            watcher.say(line)
        check_tag(models[name].processor, target_language(name), direction.teacher)
    _check_vocabularies(models)
    corpora = read_directions(knobs.data, knobs.table(ParallelSettings), named, watcher)
    return [Direction(name, models[name], corpora[name], named[name].repeat) for name in named]


def check_alone(knobs: Any) -> None:
    """Nothing else names a teacher or texts."""
    translate = knobs.table(TranslateSettings)
    named = {
        "--teacher": knobs.teacher,
        "--data": knobs.data.train,
        "--data.dev": knobs.data.dev,
        "--data.test": knobs.data.test,
        "--target": knobs.table(ParallelSettings).target,
        "--translate.command": translate.command,
        "--translate.endpoint": translate.endpoint,
    }
    for flag in (flag for flag, value in named.items() if value):
        raise KnobError(
            f"{flag} is given beside [directions.…]", "leave it out: every direction has its teacher and its files"
        )


def check_tag(tokenizer: Any, language: str, where: str) -> None:
    """Refuses a vocabulary that splits the tag, or does not know it."""
    ids = tokenizer(tag_of(language), add_special_tokens=False)["input_ids"]
    if len(ids) != 1 or ids[0] == tokenizer.unk_token_id:
        raise MismatchError(
            f"the vocabulary of {where} has no token {tag_of(language)}",
            f"train it with all target languages, as in --tags {language},…",
        )


def _check_vocabularies(models: dict[str, Model]) -> None:
    (first, one), *others = models.items()
    for name, other in others:
        alike = same_tokens(one.processor, other.processor)
        if not alike or decoder_start(one.network) != decoder_start(other.network):
            raise MismatchError(
                f"the teachers of {first} and {name} have different vocabularies: no student can learn from both",
                f"train the one of {name} with --vocabulary-from {one.source}",
            )


def check_switch(
    run: Any, objectives: Iterable[Objective], needed: Want, targets: Collection[str], several: bool
) -> None:
    """Refuses what several teachers, or one that steps back, cannot give."""
    switched = run.table(SwitchSettings).strategy != "fixed"
    if several and {"beam", "closest"}.intersection(targets):
        raise KnobError("with [directions.…] the given targets are learnt", "use --recipe multilingual or word-kd")
    if not needed or not (switched or several):
        return
    live = run.teacher_cache.live
    if live or needed & ~Want.TOP:
        raise MismatchError(
            f"{'several teachers' if several else 'a teacher that is switched off'} can only be cached, by the most "
            f"probable tokens, but the objective wants {'a live teacher' if live else needed}",
            "use --recipe multilingual, or the objective 'truncated', without --teacher-cache.live",
        )
    for weight, part in (pair for objective in objectives for pair in objective.weighted):
        if switched and weight and isinstance(part, Truncated) and part.form == "renorm-both":
            raise MismatchError(
                "the form 'renorm-both' compares cached tokens with each other, so its teacher cannot be switched off",
                "use the form 'tail' or 'renorm', or --switch.strategy fixed",
            )


def dev_figures(
    parts: Mapping[str, slice], teachers: Mapping[str, float], runs: Mapping[str, Sequence[SeedResult]]
) -> Iterator[tuple[str, float]]:
    """Dev BLEU by direction, of students at the step whose weights were kept, a mean over seeds."""
    for name in parts:
        if name in teachers:
            yield f"dev {score_name(name)}, teacher", teachers[name]
        for arm, results in runs.items():
            best = [
                point.dev[score_name(name)] for one in results for point in measured(one) if point.step == one.best_step
            ]
            if best:
                yield f"dev {score_name(name)}, {arm}", sum(best) / len(best)


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
