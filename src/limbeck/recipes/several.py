"""Several directions at once: their teachers are opened, their texts read, and mixed into one corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from limbeck.core.errors import DataError, KnobError, MismatchError
from limbeck.core.fingerprint import tokenizers_equal
from limbeck.core.objective import Objective
from limbeck.core.progress import Watcher
from limbeck.core.record import DataCard, SplitCard
from limbeck.core.want import Want
from limbeck.data.parallel import Parallel, ParallelCorpus, read_parallel
from limbeck.objectives.truncated import Truncated
from limbeck.recipes.directions import Direction, check_directions, language_of, prefix_of, tag_of
from limbeck.recipes.prepare import Model
from limbeck.recipes.run import Run
from limbeck.students.languages import languages_said
from limbeck.students.open_translator import decoder_start, open_translator

REVERSED = "reversed in dev or test of another direction"


@dataclass(frozen=True)
class Guided:
    """A direction: who teaches it, and its texts. The only one of a run has no name."""

    name: str
    teacher: Model
    corpus: ParallelCorpus
    repeat: int = 1


def open_directions(run: Run, watcher: Watcher) -> list[Guided]:
    check_directions(run.directions, "translate")
    _check_alone(run)
    models: dict[str, Model] = {}
    for name, direction in run.directions.items():
        watcher.say(f"opening the teacher of {name}, {direction.teacher}")
        opened = open_translator(direction.teacher, trust_remote_code=run.trust_remote_code)
        models[name] = Model(*opened, where=direction.teacher)
        for line in languages_said(models[name].tokenizer):
            watcher.say(line)
        check_tag(models[name].tokenizer, language_of(name), direction.teacher)
    _check_words(models)
    corpora = {name: _read(run, name, direction, watcher) for name, direction in run.directions.items()}
    apart = {name: _apart(name, corpora, watcher, run.parallel.prefix) for name in corpora}
    return [Guided(name, models[name], apart[name], run.directions[name].repeat) for name in run.directions]


def _check_alone(run: Run) -> None:
    """Nothing else names a teacher or texts."""
    named = {
        "--teacher": run.teacher,
        "--data": run.data.train,
        "--data.dev": run.data.dev,
        "--data.test": run.data.test,
        "--target": run.parallel.target,
        "--translate.command": run.translate.command,
        "--translate.endpoint": run.translate.endpoint,
    }
    for flag in (flag for flag, value in named.items() if value):
        raise KnobError(
            f"{flag} is given beside [directions.…]", "leave it out: every direction has its teacher and its files"
        )


def check_tag(tokenizer: Any, language: str, where: str) -> None:
    """Refuses a vocabulary that spells the tag, or does not know it."""
    ids = tokenizer(tag_of(language), add_special_tokens=False)["input_ids"]
    if len(ids) != 1 or ids[0] == tokenizer.unk_token_id:
        raise MismatchError(
            f"the vocabulary of {where} has no token {tag_of(language)}",
            f"train it with all languages that are written, as in --tags {language},…",
        )


def _check_words(models: dict[str, Model]) -> None:
    (first, one), *others = models.items()
    for name, other in others:
        alike = tokenizers_equal(one.tokenizer, other.tokenizer)
        if not alike or decoder_start(one.network) != decoder_start(other.network):
            raise MismatchError(
                f"the teachers of {first} and {name} have different vocabularies: no student can learn from both",
                f"train the one of {name} with --vocabulary-from {one.where}",
            )


def _read(run: Run, name: str, direction: Direction, watcher: Watcher) -> ParallelCorpus:
    watcher.say(f"direction {name}:")
    data = run.data.but(train=direction.train, dev=direction.dev, test=direction.test)
    targets = {"dev_target": direction.dev_target, "test_target": direction.test_target}
    prefix = prefix_of(language_of(name)) + run.parallel.prefix
    return read_parallel(data, run.parallel.but(target=direction.target, **targets, prefix=prefix), None, watcher)


def _apart(name: str, corpora: dict[str, ParallelCorpus], watcher: Watcher, words: str = "") -> ParallelCorpus:
    """Without training rows that give away, target for source, what another direction is measured on."""
    measured = {
        (target, source)
        for other, corpus in corpora.items()
        if other != name
        for split in (corpus.dev, corpus.test)
        for source, target in zip(_bare(other, split.sources, words), split.targets, strict=True)
    }
    corpus = corpora[name]
    train = corpus.train
    pairs = zip(_bare(name, train.sources, words), train.targets, strict=True)
    rows = [row for row, pair in enumerate(pairs) if pair not in measured]
    lost = len(train) - len(rows)
    if not lost:
        return corpus
    if not rows:
        raise DataError(
            f"every training row of {name} is a row of another direction's dev or test, turned round",
            "give the directions dev and test files of their own",
        )
    watcher.say(f"rows of {name}: {lost:,} dropped: {REVERSED}")
    kept = train.take(rows)
    split = corpus.card.splits["train"].but(rows=len(kept), labelled=int(kept.targeted.sum()))
    dropped = {**corpus.card.dropped, REVERSED: lost}
    card = corpus.card.but(dropped=dropped, splits={**corpus.card.splits, "train": split})
    return replace(corpus, train=kept, card=card)


def _bare(name: str, sources: Iterable[str], words: str) -> list[str]:
    """Without the tag, and the words that every source begins with."""
    return [source.removeprefix(prefix_of(language_of(name)) + words) for source in sources]


def mixed(directions: Sequence[Guided]) -> ParallelCorpus:
    """All rows, direction after direction; those of train as often as is asked."""
    train = _joined([one.corpus.train for one in directions for _ in range(one.repeat)])
    dev, test = (_joined([one.corpus.splits[split] for one in directions]) for split in ("dev", "test"))
    found = ParallelCorpus(train, dev, test, _card(directions))
    rows = {split: found.card.splits[split].but(rows=len(part)) for split, part in found.splits.items()}
    rows["train"] = rows["train"].but(labelled=int(train.targeted.sum()))
    return replace(found, card=found.card.but(splits=rows))


def _joined(parts: Sequence[Parallel]) -> Parallel:
    return Parallel(
        [source for part in parts for source in part.sources],
        [target for part in parts for target in part.targets],
        np.concatenate([part.uids for part in parts]),
    )


def _card(directions: Sequence[Guided]) -> DataCard:
    cards = {one.name: one.corpus.card for one in directions}
    splits = {
        split: SplitCard(
            source="; ".join(f"{name}: {card.splits[split].source}" for name, card in cards.items()),
            rows=sum(card.splits[split].rows for card in cards.values()),
            labelled=sum(card.splits[split].labelled for card in cards.values()),
        )
        for split in ("train", "dev", "test")
    }
    repeats = [
        f"{one.name}: training rows are seen {one.repeat} times an epoch" for one in directions if one.repeat > 1
    ]
    return DataCard(
        source="; ".join(f"{name}: {card.source}" for name, card in cards.items()),
        columns={f"{role} of {name}": column for name, card in cards.items() for role, column in card.columns.items()},
        read=sum(card.read for card in cards.values()),
        dropped=dict(sum((Counter(card.dropped) for card in cards.values()), Counter[str]())),
        duplicates=sum(card.duplicates for card in cards.values()),
        splits=splits,
        notes=[*(f"{name}: {note}" for name, card in cards.items() for note in card.notes), *repeats],
    )


def check_switch(run: Run, objectives: Iterable[Objective], needed: Want, targets: Collection[str]) -> None:
    """Refuses what several teachers, or one that steps back, cannot be asked."""
    switched = run.switch.strategy != "fixed"
    if run.directions and {"beam", "closest"}.intersection(targets):
        raise KnobError("with [directions.…] the given targets are learnt", "use --recipe multilingual or word-kd")
    if not needed or not (switched or run.directions):
        return
    if run.teacher_cache.live or needed & ~Want.TOP:
        raise MismatchError(
            f"{'several teachers' if run.directions else 'a teacher that is switched off'} can only be asked once, for "
            f"the most probable words, but the objective wants {'live answers' if run.teacher_cache.live else needed}",
            "use --recipe multilingual, or the objective 'truncated', without --teacher-cache.live",
        )
    for weight, part in (pair for objective in objectives for pair in objective.weighted):
        if switched and weight and isinstance(part, Truncated) and part.form == "renorm-both":
            raise MismatchError(
                "the form 'renorm-both' compares kept words with each other, so a teacher cannot be switched off in it",
                "use the form 'tail' or 'renorm', or --switch.strategy fixed",
            )
