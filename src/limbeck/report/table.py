"""The table of models: what each column holds, and the table in Markdown and in the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from limbeck.core.metric import metrics_of
from limbeck.core.record import Arm, Comparison, Record, SeedResult, Speed
from limbeck.report import chain, summary
from limbeck.report import figures as n
from limbeck.report import models as m
from limbeck.report.published import table_of, terminal_published
from limbeck.report.warnings import warnings

BRIEF = ("quality", "agreement", "parameters", "bytes", "p50", "throughput")
COMPARED = ("shape", "start", "quality", "gain", "verdict", "agreement", "parameters", "bytes", "p50", "training")
# Models whose predictions are decoded texts: in short, and as the table of Kim and Rush (2016) has them.
DECODED = ("quality", "bleu_beam", "p_best", "parameters", "bytes", "throughput")
PAPER = (
    *("quality", "bleu_beam", "beam_gain", "chrf", "perplexity", "perplexity_of_teacher", "p_best", "agreement"),
    *("parameters", "bytes", "p50", "throughput"),
)
TRANSLATED = ("quality", "bleu_beam", "smaller", "faster", "bytes", "p50", "throughput")  # of which a file was made
EXPORTED = ("quality", "smaller", "faster", "change", "agreement", "parameters", "bytes", "p50", "throughput")
CHAIN = ("smaller", "faster", "quality", "change", "bytes", "parameters", "p50", "training")
BENCH = ("smaller", "faster", "quality", "bytes", "load", "peak", "p50", "interval", "p95", "p99", "throughput")
ONLY_BENCH = ("load", "interval", "p99")
COSTS = ("shape", "start", "parameters", "bytes", "p50", "throughput")

_SHORT = {
    "agrees with teacher": "agrees",
    "parameters": "params",
    "sentences/s": "sent/s",
    "over no teacher": "gain (interval)",
}
# Columns that a narrow terminal has no room for, the first to go first. Models are never cut nor folded for them.
_FIRST_TO_GO = (
    *("start", "interval", "throughput", "p99", "peak", "load", "p95", "agreement", "parameters", "shape"),
    *("training", "change", "bytes", "p50", "verdict", "p_best", "bleu_beam", "gain"),
)
_OF_TRANSLATORS = (
    *("start", "shape", "verdict", "gain", "p_best", "parameters", "bytes", "bleu_beam", "throughput", "p50"),
    *("faster", "smaller"),  # which the sentence below the table tells too
)
_OF_SOME = ("gain", "verdict", "change", "smaller", "faster", "training")  # which some models cannot have
WIDEST = 24  # characters of a name before it is folded, where nothing else is left to go
FLOOR = "floor"


@dataclass(frozen=True)
class Cell:
    text: str = n.NOTHING
    value: float | None = None  # what sorting compares


@dataclass(frozen=True)
class Column:
    key: str
    title: str
    cell: Callable[[Record, Arm], Cell]
    hint: str = ""
    in_words: bool = False

    def holds(self, record: Record, arm: Arm) -> bool:
        cell = self.cell(record, arm)
        return cell.value is not None or (self.in_words and bool(cell.text))


def table_rows(record: Record) -> list[Arm]:
    """Every model; then what needs none, in the shape of one."""
    floor = record.floor
    runs = [SeedResult(seed=0, quality=floor.quality)] if floor else []
    row = [Arm(name=FLOOR, title=floor.title, role="baseline", runs=runs)] if floor else []
    return [*m.models(record), *row]


def cells_of(record: Record, arm: Arm, shown: Sequence[Column]) -> list[Cell]:
    """What teacher and floor cannot have is blank: a dash would read as a figure that is missing."""
    of_floor, of_teacher = arm.name == FLOOR, arm.role == "teacher"

    def cell(column: Column) -> Cell:
        found = column.cell(record, arm)
        missing = found.text == n.NOTHING and (of_floor or of_teacher or column.key in _OF_SOME)
        return Cell("") if missing or (of_floor and column.key == "seeds") else found

    return list(map(cell, shown))


def brief(records: Sequence[Record]) -> tuple[str, ...]:
    """The columns that a README or a terminal has room for."""
    kind = records[0].kind if len(records) == 1 else ""
    if kind in ("bench", "compress"):
        return BENCH if kind == "bench" else CHAIN
    if n.all_decoded(records):
        exported = len(records) == 1 and m.is_frontier(records[0])
        return (*DECODED, "shape", "gain", "verdict") if kind == "compare" else TRANSLATED if exported else DECODED
    return COMPARED if kind == "compare" else EXPORTED if any(map(m.is_frontier, records)) else BRIEF


def full(record: Record) -> tuple[str, ...]:
    """The columns of a record's own card; most pages have the same."""
    if not n.units(record).decoded or record.kind in ("bench", "compress"):
        return brief([record])
    return (*PAPER, "shape", "gain", "verdict") if record.kind == "compare" else (*PAPER, "smaller", "faster", "change")


def on_page(record: Record) -> tuple[str, ...]:
    """As many columns as a page is wide; what a translator's has no room for stands among all metrics."""
    wide = n.units(record).decoded and record.kind not in ("bench", "compress", "compare")
    exported = (*TRANSLATED, "chrf", "change", "agreement", "parameters")
    return exported if wide and m.is_frontier(record) else full(record)


def halves(record: Record) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The full columns of a comparison of translators, too many for a page: their quality, and their costs."""
    return tuple(key for key in full(record) if key not in COSTS), COSTS


def columns(records: Sequence[Record], keys: Sequence[str] = ()) -> list[Column]:
    """The columns of these keys, or all, that hold at least one value. Translators have the paper's instead of all."""
    decoded = n.all_decoded(records)
    kinds = {record.kind for record in records}
    keys = keys or (brief(records) if kinds in ({"bench"}, {"compress"}) else PAPER if decoded else ())
    ratios = [
        _gained("smaller", chain.smaller, "how many times smaller than the first model"),
        _gained("faster", chain.faster, "how many times faster than the first model"),
    ]
    first = kinds <= {"bench", "compress"}  # which are about nothing else
    possible = [
        *(ratios if first else ()),
        Column("shape", "shape", _shape, "layers and width"),
        Column("start", "starts from", _start, "where its weights come from", in_words=True),
        _quality_column(records),
        *(_paper_columns(records) if decoded else ()),
        *(() if first else ratios),
        *_other_columns(records),
    ]
    rows = [(record, model) for record in records for model in m.models(record)]
    wanted = keys or [column.key for column in possible if column.key not in ONLY_BENCH]
    return [column for column in possible if column.key in wanted and any(column.holds(*row) for row in rows)]


def _gained(name: str, value: Callable[[Record, Arm], float | None], hint: str) -> Column:
    """Against the reference, which has no cell of its own."""

    def cell(record: Record, arm: Arm) -> Cell:
        return _cell(value(record, arm) if m.is_frontier(record) else None, n.times)

    return Column(name, f"× {name}", cell, hint)


def _quality_column(records: Sequence[Record]) -> Column:
    """The primary metric; where it is not the same for all, each cell names its own."""
    metrics = [n.primary(record) for record in records]
    title, meaning = n.in_common([m.title for m in metrics], ""), n.in_common([m.meaning for m in metrics], "")
    if not title:
        return Column("quality", "quality", _named_quality, meaning)
    greedy = title == "BLEU" and n.all_decoded(records)
    return Column("quality", f"{title} K=1" if greedy else title, _quality, meaning)


def _paper_columns(records: Sequence[Record]) -> list[Column]:
    """The metrics with a column of their own, in the paper's order; BLEU of a beam names its width, where it is one."""
    beam, known = n.beam_of(records), metrics_of(records[0].task)
    titles = {"bleu_beam": f"BLEU K={beam}"} if beam else {}
    return [
        Column(key, titles.get(key, known[key].column), partial(_quality, name=key), known[key].meaning)
        for key in PAPER
        if key in known
    ]


def _other_columns(records: Sequence[Record]) -> list[Column]:
    rate = f"{n.timed_unit(records)}s/s"
    one = n.timed(records) + (f", {n.decoding(records)}" if n.all_decoded(records) else "")
    agree = n.in_common(
        [n.metric_named(record, "agreement").meaning for record in records],
        "share of predictions that are the teacher’s",
    )
    in_all, stepwise = m.counted_in_all(records), any(one.step for record in records for one in record.artifacts)
    size = ("in all", "every file needed to answer") if in_all else ("on disk", "the weights")
    return [
        Column("change", "change", _change, "against the model it comes from, and the interval of the paired test"),
        Column("gain", "over no teacher", _gain, "than the same student trained without a teacher, and the interval"),
        Column("verdict", "verdict", _verdict, "an interval that holds 0 leaves it unclear"),
        Column("agreement", "agrees with teacher", _agreement, agree),
        Column("parameters", "parameters", lambda _, arm: _cell(arm.size.parameters if arm.size else None, n.millions)),
        Column("bytes", size[0], lambda _, arm: _cell(m.bytes_of(arm, in_all) or None, n.megabytes), size[1]),
        _speed("load", "first answer", lambda speed: speed.load_ms, n.milliseconds, "from the start of the process"),
        _speed("p50", "p50", lambda speed: speed.p50_ms, n.milliseconds, f"for one {one}, median"),
        _speed("p95", "p95", lambda speed: speed.p95_ms, n.milliseconds, f"for one {one}, 95 of 100 take no longer"),
        _speed("p99", "p99", lambda speed: speed.p99_ms, n.milliseconds, f"for one {one}, 99 of 100 take no longer"),
        Column("interval", "p50, 95 % interval", _interval, "of the median, over the turns"),
        _speed("throughput", rate, lambda speed: speed.sentences_per_second, n.figure, f"each a {one}, in batches"),
        _speed("peak", "peak memory", lambda speed: speed.peak_bytes, n.megabytes, "of the whole process"),
        Column("training", "took" if stepwise else "training", _seconds, "of one seed"),
        Column("seeds", "seeds", lambda _, arm: _cell(len(arm.runs) or None, n.count)),
    ]


def _speed(key: str, title: str, value: Callable[[Speed], float], write: Callable[[float], str], hint: str) -> Column:
    """What was not measured is 0."""
    return Column(key, title, lambda _, arm: _cell(value(arm.speed) or None if arm.speed else None, write), hint)


def _interval(_: Record, arm: Arm) -> Cell:
    speed = arm.speed
    return (
        Cell(f"{n.figure(speed.low_ms)} to {n.milliseconds(speed.high_ms)}", speed.high_ms - speed.low_ms)
        if speed and speed.high_ms
        else Cell()
    )


def _seconds(_: Record, arm: Arm) -> Cell:
    return _mean(n.seconds(arm), n.duration)


def _change(record: Record, arm: Arm) -> Cell:
    found = chain.change(record, arm) if record.kind == "compress" or m.is_frontier(record) else None
    if found is None:
        return Cell()
    difference, paired = found
    return Cell(n.change_text(record, paired) if paired else n.difference(n.primary(record), difference), difference)


def _cell(value: float | None, write: Callable[[float], str]) -> Cell:
    return Cell() if value is None else Cell(write(value), value)


def _mean(spread: n.Spread | None, write: Callable[[float], str]) -> Cell:
    return _cell(spread.mean if spread else None, write)


def _quality(record: Record, arm: Arm, name: str = "") -> Cell:
    metric = n.metric_named(record, name or record.metric)
    figure = n.quality(arm, metric.name)
    return Cell(n.score(metric, figure.mean, figure.sd), figure.mean) if figure else Cell()


def _named_quality(record: Record, arm: Arm) -> Cell:
    cell = _quality(record, arm)
    return cell if cell.value is None else Cell(f"{cell.text} {n.primary(record).title}", cell.value)


def _agreement(record: Record, arm: Arm) -> Cell:
    return _mean(n.fidelity(arm, "agreement"), partial(n.score, n.metric_named(record, "agreement")))


def _shape(record: Record, arm: Arm) -> Cell:
    if record.kind != "compare" or arm.shape is None:
        return Cell()
    if arm.shape.text:
        return Cell(arm.shape.text, arm.shape.layers)
    deep = n.layers(arm.shape).replace(" ", n.GAP)
    return Cell(f"{deep}{n.GAP}×{n.GAP}{arm.shape.hidden}", arm.shape.layers + arm.shape.decoder_layers)


def _start(record: Record, arm: Arm) -> Cell:
    return Cell(arm.start if record.kind == "compare" else "")


def _gain(record: Record, arm: Arm) -> Cell:
    gain = n.gain_of(record, arm)
    return Cell(n.change_text(record, gain), gain.difference) if gain else Cell()


def _verdict(record: Record, arm: Arm) -> Cell:
    gain = n.gain_of(record, arm)
    if gain is None:
        return Cell("baseline") if any(arm.name == c.than for c in record.comparisons) else Cell()
    told = verdict(record, gain)
    return Cell("at the floor" if told != "worse" and n.at_floor(record, arm) else told, gain.difference)


def verdict(record: Record, gain: Comparison) -> str:
    higher = n.metric_named(record, gain.metric).higher_is_better
    low, high = (gain.low, gain.high) if higher else (-gain.high, -gain.low)
    return "better" if low > 0 else "worse" if high < 0 else "unclear"


def markdown_table(records: Sequence[Record], keys: Sequence[str] = ()) -> str:
    """One row for each model of each record, with the columns of these keys or those that a README has room for."""
    many = len(records) > 1
    shown = columns(records, keys or brief(records))
    names = ["run", "model"] if many else ["model"]
    head = [*names, *(column.title for column in shown)]
    rows = [
        [*([record.name] if many else []), arm.title, *(cell.text for cell in cells_of(record, arm, shown))]
        for record in records
        for arm in table_rows(record)
    ]
    rules = ["---"] * len(names) + ["---" if column.in_words else "---:" for column in shown]
    escaped = [[escape_markdown(text).replace("|", "\\|") for text in row] for row in (head, *rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (escaped[0], rules, *escaped[1:]))


def escape_markdown(text: str) -> str:
    """Text from outside as Markdown that means only itself: no tags, no emphasis, one line."""
    for sign in "\\`*_[]":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("<", "&lt;").replace("\r", " ").replace("\n", " ")


def terminal_table(record: Record) -> RenderableType:
    """All models side by side; it fits 80 columns. Text is never read as markup."""
    results = [
        summary.conclusion(record),
        *summary.gap_sentences(record),
    ]
    found = warnings(record)
    doubts = [*(one.text for one in found if not one.serious), summary.joint_confidence(record)]
    doubts += [*summary.caveats(record), summary.speed_inputs(record)]
    lines = [Text(summary.headline(record), style="bold")]
    lines += [Text(f"! {one.text}", style="bold red") for one in found if one.serious]
    lines += [Text(sentence) for sentence in results if sentence]
    lines += [Text(f"· {sentence}", style="dim") for sentence in dict.fromkeys(doubts) if sentence]
    beside = table_of(record)
    published: list[RenderableType] = [terminal_published(beside), Text("")] if beside else []
    return Padding(Group(*published, FittingTable(record), Text(""), *lines), (1, 1, 0, 1))


@dataclass(frozen=True)
class FittingTable:
    """The table with as many columns as the terminal is wide enough for, beside names that stay whole."""

    record: Record

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        def fits(table: Table) -> bool:
            return Measurement.get(console, options.update(max_width=1000), table).maximum <= options.max_width

        record, keys = self.record, list(brief([self.record]))
        translators = n.units(record).decoded and record.kind not in ("bench", "compress")
        going = _OF_TRANSLATORS if translators else _FIRST_TO_GO
        kept = "" if translators else "gain" if record.kind == "compare" else "p50"
        choices = [keys]
        for key in going:
            if key in keys and key != kept:
                choices.append([other for other in choices[-1] if other != key])
        tables = (_table(record, choice, widest) for widest in (None, WIDEST) for choice in choices)
        yield next(filter(fits, tables), _table(record, choices[-1], WIDEST))


def _table(record: Record, keys: Sequence[str], widest: int | None) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", collapse_padding=True)
    table.add_column("", overflow="fold", min_width=10, max_width=widest)
    shown = columns([record], keys)
    for column in shown:
        title = _SHORT.get(column.title, column.title.removesuffix(" correlation"))
        table.add_column(title, justify="left" if column.in_words else "right", no_wrap=True)
    final = m.final_of(record)
    longest = max((len(arm.title) for arm in m.models(record)), default=0)
    for arm in table_rows(record):
        if record.kind != "compress" and m.is_between(record, arm):
            continue  # the page has them
        cells = [Text(cell.text.replace(n.GAP, " ")) for cell in cells_of(record, arm, shown)]
        lead = final is not None and arm.name == final.name and len(m.models(record)) > 1
        style = "dim" if arm.name == FLOOR else "bold" if lead and record.kind != "bench" else ""
        # The floor makes no room for itself: models' names do.
        name = "\n".join(textwrap.wrap(arm.title, max(longest, WIDEST))) if arm.name == FLOOR else arm.title
        table.add_row(Text(name), *cells, style=style)
    return table
