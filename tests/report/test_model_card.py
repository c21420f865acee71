"""The model card and the terminal table say what the Record says."""

from __future__ import annotations

import ast
import io
import re

import sample
import yaml
from rich.console import Console

from limbeck.core.record import Record
from limbeck.report import models as m
from limbeck.report.card import model_card
from limbeck.report.figures import GAP
from limbeck.report.table import markdown_table, terminal_table


def shown(record: Record, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(terminal_table(record))
    return console.file.getvalue()


def test_front_matter_is_yaml(any_record: Record) -> None:
    card = model_card(any_record, 'me/"odd": name')
    front = yaml.safe_load(card.split("---\n")[1])
    assert front["library_name"] == "transformers"
    pipelines = {"mask-fill": "fill-mask", "generate": "text-generation", "translate": "translation"}
    assert front["pipeline_tag"] == pipelines.get(any_record.task.kind, "text-classification")
    assert front["tags"][0] == "limbeck"
    assert ("distillation" in front["tags"]) == (any_record.kind == "distill")
    assert all(isinstance(metric, str) for metric in front.get("metrics", []))


def test_the_snippet_is_python(any_record: Record) -> None:
    card = model_card(any_record, 'me/"odd"')
    code = card.split("```python\n")[1].split("```")[0]
    ast.parse(code)
    assert '"me/\\"odd\\""' in code


def test_a_pair_is_asked_as_a_pair() -> None:
    card = model_card(sample.regression())
    assert '"the text it is compared with"' in card
    assert "logits.item()" in card


def test_results_limits_and_citations(record: Record) -> None:
    card = model_card(record).replace(GAP, " ")
    assert "| 3 layers, distilled | 81.5 ± 0.5 % |" in card
    assert "0.5 * labels + 0.5 * hinton(temperature=4)" in card
    assert "student.layers = 3" in card
    assert "11 label missing" in card
    assert record.citations[0].bibtex in card
    assert "One seed" in model_card(sample.every()["one seed"])
    assert card.count("```") % 2 == 0


def test_hostile_text_stays_text(record: Record) -> None:
    hostile = sample.HOSTILE + " | `tick` ```\n# heading"
    arms = [arm.but(title=hostile, objective=hostile) for arm in record.arms]
    card = model_card(record.but(name=hostile, arms=arms, command=hostile, knobs={"a": hostile}, notes=[hostile]))
    outside = re.sub(r"```.*?```|`[^`\n]*`", "", card, flags=re.S)
    assert "<script" not in outside
    assert "\n# heading" not in outside
    rows = [line for line in card.splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {8}


def test_markdown_table_has_a_row_for_each_arm(record: Record) -> None:
    assert len(markdown_table([record]).splitlines()) == 2 + 3
    both = markdown_table([record, sample.regression()]).splitlines()
    assert len(both) == 2 + 6
    assert both[0].startswith("| run | model | quality |")
    assert "0.861 Pearson correlation" in both[5]


def test_the_terminal_table_fits_80_columns(any_record: Record) -> None:
    text = shown(any_record)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text
    for arm in m.models(any_record):
        assert arm.title.split()[0] in text


def test_the_terminal_table_holds_the_numbers(record: Record) -> None:
    lines = shown(record).splitlines()
    row = next(line for line in lines if "3 layers, distilled" in line)
    assert row.split()[3:] == [
        "81.5",
        "±",
        "0.5",
        "%",
        f"{100 * agreement(record):.1f}",
        "%",
        "17.2",
        "M",
        "69.0",
        "MB",
        "6.40",
        "ms",
        "406",
    ]
    flowed = " ".join(" ".join(lines).split())
    assert record.comparisons[0].sentence in flowed


def agreement(record: Record) -> float:
    runs = record.arm("distilled").runs
    return sum(run.fidelity.agreement for run in runs) / len(runs)


def test_markup_in_a_title_is_not_read_as_markup(record: Record) -> None:
    arms = [arm.but(title="[bold]x[/bold] [/]") for arm in record.arms]
    assert "[bold]x[/bold] [/]" in shown(record.but(arms=arms), width=120)
