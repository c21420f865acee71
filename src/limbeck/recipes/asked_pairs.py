"""Everything a teacher of translators is asked: to translate the training set, to take the test, and what it would say
at every word of the targets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from limbeck.core.errors import DataError, KnobError
from limbeck.core.fingerprint import tokenizer_fingerprint
from limbeck.core.progress import Watcher
from limbeck.core.teacher import NoTeacher, Teacher
from limbeck.core.trace import Batch
from limbeck.core.want import Request, Want
from limbeck.data.encode import to_batch
from limbeck.data.sequences import SequenceCollator, Sequences, encode_sequences
from limbeck.recipes.cell import Answers
from limbeck.recipes.ground import Ground
from limbeck.recipes.job import ASKING
from limbeck.recipes.phases import Phase
from limbeck.recipes.run import Run
from limbeck.recipes.sequence_exam import SequenceExam
from limbeck.recipes.several import Guided
from limbeck.recipes.unteachable import Unteachable
from limbeck.recipes.writer import GOLD, Writer
from limbeck.recipes.written import Written, gold_targets, kept_translations, translated
from limbeck.students.open_translator import decoder_start
from limbeck.teachers.keep import keep
from limbeck.teachers.live import LiveTeacher
from limbeck.teachers.store import About, Store, StoreTeacher
from limbeck.teachers.switch import Owners, Switch
from limbeck.teachers.translate_settings import TranslateSettings
from limbeck.teachers.translations import Recalled

TRANSLATING, TESTED = 0.6, 0.75  # shares of the asking that are done after each part
LIVE = Request(Want.LOGITS | Want.TOP | Want.SAMPLED)  # what a model at hand shows of words


@dataclass(frozen=True)
class AskedPairs:
    ground: Ground
    test: Answers
    test_texts: Sequence[str]
    sequences: Mapping[tuple[str, str], Sequences]  # tokens, targets → training rows
    kept: Teacher = field(default_factory=NoTeacher)  # its words, from disk
    present: Teacher = field(default_factory=NoTeacher)  # itself
    notes: Sequence[str] = ()
    live: bool = False  # asked at every step, so that it must stay
    scores: Mapping[str, float] = field(default_factory=dict)  # direction → dev BLEU of its teacher, where it matters

    def rows(self, writer: Writer) -> dict[str, Sequences]:
        own = _name(writer)
        return {targets: rows for (name, targets), rows in self.sequences.items() if name == own}

    def teacher(self, writer: Writer, phase: Phase) -> Teacher:
        wanted = phase.of_teacher.want
        if not wanted:
            return NoTeacher()
        if _needs_presence(writer, wanted):
            return self.present
        if not _switched(writer):
            return self.kept
        rows = self.sequences[_name(writer), phase.targets]
        owners = Owners.of([way.name for way in self.ground.ways], rows.uids, _whose(self.ground, rows))
        return Switch(self.kept, owners, self.scores, writer.run.switch)


def ask_pairs(ground: Ground, writers: Sequence[Writer], place: Path, watcher: Watcher) -> AskedPairs:
    run = writers[0].run
    _check_alike(writers)
    notes = list(ground.notes)
    needed = {phase.targets for writer in writers for phase in writer.plan.phases}
    written: Written | None = None
    if needed - {GOLD}:
        nbest = run.translate.nbest or (run.translate.beam if "closest" in needed else 1)
        share = lambda done: watcher.at(ASKING, TRANSLATING * done, "translating the training set")  # noqa: E731
        written, note = translated(ground, run, nbest, place / "translations", share)
        notes.append(note)
    sequences, said = _sequences(ground, writers, written)
    watcher.at(ASKING, TRANSLATING)
    test, texts = _tested(ground, run, place / "tested")
    watcher.at(ASKING, TESTED)
    for note in dict.fromkeys([*notes, *said]):
        watcher.say(note)
    present: Teacher = NoTeacher()
    if ground.teacher is not None:
        present = LiveTeacher(ground.teacher.network, LIVE, ground.task.vocab_size)
    asked = AskedPairs(ground, test, texts, sequences, present=present, notes=list(dict.fromkeys([*notes, *said])))
    asked = _with_words(asked, writers, run, place / "words", watcher)
    if any(map(_switched, writers)):
        gauged = {way.name: _exam(ground, run, way).watched()["gauge"](way.teacher.network) for way in ground.ways}
        asked = replace(asked, scores={name: found["bleu"] for name, found in gauged.items()})
    watcher.at(ASKING, 1.0)
    return asked


def _check_alike(writers: Sequence[Writer]) -> None:
    """One teacher translates once, for all."""
    plain = TranslateSettings()
    ways = {writer.run.translate.but(targets=plain.targets).model_dump_json() for writer in writers}
    if len(ways) > 1:
        raise KnobError(
            "columns differ in how the teacher translates",
            "set the knobs of 'translate' once for all; only translate.targets may differ",
        )


def _name(writer: Writer) -> str:
    """The same for writers whose rows are the same tokens."""
    return f"{tokenizer_fingerprint(writer.tokenizer)} from {writer.exam.start}"


def _sequences(
    ground: Ground, writers: Sequence[Writer], written: Written | None
) -> tuple[dict[tuple[str, str], Sequences], list[str]]:
    """The training rows of every phase, in the tokens of its student; and what was left out of them."""
    found: dict[tuple[str, str], Sequences] = {}
    notes: list[str] = []
    train = ground.corpus.train
    for writer in writers:
        for targets in sorted(writer.learns):
            if (_name(writer), targets) in found:
                continue
            try:
                rows, texts, note = gold_targets(train) if targets == GOLD or not written else written.targets(targets)
            except DataError as error:
                raise Unteachable([one for one in writers if targets in one.learns], error) from None
            sources = [train.sources[row] for row in rows]
            exam = writer.exam
            encoded = encode_sequences(sources, texts, writer.tokenizer, exam.start, exam.max_length)
            found[_name(writer), targets] = encoded
            longest = min(exam.max_length, writer.tokenizer.model_max_length)
            cut = f"{encoded.truncated:,} training rows are longer than {longest} tokens and were cut."
            notes += [said for said in (note, cut if encoded.truncated else "") if said]
    return found, notes


def _tested(ground: Ground, run: Run, place: Path) -> tuple[Answers, list[str]]:
    """The teacher in the exam its students will take; what a black box writes there is kept, for it may cost."""
    if ground.black_box is not None:
        owner = ground.teacher or ground.begin
        assert owner is not None
        test, kept = ground.corpus.test, kept_translations(ground, run.translate, ground.black_box, 1, place)
        kept.complete(test.sources, test.uids, ground.black_box, 1, 1)
        recalled = Recalled(ground.black_box.name, kept, test.sources, test.uids)
        return _exam(ground, run, Guided("", owner, ground.corpus)).of_engine(recalled, single=True)
    exams = [_exam(ground, run, way) for way in ground.ways]
    taken = [exam.taken(way.teacher.network, teaches=True) for exam, way in zip(exams, ground.ways, strict=True)]
    rows = np.concatenate([answers.logits for answers, _ in taken])
    uids = np.concatenate([answers.uids for answers, _ in taken])
    return Answers(uids, rows, exams[0].scored(rows)), [text for _, texts in taken for text in texts]


def _exam(ground: Ground, run: Run, way: Guided) -> SequenceExam:
    """Of one direction, in the tokens of its teacher."""
    model, corpus = way.teacher, way.corpus
    start, longest = decoder_start(model.network), run.data.max_length
    return SequenceExam(ground.task, model.tokenizer, start, corpus.dev, corpus.test, run.translate, longest)


def _switched(writer: Writer) -> bool:
    """Its teachers may step back, or are several and measured each for itself."""
    return writer.run.switch.strategy != "fixed" or bool(writer.ground.directions)


def _whose(ground: Ground, rows: Sequences) -> np.ndarray:
    """[rows] the place of each one's direction; of several, only what people wrote is learnt."""
    if not ground.directions:
        return np.zeros(len(rows), np.int64)
    return ground.owners[gold_targets(ground.corpus.train)[0]]


def _needs_presence(writer: Writer, wanted: Want) -> bool:
    return writer.run.teacher_cache.live or bool(wanted & ~Want.TOP)


def _with_words(asked: AskedPairs, writers: Sequence[Writer], run: Run, place: Path, watcher: Watcher) -> AskedPairs:
    """The teacher's words at every target that a phase asks about, from disk or on the spot."""
    wanted: dict[tuple[str, str], None] = {}
    live = False
    heat = 1.0
    for writer in writers:
        for phase in writer.plan.phases:
            if phase.of_teacher.want and _needs_presence(writer, phase.of_teacher.want):
                live = True
            elif phase.of_teacher.want:
                wanted[_name(writer), phase.targets] = None
                heat = max([heat, *(getattr(part, "temperature", 1.0) for _, part in phase.objective.weighted)])
    if not wanted:
        return replace(asked, live=live)
    ground = asked.ground
    about = About(
        kind="top",
        k=min(run.teacher_cache.top, ground.task.vocab_size),
        vocabulary=ground.task.vocab_size,
        temperature=heat,
        fingerprints={name: ground.fingerprints[name] for name in ("teacher", "tokenizer", "data")},
        notes={"teacher": run.teacher, "task": run.data.task, "data": run.data.train},
    )
    store = Store(Path(run.teacher_cache.cache) if run.teacher_cache.cache else place, about, write=True)
    for path in store.damaged:
        watcher.say(f"{path} was damaged and is asked again")
    _fill(store, asked, list(wanted), run, watcher)
    return replace(asked, kept=StoreTeacher(store), live=live)


def _fill(store: Store, asked: AskedPairs, wanted: Sequence[tuple[str, str]], run: Run, watcher: Watcher) -> None:
    """Every row that is not there yet is asked of its own direction's teacher."""
    ground = asked.ground
    collator = SequenceCollator(ground.tokenizer.pad_token_id, ground.task)
    total, done = sum(int(store.lacks(asked.sequences[name].uids).sum()) for name in wanted), 0
    for number, way in enumerate(ground.ways):
        present = LiveTeacher(way.teacher.network, LIVE, ground.task.vocab_size)
        for name in wanted:
            dataset = asked.sequences[name]
            rows = np.flatnonzero(store.lacks(dataset.uids) & (_whose(ground, dataset) == number))

            def tell(count: int, before: int = done) -> None:
                share = (before + count) / max(total, 1)
                watcher.at(ASKING, TESTED + (1 - TESTED) * share, "words of the targets")

            keep(store, present, _batches(dataset, rows, collator, run.teacher_cache.batch_size), tell)
            done += len(rows)
    if total:
        store.close()


def _batches(dataset: Sequences, rows: np.ndarray, collator: SequenceCollator, size: int) -> Iterator[Batch]:
    """These rows, longest first; of rows that are the same question, one."""
    once = {int(dataset.uids[row]): row for row in rows.tolist()}
    order = sorted(once.values(), key=lambda row: -dataset.lengths[row])
    for start in range(0, len(order), size):
        yield to_batch(collator([dataset[row] for row in order[start : start + size]]), collator.task)
