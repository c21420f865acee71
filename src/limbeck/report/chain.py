"""What each pass and each export bought and cost: ratios, the model it was made from, and what it counted, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import starmap

from limbeck.core.record import Arm, Artifact, Comparison, Record
from limbeck.report import figures as n
from limbeck.report import models as m

SAME = 0.005  # ratios nearer to 1 than this are called equal
FEW = 0.95  # of what a metric had: who keeps less keeps "only" that
_PARITY = ("agreement", "largest_difference", "float_weights")  # of what an exporter measures, what people read
_SHARES = ("agreement", "share", "energy", "fraction")  # words in the names of figures between 0 and 1


def smaller(record: Record, arm: Arm) -> float | None:
    """How many times smaller than the reference; None of the reference itself and where nothing is counted."""
    reference, in_all = m.reference_of(record), m.counted_in_all([record])
    return _ratio(reference, arm, m.bytes_of(reference, in_all), m.bytes_of(arm, in_all))


def faster(record: Record, arm: Arm) -> float | None:
    reference = m.reference_of(record)
    before, after = ((one.speed.p50_ms if one and one.speed else 0.0) for one in (reference, arm))
    return _ratio(reference, arm, before, after)


def _ratio(reference: Arm | None, arm: Arm, before: float, after: float) -> float | None:
    return before / after if reference and reference.name != arm.name and before and after else None


def gains(record: Record, arm: Arm) -> str:
    """17.9× smaller and 15.2× faster; what it costs comes last, after a "but"."""
    ratios = ((smaller(record, arm), "smaller", "larger"), (faster(record, arm), "faster", "slower"))
    gained = [f"{_times(r)} {up}" for r, up, _ in ratios if r and r >= 1 + SAME]
    lost = [f"{_times(1 / r)} {down}" for r, _, down in ratios if r and r <= 1 / (1 + SAME)]
    even = {"smaller": "as large", "faster": "as fast"}
    gained += [even[up] for r, up, _ in ratios if r and 1 / (1 + SAME) < r < 1 + SAME]
    return " but ".join(filter(None, (" and ".join(gained), " and ".join(lost))))


def _times(ratio: float) -> str:
    return n.times(ratio) if ratio >= 1.1 else f"{100 * (ratio - 1):.1f}{n.GAP}%"


def kept(record: Record, arm: Arm) -> str:
    """What is left of the quality of the reference, as the end of a sentence."""
    share = _share(record, arm)
    if share is None or not 0 < share < 1:
        return f", and {keeps(record, arm)}" if share is not None else ""
    only = "but only " if share < FEW else ""
    return f", {only}{n.share_of(share, 1)} of the {n.primary(record).title} kept"


def keeps(record: Record, arm: Arm) -> str:
    """keeps 98.7 %, or the score, where that is no loss or no share."""
    share, metric, mine = _share(record, arm), n.primary(record), n.quality(arm, record.metric)
    if share is not None and 0 < share < 1:
        return f"keeps {n.share_of(share, 1)}"
    return f"reaches {n.article(metric.title)}{metric.title} of {n.score(metric, mine.mean if mine else None)}"


def _share(record: Record, arm: Arm) -> float | None:
    """Of the reference's quality; 0 where a share would say nothing, 1 where nothing that reports show is lost."""
    metric, reference = n.primary(record), m.reference_of(record)
    mine, theirs = (n.quality(one, metric.name) if one else None for one in (arm, reference))
    if mine is None or theirs is None:
        return None
    if not metric.higher_is_better or mine.mean <= 0 or theirs.mean <= 0:
        return 0.0
    same = n.score(metric, mine.mean) == n.score(metric, theirs.mean)
    return 1.0 if same else mine.mean / theirs.mean


def change(record: Record, arm: Arm) -> tuple[float, Comparison | None] | None:
    """The difference in quality to what an artifact was made from, and the paired one where there is one."""
    artifact, origin, mine = m.artifact_of(record, arm), made_from(record, arm), n.quality(arm, record.metric)
    if artifact is None or mine is None:
        return None
    found = artifact.comparison
    if found and found.metric == record.metric and len(arm.runs) == 1:
        return found.difference, found
    theirs = n.quality(origin, record.metric) if origin else None
    return (mine.mean - theirs.mean, None) if theirs else None


def made_from(record: Record, arm: Arm) -> Arm | None:
    """The row that a pass or an export began with: the step before it, or else the arm."""
    rows, artifact = m.models(record), m.artifact_of(record, arm)
    of, led = artifact.arm if artifact else arm.name, m.is_outcome(record, artifact.arm if artifact else arm.name)
    if (artifact and artifact.step == m.START) or not (artifact or led):
        return None
    steps = [row for row in rows if (one := m.artifact_of(record, row)) and one.step and one.arm == of]
    if artifact and artifact.step:
        steps = steps[: [row.name for row in steps].index(arm.name)]
    whole = [row for row in rows if row.name == of and artifact and not (artifact.step and led)]
    return next(iter([*whole, *reversed(steps)] if led else [*reversed(steps), *whole]), None)


def proven_losses(record: Record) -> list[tuple[Arm, Comparison]]:
    """The steps and exports that cost more quality than chance explains."""
    higher, found = n.primary(record).higher_is_better, []
    for row in m.models(record):
        paired = change(record, row)
        if paired and paired[1] and (paired[1].high < 0 if higher else paired[1].low > 0):
            found.append((row, paired[1]))
    return found


def exports(record: Record, arm: Arm) -> list[Arm]:
    return [
        row for row in m.models(record) if (one := m.artifact_of(record, row)) and one.arm == arm.name and not one.step
    ]


def details(record: Record, arm: Arm) -> list[str]:
    """What a step says of itself, then what it counted."""
    artifact = m.artifact_of(record, arm)
    return list(_details(artifact)) if artifact else []


def _details(artifact: Artifact) -> Iterator[str]:
    """A step's own words name what it counted; where it has none, and of an export, the figures speak."""
    told = {name: value for name, value in artifact.figures.items() if n.known(value)}
    if artifact.note:
        yield artifact.note
    if not artifact.step:
        parity = {name: told[name] for name in _PARITY if told.get(name)}
        where = f" on {n.plural(int(told['rows']), 'row')}" if "rows" in told else ""
        yield from [f"Beside its source{where}: {_listed(parity)}"] if parity else []
        return
    if (agree := told.pop("agreement", None)) is not None:  # with the teacher
        yield f"{n.percent(agree)} of predictions are the teacher’s"
    told.pop("divergence", None)
    if told and not artifact.note:
        yield _listed(told)


def _listed(figures: Mapping[str, float]) -> str:
    return ", ".join(starmap(_figure, figures.items()))


def _figure(name: str, value: float) -> str:
    words = name.replace("_", " ")
    if 0 <= value <= 1 and any(share in name for share in _SHARES):
        return f"{words} {n.percent(value)}"
    small = 0 < abs(value) < 1e-3
    return f"{words} {n.count(value) if value == int(value) else f'{value:.1e}' if small else n.figure(value)}"
