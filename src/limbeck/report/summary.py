"""What a Record amounts to, in sentences. Every number is computed from the arms."""

from __future__ import annotations

import math
from collections.abc import Iterator

from limbeck.core.record import Arm, Comparison, Record, Speed
from limbeck.report import chain, levels
from limbeck.report import figures as n
from limbeck.report import models as m
from limbeck.report.advice import advice

FEW_ROWS = 1000  # below this, the sampling error of an accuracy is worth a sentence: ±2.5 points at 80 %
FEW_EXPORTS = 3  # that have a sentence each
OF_FLOOR = " of its "  # begins what is told of the share over the floor


def headline(record: Record) -> str:
    """One sentence: what was kept and at what cost, or what was measured."""
    subject, teacher = m.subject_of(record), n.teacher_of(record)
    if subject is None:
        return f"{record.name} holds no models."
    if (found := levels.searches(record)) and (text := levels.headline(record, found[0])):
        return text
    for model in (subject, m.final_of(record)):
        if model and n.at_floor(record, model):
            return _at_floor(record, model, teacher)
    if text := _became(record, subject):
        return text
    if teacher is not None and subject is not teacher:
        if n.at_floor(record, teacher):
            return (
                f"{_reaches(record, subject, _subject(record, subject, teacher))}. {_floored_teacher(record, teacher)}"
            )
        final = m.final_of(record) or subject
        gains = chain.gains(record, final) if final is not subject else ""
        cost = f" and is {gains}" if gains else _exported(record, subject) or _cost(record, subject, teacher)
        text = _against_teacher(record, final if gains else subject, teacher, cost)
        apart = n.primary(record).unit == "perplexity" or OF_FLOOR in text
        return f"{text}{',' * (apart and cost.startswith(' '))}{cost}."
    if subject.role == "student" and n.quality(subject, record.metric):
        return f"{_alone(record, subject)}."
    if len(record.arms) > 1:
        return f"{record.name}: {n.plural(len(record.arms), 'model')} side by side."
    return f"{_measured(record, subject)}{_exported(record, subject)}."


def _became(record: Record, subject: Arm) -> str:
    """What a chain ends with, or the fastest of models timed: how much smaller, how much faster, and what is left of
    the quality. At the floor there is nothing to keep."""
    reference = m.reference_of(record)
    if record.kind not in ("bench", "compress") or reference is None or not (gains := chain.gains(record, subject)):
        return ""
    if n.at_floor(record, reference):
        who = "Its start" if record.kind == "compress" else f"“{reference.title}”"
        return f"{n.opening(gains)}. {who} {_no_better(record, reference)}, so there is nothing to keep."
    if record.kind == "compress":
        return f"{n.opening(gains)}{chain.kept(record, subject)}."
    return f"“{subject.title}” is {gains} than “{reference.title}”{chain.kept(record, subject)}."


def _exported(record: Record, student: Arm) -> str:
    """What a model is once exported, instead of what it costs in torch."""
    for row in reversed(chain.exports(record, student)):
        one, reached = m.artifact_of(record, row), n.quality(row, record.metric)
        if one and (gains := chain.gains(record, row)) and not n.at_floor(record, row):
            still = f"{chain.keeps(record, row)} and " if reached else ""
            return f"; in {one.engine} as {one.precision} it {still}is {gains}"
    return ""


def _at_floor(record: Record, arm: Arm, teacher: Arm | None) -> str:
    """Without a word of what was kept or what it costs: there is nothing to praise."""
    metric, found, floor = n.primary(record), n.quality(arm, record.metric), n.floor_score(record)
    who = arm.title if arm.role == "model" else _subject(record, arm, teacher)
    who = f"“{arm.title}”" if record.kind == "compress" else who
    answer = f"{who} answers “{arm.runs[0].constant}” throughout" if n.is_constant(arm) else ""
    if found is None or floor is None:
        return f"{answer}."
    text = (
        f"{answer or f'{who} is no better than {n.floor_words(record)}'}: {metric.title} {n.score(metric, found.mean)}"
    )
    text += f" against {n.score(metric, floor)}" + (f" of {n.floor_words(record, short=True)}." if answer else ".")
    if teacher is None or teacher is arm or not n.at_floor(record, teacher):
        return text
    return f"{text} {_floored_teacher(record, teacher)}"


def _floored_teacher(record: Record, teacher: Arm) -> str:
    reached = n.quality(teacher, record.metric)
    score = f" ({n.score(n.primary(record), reached.mean)})" if reached else ""
    return f"The teacher itself {_no_better(record, teacher)}{score}, so there is nothing to keep."


def _no_better(record: Record, arm: Arm) -> str:
    if n.is_constant(arm):
        return f"answers “{arm.runs[0].constant}” throughout"
    return f"is no better than {n.floor_words(record, short=True)}"


def _over_floor(record: Record, mine: float, theirs: float) -> str:
    """The share of what the teacher has over the floor, downwards; "" where that says nothing new."""
    floor, metric = n.floor_score(record), n.primary(record)
    if not floor:  # none, or 0: the share of points over it is that of all points
        return ""
    of_perplexity = metric.unit == "perplexity"
    values = [math.log(value) if of_perplexity else value for value in (mine, theirs, floor)]
    what = "gain in nats" if of_perplexity else "points" if metric.unit in ("share", "hundred") else "gain"
    share = n.share_of(values[0] - values[2], values[1] - values[2])
    return f", {share}{OF_FLOOR}{what} over {n.floor_words(record, short=True)}"


def _against_teacher(record: Record, student: Arm, teacher: Arm, cost: str) -> str:
    who, metric = _subject(record, student, teacher), n.primary(record)
    name = metric.title
    mine, theirs = n.quality(student, record.metric), n.quality(teacher, record.metric)
    if mine is None or theirs is None:
        agree = n.fidelity(student, "agreement")
        if agree is None:
            return f"{who} was not scored" + (" against its teacher, and runs" if cost else "")
        if n.metric_named(record, "agreement").unit != "share":
            return f"{who}’s predictions correlate {agree.mean:.3f} with the teacher’s"
        predictions = f"{n.units(record).prediction}s"
        return f"{who} predicts as the teacher does on {n.percent(agree.mean)} of the test {predictions}"
    ours, other = n.score(metric, mine.mean), n.score(metric, theirs.mean)
    if ours == other:
        return f"{who} matches the teacher’s {name} of {other}"
    if metric.unit == "perplexity" and theirs.mean > 0:
        more = _over_floor(record, mine.mean, theirs.mean) if mine.mean > theirs.mean else ""
        return f"{who} reaches a {name} of {ours}, {n.ratio_text(mine.mean, theirs.mean)} the teacher’s {other}{more}"
    worse = mine.mean < theirs.mean if metric.higher_is_better else mine.mean > theirs.mean
    more = _over_floor(record, mine.mean, theirs.mean) if worse else ""
    if not metric.higher_is_better or not 0 < mine.mean < theirs.mean:
        return f"{who} reaches {n.article(name)}{name} of {ours} against the teacher’s {other}{more}"
    return f"{who} keeps {n.share_of(mine.mean, theirs.mean)} of the teacher’s {name}{more}"


def _subject(record: Record, student: Arm, teacher: Arm | None = None) -> str:
    if made := m.artifact_of(record, student):
        return f"{_subject(record, record.arm(made.arm), teacher)} in {made.engine} as {made.precision}"
    many = len(n.students_of(record))
    if many > 1:
        best = f", the best of {many} students," if n.quality(student, record.metric) else ""
        return f"“{student.title}”{best}"
    deep = n.layers(student.shape) if student.shape else ""
    if not deep or (teacher and teacher.shape and n.layers(teacher.shape) == deep):
        return "The student"
    return f"The {deep.removesuffix('s').replace(' layer', '-layer')} student"


def _alone(record: Record, student: Arm) -> str:
    """A student whose teacher left only its cached outputs."""
    plain = n.of_role(record, "baseline")
    theirs = n.quality(plain, record.metric) if plain else None
    against = f", against {n.score(n.primary(record), theirs.mean)} without a teacher" if theirs else ""
    return f"{_reaches(record, student, _subject(record, student))}{against}; the teacher itself was not measured"


def _reaches(record: Record, arm: Arm, who: str) -> str:
    metric, reached = n.primary(record), n.quality(arm, record.metric)
    score = n.score(metric, reached.mean if reached else None)
    return f"{who} reaches {n.article(metric.title)}{metric.title} of {score}"


def _cost(record: Record, student: Arm, teacher: Arm) -> str:
    costs: list[tuple[float, str]] = []
    if student.speed and teacher.speed and teacher.speed.p50_ms:
        costs.append((student.speed.p50_ms / teacher.speed.p50_ms, f"the time per {n.units(record).input}"))
    in_all = m.counted_in_all([record])
    if (mine := m.bytes_of(student, in_all)) and (whole := m.bytes_of(teacher, in_all)):
        costs.append((mine / whole, "the bytes"))
    same = [what.replace("the", "the same", 1) for value, what in costs if 0.995 <= value < 1.05]
    less = [f"{n.ratio(value)} {what}" for value, what in costs if value < 0.995] + same
    more = [f"{n.ratio(value)} {what}" for value, what in costs if value >= 1.05]
    text = f" at {' and '.join(less)}" if less else ""
    return text + (f"{' but' if less else ', but at'} {' and '.join(more)}" if more else "")


def _measured(record: Record, arm: Arm) -> str:
    speed, rows = arm.speed, n.tested_rows(record)
    if n.quality(arm, record.metric):
        on = f" on {n.plural(rows, n.units(record).row)}" if rows else ""
        over = f", the mean of {len(arm.runs)} seeds" if len(arm.runs) > 1 else ""
        return f"{_reaches(record, arm, arm.title)}{on}{over}"
    if speed is not None:
        rate = f"{n.figure(speed.sentences_per_second)} {n.units(record).input}s a second in batches of {speed.batch}"
        return f"{arm.title} takes {n.milliseconds(speed.p50_ms)} for one {n.timed([record])} and reaches {rate}"
    return f"{arm.title} was opened, and nothing was measured"


def conclusion(record: Record) -> str:
    """The honest sentence of the comparison that the subject is in, or of the first, with titles for names."""
    subject = m.subject_of(record)
    if record.finding:
        return record.finding
    if record.kind == "compress":
        return _lost(record, subject) if subject else ""
    if found := levels.searches(record):
        return levels.sentence(record, found[0])
    if comparisons := record.comparisons:
        of_subject = (c for c in comparisons if subject and c.better == subject.name)
        return _titled(record, next(of_subject, comparisons[0]))
    if record.kind == "eval" or not m.is_pair(record):
        return ""
    if not n.students_of(record):
        return "No student learned from the teacher: it is only what the others are measured against."
    if n.of_role(record, "baseline") is None:
        return "No student was trained without the teacher, so whether distillation helped is not known."
    rows = f"{n.units(record).row}s"
    return f"Student and baseline were not compared on test {rows}, so whether distillation helped is not known."


def _lost(record: Record, subject: Arm) -> str:
    """What a chain lost, and whether that is more than chance: compared as a whole, or step by step."""
    artifact, reference = m.artifact_of(record, subject), m.reference_of(record)
    direct = [*record.comparisons[:1], *([artifact.comparison] if artifact and artifact.comparison else [])]
    start = m.artifact_of(record, reference) if reference else None
    names = {arm.name for arm in (reference, start) if arm}
    for found in direct:
        if found.than in names or found is not (artifact and artifact.comparison):
            return _titled(record, found, artifact.arm if artifact else "")
    name = n.primary(record).title
    if not any(one.comparison for one in record.artifacts):
        return f"No step was compared row by row, so what chance did to {name} is not known."
    proven = [f"“{row.title}” {n.change_text(record, found)}" for row, found in chain.proven_losses(record)]
    if not proven:
        return f"No single step is proven to have cost {name}."
    return f"Step by step, {name} lost beyond chance: {n.listed(proven)}."


def _titled(record: Record, comparison: Comparison, of: str = "") -> str:
    """With titles for names, those of artifacts in the arm that they are of; and with no word of help to a model that
    is no better than the floor; that it was harmed may be said."""
    rows = {arm.name: arm for arm in m.models(record)}
    rows |= {name.removeprefix(f"{of}/"): arm for name, arm in rows.items() if of and name.startswith(f"{of}/")}
    better = rows.get(comparison.better)
    high = comparison.high if n.metric_named(record, comparison.metric).higher_is_better else -comparison.low
    if better and high >= 0 and n.at_floor(record, better):
        what = "what was lost with" if m.artifact_of(record, better) else "whether a teacher helped"
        return f"{n.opening(what)} “{better.title}” cannot be told: it {_no_better(record, better)}."
    sentence = comparison.sentence
    for name, arm in rows.items():
        sentence = sentence.replace(f"“{name}”", f"“{arm.title}”")
    return sentence


def gain_sentences(record: Record) -> list[str]:
    """Every comparison in words, and how sure all intervals are at once, where they were widened for it."""
    together = [sentence] if (sentence := joint_confidence(record)) else []
    return [*(_titled(record, comparison) for comparison in record.comparisons), *together]


def joint_confidence(record: Record) -> str:
    several = len(record.comparisons)
    if record.kind != "compare" or several < 2:
        return ""
    sure = record.comparisons[0].confidence
    return (
        f"{several} comparisons were made at once, so each interval is at {100 * sure:.4g}{n.GAP}%: "
        f"all of them hold together with {n.percent(1 - several * (1 - sure), 0)} (Bonferroni)."
    )


def gap_sentences(record: Record) -> list[str]:
    """The table of translators in words: how much of the gap each student closes, and what its artifacts lose."""
    closed = [_closed(record, student) for student in n.students_of(record)]
    exports = [same[0] for same in m.artifacts(record) if not same[0].step and len(same) == 1]
    told = exports if len(exports) <= FEW_EXPORTS and record.kind != "compress" else []  # else a column tells it
    lost = [_titled(record, one.comparison, one.arm) for one in told if one.comparison]
    return [*filter(None, closed), *lost]


def _closed(record: Record, student: Arm) -> str:
    teacher, plain = n.teacher_of(record), n.baseline_of(record, student) or _only_baseline(record)
    if teacher is None or plain is None:
        return ""
    greedy, beam = (_closed_share(metric, student, teacher, plain) for metric in ("bleu", "bleu_beam"))
    if not greedy:
        return ""
    also = f"; with a beam, {beam}" if beam else ""
    return (
        f"“{student.title}” closes {greedy} of the gap in greedy BLEU between the student without a teacher "
        f"and the teacher{also}."
    )


def _closed_share(metric: str, student: Arm, teacher: Arm, plain: Arm) -> str:
    """(student − baseline) / (teacher − baseline), downwards: below the teacher is never 100 %."""
    mine, theirs, without = (n.quality(arm, metric) for arm in (student, teacher, plain))
    if mine is None or theirs is None or without is None or theirs.mean <= without.mean:
        return ""
    share = math.floor(100 * (mine.mean - without.mean) / (theirs.mean - without.mean))
    return f"{share}{n.GAP}%" if mine.mean > without.mean else "none"


def _only_baseline(record: Record) -> Arm | None:
    plain = [arm for arm in record.arms if arm.role == "baseline" or arm.name.startswith("plain")]
    return plain[0] if len(plain) == 1 else None


def caveats(record: Record) -> list[str]:
    """What a reader must know before believing the headline."""
    return list(_caveats(record))


def _caveats(record: Record) -> Iterator[str]:
    subject = m.subject_of(record)
    if subject is None:
        return
    if why := advice(record):
        yield why
    scored, rows = n.quality(subject, record.metric), n.tested_rows(record)
    if record.kind in ("distill", "compare", "train") and len(subject.runs) == 1:
        again = "Train again with --seed 1" if record.kind == "train" else "Run with --seeds 3"
        yield f"One seed: how far chance moved the result is not known. {again} to find out."
    if scored is None and record.kind != "bench":
        yield f"No {n.primary(record).title}: {n.units(record).unscored}."
    if scored is not None and 0 < rows < FEW_ROWS and record.metric == "accuracy":
        error = 1.96 * math.sqrt(max(0.0, scored.mean * (1 - scored.mean)) / rows)
        counted = n.plural(rows, ("" if record.kind == "eval" else "test ") + n.units(record).row)
        yield (
            f"{counted}: an accuracy of {n.percent(scored.mean)} on so few "
            f"is uncertain by ±{100 * error:.1f} points (95{n.GAP}% sampling error)."
        )
    if scored is not None and len(n.students_of(record)) > 1:
        yield "The best student is the best on the test split itself, so its figure is a little too good."
    if all(model.speed is None for model in m.models(record)):
        yield "Speed was not measured."
    elif m.is_pair(record) and any(arm.speed is None for arm in (subject, n.teacher_of(record)) if arm):
        yield "Speed was measured for only one of student and teacher, so there is no ratio."


def speed_conditions(record: Record) -> str:
    """How the milliseconds were taken."""
    unit, one = n.units(record), f"one {n.timed([record])}"
    how = n.decoding([record]) if unit.decoded else unit.timing
    how = f", {how}" if how else ""
    ways = dict.fromkeys(
        f"{s.engine}, {n.plural(s.threads, 'thread')}{_apart(s)}, {one} at a time{how}, "
        f"{n.plural(s.rounds, 'round')}; throughput in batches of {s.batch}"
        for s in (model.speed for model in m.models(record))
        if s
    )
    return "; or ".join(ways)


def _apart(speed: Speed) -> str:
    """CTranslate2's threads do not share a text, they share out a batch."""
    apart = speed.engine.startswith("ctranslate2") and speed.threads > 1
    return " of which a single text has one" if apart else ""


def speed_inputs(record: Record) -> str:
    """How long a block is, or how wide the beam: milliseconds over a vocabulary mean little without it."""
    decoded, timed = n.units(record).decoded, any(model.speed for model in m.models(record))
    if not timed or not (decoded or n.in_blocks(record)):
        return ""
    how = n.decoding([record]) if decoded else "in one forward pass"
    return f"Speed is that of a {n.timed([record])}, {how}."
