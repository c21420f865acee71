"""What a reader must know before any figure: derived from a Record, the same for page, model card and terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from limbeck.core.record import Arm, Failure, Record, Speed
from limbeck.report import chain
from limbeck.report import figures as n
from limbeck.report import models as m
from limbeck.report.published import QUICK

MUCH_OVERLAP, MANY_ROWS = 0.01, 0.05  # shares of rows above which a reader should worry
LOW_PARITY, NO_PARITY = 0.98, 0.95  # agreement of an export with its source below which one should, and is in red
SLOWER, LARGER = 1.03, 1.005  # what timing and file formats do by themselves


@dataclass(frozen=True)
class ReportWarning:
    """What a reader must know before any figure."""

    text: str
    serious: bool  # in red


def warnings(record: Record) -> list[ReportWarning]:
    """Derived from the record, the most serious first."""
    found = [
        *([ReportWarning(QUICK, True)] if record.quick else []),
        *(ReportWarning(text, True) for text in (*_constants(record), *_floored(record))),
        *_overlap(record),
        *(ReportWarning(_sentence(record, one), _was_wanted(record, one)) for one in record.failed),
        *(ReportWarning(text, True) for text in _busy(record)),
        *_parity(record),
        *(ReportWarning(text, False) for text in (*_resegmented(record), *_nothing_bought(record), *_doubts(record))),
    ]
    return sorted(found, key=lambda one: not one.serious)


def _used(record: Record) -> list[Arm]:
    """All models but those in the middle of a chain, which may have to be trained yet."""
    return [arm for arm in m.models(record) if not m.is_between(record, arm)]


def _constants(record: Record) -> Iterator[str]:
    who: dict[str, list[str]] = {}
    for arm in _used(record):
        for answer in dict.fromkeys(run.constant for run in arm.runs if run.constant):
            seeds = [run.seed for run in arm.runs if run.constant == answer]
            who.setdefault(answer, []).append(f"“{arm.title}”" + ("" if len(seeds) == len(arm.runs) else _seeds(seeds)))
    by_word = record.task.level == "token" or n.in_blocks(record)
    each = n.units(record).prediction if by_word else n.units(record).row
    for answer, arms in who.items():
        yield f"{n.listed(arms)} answer{'s' * (len(arms) == 1)} “{answer}” for every {each}."


def _floored(record: Record) -> Iterator[str]:
    metric, scores = n.primary(record), {}
    for arm in _used(record):
        if n.at_floor(record, arm) and not n.is_constant(arm) and (found := n.quality(arm, record.metric)):
            scores[arm.title] = n.score(metric, found.mean)
    if scores:
        arms = n.listed([f"“{title}” ({reached})" for title, reached in scores.items()])
        floor = f"{n.floor_words(record)}: {metric.title} {n.score(metric, n.floor_score(record))}"
        yield f"{arms} {'is' if len(scores) == 1 else 'are'} no better than {floor}."


def _overlap(record: Record) -> Iterator[ReportWarning]:
    overlap, split, unit = record.data.overlap, n.tested_split(record), n.units(record)
    if not overlap or split is None:
        return
    metric = n.primary(record)
    rows = overlap if n.in_blocks(record) else split.rows  # of documents, only these are counted
    many = n.plural(rows, f"test {unit.source if n.in_blocks(record) else unit.row}")
    found = []
    for arm in filter(None, (m.subject_of(record), n.teacher_of(record))):
        without, whole = n.spread([run.unseen.get(metric.name) for run in arm.runs]), n.quality(arm, metric.name)
        if without and whole:
            found.append(f"{n.score(metric, without.mean)} instead of {n.score(metric, whole.mean)} (“{arm.title}”)")
    text = f"{many if rows == overlap else f'{n.count(overlap)} of {many}'} stand{'s' * (overlap == 1)} in train too."
    text += f" On the others {metric.title} is {n.listed(list(dict.fromkeys(found)))}." if found else ""
    yield ReportWarning(text, overlap >= MUCH_OVERLAP * rows)


def failure_sentences(record: Record) -> list[str]:
    return [_sentence(record, one) for one in record.failed]


def _sentence(record: Record, one: Failure) -> str:
    if one.export:
        return f"No export to {one.export}: {one.reason}"
    title = next((arm.title for arm in record.arms if arm.name == one.arm), one.arm)
    return f"“{title}” {f'failed{_seeds(one.seeds)}' if one.seeds else 'was refused'}: {one.reason}"


def _was_wanted(record: Record, one: Failure) -> bool:
    """Translators are exported unasked."""
    return not one.export or bool(record.knobs.get("export"))


def _seeds(seeds: Sequence[int]) -> str:
    return f" with seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def _busy(record: Record) -> Iterator[str]:
    busy = [f"“{model.title}”" for model in m.models(record) if model.speed and model.speed.busy]
    if busy:
        be = "was" if len(busy) == 1 else "were"
        yield f"The machine was busy while {n.listed(busy)} {be} timed: do not quote these milliseconds."


def _parity(record: Record) -> Iterator[ReportWarning]:
    for row in m.models(record):
        one = m.artifact_of(record, row)
        agree = one.figures.get("agreement") if one and not one.step else None
        if n.known(agree) and agree < LOW_PARITY:
            text = (
                f"“{row.title}” answers as the model it was made from on only {n.percent(agree)} of the rows compared."
            )
            yield ReportWarning(text, agree < NO_PARITY)


def _resegmented(record: Record) -> Iterator[str]:
    for row in m.models(record):
        one = m.artifact_of(record, row)
        share = one.figures.get("held_out_resegmented_share") if one and one.step else None
        if n.known(share) and share > MANY_ROWS:
            unknown = one.figures.get("held_out_new_unknowns", 0) if one else 0
            also = f", with {n.plural(int(unknown), 'new unknown token')}" if unknown else ""
            yield f"“{row.title}” splits {n.percent(share)} of the dev texts into other tokens than before{also}."


def _nothing_bought(record: Record) -> Iterator[str]:
    """A pass or an export that made the file larger or the answers slower, or neither smaller nor faster."""
    in_all = m.counted_in_all([record])
    for row in m.models(record):
        one, before = m.artifact_of(record, row), chain.made_from(record, row)
        if one is None or before is None or (one.step and not one.note):  # a training buys neither, and has no note
            continue
        was, now = m.bytes_of(before, in_all), m.bytes_of(row, in_all)
        worse = [f"larger ({n.megabytes(was)} → {n.megabytes(now)})"] if was and now > LARGER * was else []
        slow, slower = _slower(before.speed, row.speed)
        worse += [slow] if slower else []
        if worse:
            yield f"“{row.title}” made the model {' and '.join(worse)}."
        elif one.step and was and now and was < LARGER * now and not _slower(row.speed, before.speed)[1]:
            yield f"“{row.title}” made the model {'neither smaller nor faster' if slow else 'no smaller'}."


def _slower(before: Speed | None, after: Speed | None) -> tuple[str, bool]:
    """In words, and whether it is more than timing does by itself: intervals that part, or a share without them."""
    if before is None or after is None:
        return "", False
    text = f"slower ({n.milliseconds(before.p50_ms)} → {n.milliseconds(after.p50_ms)})"
    parted = after.low_ms > before.high_ms if before.high_ms and after.low_ms else True
    return text, parted and after.p50_ms > SLOWER * before.p50_ms


def _doubts(record: Record) -> Iterator[str]:
    data, source = record.data, n.units(record).source
    rows, dropped = sum(split.rows for split in data.splits.values()), sum(data.dropped.values())
    if data.conflicts:
        again = "repeats a text with another label" if data.conflicts == 1 else "repeat a text with another label"
        yield f"{n.plural(data.conflicts, source)} {again}."
    if not n.in_blocks(record) and data.truncated > MANY_ROWS * rows:
        yield f"{n.count(data.truncated)} of {n.plural(rows, source)} are longer than --data.max-length and are cut."
    if dropped > MANY_ROWS * data.read:
        why = ", ".join(f"{reason} ({n.count(many)})" for reason, many in data.dropped.items())
        yield f"{n.count(dropped)} of {n.plural(data.read, source)} are left out: {why}."
