"""What came of the encoder tickets: scores at every sparsity, controls, transfer matrices, and which findings appear.

What is not finished is blank, so that an experiment under way can be looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from limbeck.core.errors import DataError
from limbeck.core.matrix import Matrix, count_not_below
from limbeck.core.metric import Metric, metric_of
from limbeck.core.record import Record
from limbeck.experiments.bert_tickets_plan import (
    CONTROLS,
    QUICK,
    SOURCES,
    TARGETS,
    Grid,
    Plan,
    control_name,
    transfer_name,
)
from limbeck.experiments.findings import Claim, Difference, over_seeds, sentence
from limbeck.experiments.published import beside
from limbeck.report.figures import floor_score, spread

LEVEL = 0.1  # points above what needs no model that are still its level
QUICK_TITLES = {"sst2": "sentiment", "mrpc": "halves", "stsb": "cut sentences"}
Values = list[float]  # one for each seed


def record_of(plan: Plan) -> Record:
    """The searches of the first target, with everything else as matrices."""
    searches = {name: record for name in plan.targets if (record := plan.searched(name))}
    if not searches:
        raise DataError("no search of a target is finished yet", "let the experiment go on for a while")
    first, found = next(iter(searches.items()))
    arm = found.arms[0].model_copy(update={"title": f"{titles(plan)[first]}, {found.arms[0].title}"})
    common = plan.common() if plan.grid.common else None
    matrices = [_scores(plan), _transfer(plan, plan.grid.sparsity, [0], plan.every)]
    matrices += [_transfer(plan, common, list(plan.seeds), plan.in_common)] if common else []
    matrices += [_controls(plan)] if plan.grid.names("controls") else []
    published = beside("bert_tickets_published.toml", dict(_measured(plan)))
    return found.but(
        arms=[arm],
        matrices=matrices,
        published=[one for one in published if one.ours is not None or not plan.conditions.quick],
        finding=sentence(_claims(plan, common)),
        notes=[*_notes(plan, common), *found.notes],
        knobs={**found.knobs, "reproduce": plan.grid.model_dump()},
    )


# Scores


def score(record: Record, quality: Mapping[str, float]) -> float:
    """Per cent; of a correlation and a share of right tokens too, as the paper prints them."""
    metric = _metric(record)
    factor = 100 if metric.unit == "share" or metric.name in ("pearson", "spearman") else 1
    return factor * quality[metric.name]


def _metric(record: Record) -> Metric:
    """As the paper measures: of masked LM the share of right tokens."""
    return metric_of(record.task, "token_accuracy" if record.task.kind == "mask-fill" else record.metric)


def at_sparsity(plan: Plan, source: str, percent: int, seeds: Sequence[int]) -> Values:
    """Of the rounds of its own search: for a target, TRANSFER(T, T)."""
    record = plan.searched(source, seeds)
    place = percent // plan.grid.step
    runs = record.arms[0].runs if record else []
    return [score(record, run.levels[place].quality) for run in runs if record and len(run.levels) > place]


def _trained(plan: Plan, names: Sequence[str]) -> Values:
    found = [record for name in names if (record := plan.record(name))]
    return [score(record, record.arms[0].runs[0].quality) for record in found]


def _against_own(plan: Plan, source: str, target: str, percent: int, seeds: Sequence[int]) -> Values:
    """TRANSFER(S, T) − TRANSFER(T, T), seed by seed, of the seeds that are done."""
    if source == target:
        return [0.0] * len(at_sparsity(plan, target, percent, seeds))
    found = []
    for seed in seeds:
        theirs = _trained(plan, [transfer_name(source, target, percent, seed)])
        own = at_sparsity(plan, target, percent, [seed])
        found += [theirs[0] - own[0]] if theirs and own else []
    return found


def titles(plan: Plan) -> dict[str, str]:
    return {**SOURCES, **(QUICK_TITLES if plan.conditions.quick and not plan.conditions.data else {})}


# Matrices


def _scores(plan: Plan) -> Matrix:
    names, every = titles(plan), range(0, plan.grid.step * plan.grid.rounds + 1, plan.grid.step)
    records = {name: plan.searched(name) for name in plan.every if name != "start"}
    known = {name: record for name, record in records.items() if record}
    cells = [[at_sparsity(plan, name, percent, plan.seeds) for percent in every] for name in known]
    matching = [plan.matching(name) if name in plan.targets else None for name in known]
    return _matrix(
        cells,
        title="Score at every sparsity",
        rows=[f"{names[name]}, {_metric(record).title}" for name, record in known.items()],
        columns=[f"{percent} %" for percent in every],
        row_title="task",
        ends=[f"{percent} %" if percent else "" for percent in matching],
        end_title="matches up to",
        caption="Mean over the seeds, with their standard deviation where there are several. A ticket matches within "
        "one standard deviation of the mean of all weights, where that is above what needs no model.",
    )


def _transfer(plan: Plan, percent: int, seeds: Sequence[int], sources: Sequence[str]) -> Matrix:
    names = titles(plan)
    cells = [[_against_own(plan, source, target, percent, seeds) for target in plan.targets] for source in sources]
    means = [[fmean(cell) if cell else None for cell in row] for row in cells]
    own = [plan.targets.index(source) if source in plan.targets else None for source in sources]
    seeds_told = "One seed" if len(seeds) == 1 else f"{len(seeds)} seeds"
    return _matrix(
        cells,
        title=f"TRANSFER(S, T) − TRANSFER(T, T) at {percent} %",
        rows=[names[source] for source in sources],
        columns=[names[target] for target in plan.targets],
        row_title="source",
        ends=[count_not_below(row, place) for row, place in zip(means, own, strict=True)],
        end_title="not below 0",
        unit="points",
        diverging=True,
        caption=f"What a target reaches from a source's ticket with a new head, minus what it reaches from its own. "
        f"Tickets have lost {percent} % of the encoder's weights. {seeds_told}. Last: other tasks' cells not below 0."
        + "".join(_at_floor(plan, percent, seeds)),
    )


def _at_floor(plan: Plan, percent: int, seeds: Sequence[int]) -> Iterator[str]:
    """On targets of which no ticket can fall behind their own, which learns nothing either."""
    for target in plan.targets:
        record, own = plan.searched(target, seeds), at_sparsity(plan, target, percent, seeds)
        floor = floor_score(record) if record else None
        if record and own and floor is not None and fmean(own) <= score(record, {_metric(record).name: floor}) + LEVEL:
            yield f" {titles(plan)[target]}'s own is no better than what needs no model: its column says nothing."


def _controls(plan: Plan) -> Matrix:
    names, rows, cells = titles(plan), list[str](), list[list[Values]]()
    chosen, seeds = plan.grid.names("controls"), range(min(plan.grid.control_seeds, plan.conditions.seeds))
    for target in plan.targets:
        for percent in plan.controlled(target):
            rows.append(f"{names[target]} at {percent} %")
            ours = [_trained(plan, [control_name(target, one, percent, seed) for seed in seeds]) for one in chosen]
            cells.append([at_sparsity(plan, target, percent, seeds), *ours])
    return _matrix(
        cells,
        title="Tickets and controls",
        rows=rows,
        columns=["ticket", *(CONTROLS[one] for one in chosen)],
        row_title="task",
        caption="As many weights live in every cell of a row. Re-initialised: all weights but the head are drawn anew, "
        "embeddings too. Shuffled: the pre-trained weights of each layer change places.",
    )


def _matrix(cells: Sequence[Sequence[Values]], **about: object) -> Matrix:
    found = [[spread(cell) for cell in row] for row in cells]
    means = [[one.mean if one else None for one in row] for row in found]
    sds = [[one.sd if one else None for one in row] for row in found]
    known = any(sd is not None for row in sds for sd in row)
    return Matrix.model_validate({**about, "values": means, "spreads": sds if known else []})


# Findings


def _measured(plan: Plan) -> Iterator[tuple[str, Values]]:
    """As the table of published figures names them."""
    for target in plan.targets:
        yield f"{target} dense", at_sparsity(plan, target, 0, plan.seeds)
        if percent := plan.matching(target):
            yield f"{target} matching", [float(percent)]
            yield f"{target} ticket", at_sparsity(plan, target, percent, plan.seeds)
            for control in plan.grid.names("controls"):
                names = [control_name(target, control, percent, seed) for seed in plan.seeds]
                yield f"{target} {control}", _trained(plan, names)
    for source in plan.every if plan.grid.sparsity == 70 else ():
        for target in (target for target in plan.targets if target != source):
            yield f"{source} to {target}", _against_own(plan, source, target, 70, [0])


def _claims(plan: Plan, common: int | None) -> list[Claim]:
    """Differences of means over the targets; of all seeds at the common sparsity, where these are done."""
    one_seed, all_seeds = (plan.grid.sparsity, [0]), (common or 0, list(plan.seeds))

    def claim(words: str, one: str, other: str, over: Sequence[str]) -> Claim:
        for percent, seeds in (all_seeds, one_seed) if common else (one_seed,):
            mine, theirs = (_row(plan, source, over, percent, seeds) for source in (one, other))
            if mine and theirs:
                return Claim(f"{words} at {percent} %", over_seeds(mine, theirs))
        return Claim(f"{words} at {plan.grid.sparsity} %", None)

    far = [target for target in plan.targets if target != "sst2"]
    return [
        Claim("a sparse ticket matches on every task", _least_matching(plan), "% sparse", 0),
        *(_control_claim(plan, control) for control in plan.grid.names("controls")),
        claim("masked LM's ticket transfers best", "mlm", _best_target(plan, common), plan.targets),
        claim("masked LM's ticket beats the pre-trained weights' own", "mlm", "start", plan.targets),
        claim("10,000 rows of SST-2 transfer better than 2,500", "sst2", "sst2-2500", far),
        claim("all rows of SST-2 transfer better than 10,000", "sst2-all", "sst2", far),
    ]


def _best_target(plan: Plan, common: int | None) -> str:
    """Whose ticket serves all targets best, where masked LM's was tried too."""
    seeds = list(plan.seeds)
    if common and _row(plan, "mlm", plan.targets, common, seeds):
        means = {name: _row(plan, name, plan.targets, common, seeds) for name in plan.targets}
    else:
        means = {name: _row(plan, name, plan.targets, plan.grid.sparsity, [0]) for name in plan.targets}
    return max(means, key=lambda name: fmean(means[name])) if all(means.values()) else ""


def _row(plan: Plan, source: str, over: Sequence[str], percent: int, seeds: Sequence[int]) -> Values:
    """A source's mean over targets, for each seed; empty where a cell is missing."""
    cells = [[_against_own(plan, source, target, percent, [seed]) for target in over] for seed in seeds]
    return [fmean(cell[0] for cell in row) for row in cells] if over and all(all(row) for row in cells) else []


def _least_matching(plan: Plan) -> Difference | None:
    """What every target matches; 0 where one matches at none; None where the seeds are not searched yet."""
    if plan.conditions.seeds < 2 or not _all_seeds(plan):
        return None
    least = float(min(plan.matching(target) or 0 for target in plan.targets))
    return Difference(least, least, least)


def _all_seeds(plan: Plan) -> bool:
    records = [plan.searched(target) for target in plan.targets]
    return all(record and len(record.arms[0].runs) == plan.conditions.seeds for record in records)


def _control_claim(plan: Plan, control: str) -> Claim:
    """Ticket − control, means over the targets, paired by seed."""
    matching = plan.grid.controls_at == "matching"
    percents = {target: plan.controlled(target)[0] if matching else plan.grid.sparsity for target in plan.targets}
    ours, theirs = Values(), Values()
    for seed in range(min(plan.grid.control_seeds, plan.conditions.seeds)):
        own = [at_sparsity(plan, target, percent, [seed]) for target, percent in percents.items()]
        other = [_trained(plan, [control_name(target, control, at, seed)]) for target, at in percents.items()]
        if all(own) and all(other):
            ours.append(fmean(one[0] for one in own))
            theirs.append(fmean(one[0] for one in other))
    where = ", ".join(f"{percent} %" for percent in dict.fromkeys(percents.values()))
    return Claim(f"the ticket above {_A[control]} at {where}", over_seeds(ours, theirs) if ours else None)


_A = {"random": "a random mask", "reinit": "the same mask re-initialised", "shuffled": "shuffled weights"}


def _notes(plan: Plan, common: int | None) -> Iterator[str]:
    parts = plan.parts()
    finished = sum(plan.finished(part.name) for part in parts)
    if finished < len(parts):
        yield f"{finished} of {len(parts)} parts are finished: what is missing is blank."
    if "mlm" in plan.others:
        yield (
            "A masked LM has no pooler: its tickets are completed with the pooler's smallest pre-trained weights, so "
            "that all tickets have one sparsity. Its head learns first, with the encoder frozen."
        )
    if "start" in plan.others:
        yield "The pre-trained weights' own ticket keeps the largest of them; it needs no training and no seed."
    if not plan.conditions.model:
        yield "MiniLM was tuned contrastively after its pre-training: the paper's masked-LM row need not appear."
    if plan.grid.common and not common and plan.conditions.seeds > 1 and _all_seeds(plan):
        yield "No sparsity matches on every target, so there is no matrix of all seeds."
    unset = Grid(**(QUICK if plan.conditions.quick else {}))
    for name, value in plan.grid.model_dump().items():
        if value != getattr(unset, name):
            yield f"Set by hand: {name} = {value} ({getattr(unset, name)} unless said)."
    if len(plan.targets) < len(TARGETS) and not plan.conditions.quick:
        yield f"Targets left out: {', '.join(TARGETS[name] for name in TARGETS if name not in plan.targets)}."
