"""Writes the pages that follow from the code and the Records, and the measured parts of README and other pages.

.venv/bin/python docs/make.py           # write
.venv/bin/python docs/make.py --check   # say what is out of date, and fail
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import fmean, stdev

from choosing_page import MEASURED
from choosing_page import page as choosing_page
from encoders_page import KNOBS, SETS, order
from encoders_page import page as encoders_page
from few_labels_page import page as few_labels_page
from few_labels_page import picture as few_labels_picture
from multi30k_page import SETS as TRANSLATED
from multi30k_page import page as multi30k_page
from truncated_page import page as truncated_page
from truncated_page import picture as truncated_picture
from truncated_page import told

from limbeck.core.card import METHODS, Card
from limbeck.core.compress import PASSES
from limbeck.core.files import write_text
from limbeck.core.knob import TABLES, Settings, fields_of
from limbeck.core.matrix import Matrix
from limbeck.core.record import Arm, Level, Record
from limbeck.core.task import TaskInfo
from limbeck.jobs.compare_settings import CompareRun
from limbeck.jobs.compress_settings import CompressRun
from limbeck.jobs.settings import CacheRun, Run, TrainRun
from limbeck.jobs.ticket_settings import TicketRun
from limbeck.recipes import RECIPES
from limbeck.recipes.recipe import Recipe, from_table
from limbeck.report.frontier import picture as frontier_picture
from limbeck.report.heatmap import heatmap_of
from limbeck.report.published import markdown_published, table_of
from limbeck.report.summary import conclusion, gap_sentences
from limbeck.report.table import markdown_table

HOME = Path(__file__).resolve().parent.parent
RESULTS = HOME / "benchmarks" / "results"
VERBS: dict[str, type[Settings]] = {
    "distill": Run,
    "compare": CompareRun,
    "train": TrainRun,
    "cache": CacheRun,
}
TRUNCATED = "imdb_words"  # the Record of docs/truncated.md
SMALL = "small_frontier"  # the Record of the README's picture and table
OF_WORDS = ("cached_words", "chunked", "store")  # benchmarks with a table of their own
DEFAULT = "tail-50"  # of many students, the one whose comparisons a task's page tells
STORIES = {  # the Record of a task → what it is about, in the README
    "rotten_tomatoes": "Classes (Rotten Tomatoes)",
    "imdb_words": "Masked words (IMDB)",
    "wikitext_words": "Next words (WikiText-2)",
    "multi30k": "Translation (Multi30k, English to German)",
}
_HEAD = ("| knob | default | what it does | source |", "|---|---|---|---|")
_OF = re.compile(r"(?P<what>.+)_(?P<source>[^_]+_k\d+)")  # bytes_per_token_bert_k50
MARKED = re.compile(r"(<!-- (?P<name>[\w-]+): made by docs/make.py -->\n).*?(<!-- end -->)", re.S)


def methods_page() -> str:
    lines = ["# Methods", "", "Made from the code; `limbeck methods NAME` shows the same.", "", "## Recipes", ""]
    lines += ["| recipe | what it does | paper |", "|---|---|---|"]
    lines += [f"| `{r.name}` | {r.summary} | [{r.paper.key}]({r.paper.url}) |" for r in RECIPES.values()]
    for file in dict.fromkeys(plan.text for plan in RECIPES.values()):  # some files hold two
        plans = [plan for plan in RECIPES.values() if plan.text == file]
        lines += ["", f"### {', '.join(plan.name for plan in plans)}", "", _prose(file), ""]
        for plan in plans:
            lines += [*_stages(plan), ""]
    lines += ["", "## Objectives", *_cards(METHODS.values(), "objective.")]
    lines += [
        "",
        "## Passes",
        "",
        "For `limbeck compress --passes`.",
        *_cards((PASSES[name] for name in sorted(PASSES)), ""),
    ]
    return "\n".join(lines) + "\n"


def _cards(cards: Iterable[Card], place: str) -> Iterator[str]:
    for card in cards:
        yield from ("", f"### {card.name}", "", f"`{card.cls.__name__}` in Python.", "", _prose(card.text), "")
        yield from (str(card.paper), "", *knob_table(card.cls, f"{place}{card.name}."))


def _prose(text: str) -> str:
    """A name in <angles> would be taken for a tag."""
    return text.replace("<", "&lt;")


def _stages(plan: Recipe) -> list[str]:
    task = TaskInfo(kind=plan.tasks[0], labels=("0", "1"))
    stages = {name: str(from_table(stage.objective)) for name, stage in plan.stages(task).items()}
    lines = [f"`--recipe {plan.name}`, for --task {', '.join(plan.tasks)}:", ""]
    lines += [f"- {name}: `{objective}`" for name, objective in {**stages, "main": str(plan.objective(task))}.items()]
    knobs = [f"`{room}.{name} = {value}`" for room, table in plan.defaults.items() for name, value in table.items()]
    return [*lines, *([f"- sets {', '.join(knobs)}"] if knobs else [])]


def knobs_page() -> str:
    lines = ["# Knobs", "", "Every knob is a flag (`--student.layers 4`) and a line in a run file. Made from the code."]
    for verb, schema in VERBS.items():
        lines += ["", f"## limbeck {verb}", "", *knob_table(schema, "")]
        for name, field in schema.model_fields.items():
            if isinstance(field.annotation, type) and issubclass(field.annotation, Settings):
                lines += ["", f"### {name}", "", *knob_table(field.annotation, f"{name}.", field.default)]
        for name, table in sorted(TABLES.items()):
            place = f"{name}.NAME." if table.by_name else f"{name}."
            told = f"{table.help[0].upper()}{table.help[1:]}. For --task {', '.join(table.kinds)}."
            lines += ["", f"### {name}", "", told, "", *knob_table(table.cls, place)]
    own = [name for name in TicketRun.model_fields if name not in TrainRun.model_fields]
    rows = [row for row in _knob_rows(TicketRun, "") if row.split("`")[1] in own]
    lines += ["", "## limbeck tickets", "", "Beside those of `limbeck train`, some with other defaults.", ""]
    lines += [*_HEAD, *rows, *_other_defaults(TicketRun, TrainRun)]
    own = [name for name in CompressRun.model_fields if name not in Run.model_fields or name == "teacher"]
    rows = [row for row in _knob_rows(CompressRun, "") if row.split("`")[1] in own]
    lines += ["", "## limbeck compress", "", "Beside those of `limbeck distill`; passes have theirs in methods.md.", ""]
    return "\n".join([*lines, *_HEAD, *rows]) + "\n"


def _other_defaults(schema: type[Settings], base: type[Settings]) -> Iterator[str]:
    """Rows of the knobs in tables that a verb has alone, or with another default than the verb it comes from."""
    for name, field in schema.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Settings):
            other = base.model_fields.get(name)
            known = list(_knob_rows(field.annotation, f"{name}.", other.default)) if other else []
            rows = _knob_rows(field.annotation, f"{name}.", field.default)
            yield from (row for row in rows if row not in known)


def knob_table(schema: type[Settings], prefix: str, default: object = None) -> list[str]:
    rows = list(_knob_rows(schema, prefix, default))
    return [*_HEAD, *rows] if rows else ["No knobs."]


def _knob_rows(schema: type[Settings], prefix: str, default: object = None) -> Iterator[str]:
    """With the defaults of `default`, where a verb has its own."""
    for name, field in fields_of(schema, default).items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Settings):
            continue
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        text = (field.description or "").replace("|", "\\|")
        value = str(field.default).replace("|", "\\|")
        yield f"| `{prefix}{name}` | {f'`{value}`' if value else ''} | {text} | {extra.get('source', '')} |"


def results(name: str) -> str:
    """A marked part of a page, from the Record of the same name, or from those of several benchmarks."""
    found = sorted(path.stem for path in RESULTS.glob("*.json"))
    if name == "benchmarks":
        return limits_table(stem for stem in found if stem not in OF_WORDS)
    if name == "word-benchmarks":
        return limits_table(stem for stem in found if stem in OF_WORDS)
    if name == "stories":
        return stories({stem: title for stem, title in STORIES.items() if stem in found})
    if name not in found:
        return f"Not measured yet; `benchmarks/{name}.py` does.\n"
    return measured(Record.load(RESULTS / f"{name}.json"))


def stories(titles: Mapping[str, str]) -> str:
    """What the teacher gave, one sentence for each Record."""
    said = {title: _gain_sentence(Record.load(RESULTS / f"{stem}.json")) for stem, title in titles.items()}
    return "".join(f"- {title}: {sentence}\n" for title, sentence in said.items()) or "Not measured yet.\n"


def _gain_sentence(record: Record) -> str:
    default = next((c for c in record.comparisons if c.better == DEFAULT and c.metric == record.metric), None)
    return told(record, default) if default else conclusion(record)


def measured(record: Record) -> str:
    """The arms and what their comparison says; of many comparisons those of the default, by the main metric."""
    default = [c for c in record.comparisons if c.better == DEFAULT and c.metric == record.metric]
    said = "\n\n".join(told(record, comparison) for comparison in default or record.comparisons)
    if record.published and (table := table_of(record)):
        more = [matrix_table(matrix) for matrix in record.matrices]
        if not more and any(run.levels for arm in record.arms for run in arm.runs):
            more = [sizes_table(record)]
        return "\n\n".join([markdown_published(table), *more, record.finding]) + "\n"
    if record.kind == "compare":
        said = order(record) or next(iter(gap_sentences(record)), "")
    return f"{markdown_table([record])}\n\n{said}".rstrip() + "\n"


def matrix_table(matrix: Matrix) -> str:
    """Title, cells with their spread, and what they are."""
    shown = heatmap_of(matrix)
    ends = [shown.end_title] if shown.end_title else []
    head = [shown.corner, *shown.columns, *ends]
    lines = [f"{shown.title}:", "", f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    for name, cells, end in shown.rows:
        texts = [f"{cell.text} {cell.spread}".strip() for cell in cells]
        lines.append(f"| {' | '.join([name, *texts, *([end] if ends else [])])} |")
    return "\n".join([*lines, "", shown.caption])


def sizes_table(record: Record) -> str:
    """Of a search for a ticket: at each size that every arm was trained at, test quality where training stops early and
    the iteration that it stops at, mean ± one standard deviation over the seeds."""
    arms = [{_left(level): place for place, level in enumerate(arm.runs[0].levels)} for arm in record.arms]
    shared = [left for left in arms[0] if all(left in arm or left == "100 %" for arm in arms)]
    lines = [f"| weights left | {' | '.join(arm.title for arm in record.arms)} |", "|---:|" + "---:|" * len(arms)]
    for left in shared:
        cells = [
            _stopped(arm, places[left], record.metric) if left in places else ""
            for arm, places in zip(record.arms, arms, strict=True)
        ]
        lines.append(f"| {left} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _left(level: Level) -> str:
    return f"{100 * level.share:.3g} %"


def _stopped(arm: Arm, place: int, metric: str) -> str:
    """97.95 ± 0.10 %, at 3,100 ± 200."""
    found = [run.levels[place] for run in arm.runs]
    stops = [level.stopped.step if level.stopped else level.best_step for level in found]
    quality = [100 * (level.stopped.quality if level.stopped else level.quality)[metric] for level in found]
    spread = [
        f" ± {stdev(values):{form}}" if len(values) > 1 else "" for values, form in ((quality, ".2f"), (stops, ",.0f"))
    ]
    return f"{fmean(quality):.2f}{spread[0]} %, at {fmean(stops):,.0f}{spread[1]}"


def limits_table(names: Iterable[str]) -> str:
    """The figures that a benchmark holds to a limit; those of one kind under one limit share a line."""
    lines = ["| what | measured | limit | command |", "|---|---:|---:|---|"]
    for record in (Record.load(RESULTS / f"{name}.json") for name in names):
        for (what, limit), values in limited(record).items():
            sources = ", ".join(source.replace("_", " ") for source in values if source)
            shown = what.replace("_", " ") + (f" ({sources})" if sources else "")
            ends = dict.fromkeys(map(short, (min(values.values()), max(values.values()))))
            lines.append(f"| {shown} | {' to '.join(ends)} | {limit:g} | `benchmarks/{record.name}.py` |")
    return "\n".join(lines if len(lines) > 2 else ["Not measured yet; `make benchmarks` does."]) + "\n"


def short(value: float) -> str:
    return f"{value:.2f}" if value >= 0.01 or value == 0 else f"{value:.1e}"


def limited(record: Record) -> dict[tuple[str, float], dict[str, float]]:
    """(what is measured, its limit) → of what → the figure."""
    found: dict[tuple[str, float], dict[str, float]] = {}
    for figure, value in record.figures.items():
        limit = record.figures.get(f"{figure}_limit")
        if limit is not None:
            parts = _OF.fullmatch(figure)
            what, source = (parts["what"], parts["source"]) if parts else (figure, "")
            found.setdefault((what, limit), {})[source] = value
    return found


def with_results(page: Path) -> str:
    """A page with its marked parts made again."""
    text = page.read_text(encoding="utf-8")
    return MARKED.sub(lambda found: found[1] + results(found["name"]) + found[3], text)


def pages() -> dict[Path, str]:
    docs = HOME / "docs"
    made = {docs / "methods.md": methods_page(), docs / "knobs.md": knobs_page()}
    chosen = {one.record for several in MEASURED.values() for one in several}
    made[docs / "choosing.md"] = choosing_page({name: r for name in chosen if (r := _kept(name))})
    if compared := {name: r for name in (*SETS, *KNOBS) if (r := _kept(f"encoders_{name}"))}:
        made[docs / "encoders.md"] = encoders_page(compared)
    if translated := {name: r for name in TRANSLATED if (r := _kept(name))}:
        made[docs / "multi30k.md"] = multi30k_page(translated, _kept("translating"))
    if record := _kept(TRUNCATED):
        made |= {docs / "truncated.md": truncated_page(record), docs / "truncated.svg": truncated_picture(record)}
    if few := {path.stem: Record.load(path) for path in RESULTS.glob("few_labels_*.json")}:
        made |= {docs / "few-labels.md": few_labels_page(few), docs / "few-labels.svg": few_labels_picture(few)}
    if record := _kept(SMALL):
        made[docs / "frontier.svg"] = frontier_picture([record])
    by_hand = [page for page in (HOME / "README.md", *sorted(docs.glob("*.md"))) if page not in made]
    return made | {page: with_results(page) for page in by_hand if MARKED.search(page.read_text(encoding="utf-8"))}


def _kept(name: str) -> Record | None:
    path = RESULTS / f"{name}.json"
    return Record.load(path) if path.exists() else None


def main() -> None:
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv:
        sys.exit(f"out of date, run docs/make.py: {', '.join(path.name for path in stale)}" if stale else 0)
    for path, text in pages().items():
        write_text(path, text)


if __name__ == "__main__":
    main()
