"""docs/truncated.md and the tables of pages about words, from Records made up here."""

import importlib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from limbeck.core.record import Arm, Comparison, DataCard, Fidelity, Machine, Record, SeedResult
from limbeck.core.task import TaskInfo

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).resolve().parent.parent / "docs")
    make, truncated = importlib.import_module("make"), importlib.import_module("truncated_page")

PERPLEXITIES = {"none": 15.1, "full": 13.61, "tail-8": 13.92, "tail-50": 13.55, "renorm-8": 16.4, "renorm-50": 14.2}
SVG = "{http://www.w3.org/2000/svg}"


def result(seed: int, perplexity: float, near: float) -> SeedResult:
    quality = {"perplexity": perplexity, "token_ece": 0.021, "accuracy": 0.79 + 0.01 * seed}
    return SeedResult(seed=seed, quality=quality, fidelity=Fidelity(agreement=near, divergence=0.4), seconds=740.0)


def arm(name: str, perplexity: float) -> Arm:
    role = "baseline" if name == "none" else "student"
    runs = [result(seed, perplexity + 0.1 * (seed - 1), 0.7) for seed in range(3)]
    return Arm(name=name, title=f"3 layers, {name}", role=role, runs=runs)


def against(better: str, than: str, metric: str = "perplexity") -> Comparison:
    sentence = f"“{better}” and “{than}” differ in {metric}."
    return Comparison(
        better=better, than=than, metric=metric, difference=-1, low=-2, high=0, seeds=3, rows=9, sentence=sentence
    )


def record(name: str = "imdb_words", **fields) -> Record:
    given = {
        "kind": "benchmark",
        "name": name,
        "created": "2025-11-15T20:55:00Z",
        "command": f"python benchmarks/{name}.py",
        "machine": Machine(system="Linux", processor="a CPU", cores=2, memory_bytes=1, python="3.11", versions={}),
        "seeds": [0, 1, 2],
        "knobs": {},
        "fingerprints": {},
        "task": TaskInfo(kind="mask-fill", vocab_size=30_522),
        "metric": "perplexity",
        "data": DataCard(source="text", columns={}, read=1),
        "arms": [],
    }
    return Record(**(given | fields))


@pytest.fixture
def words() -> Record:
    teacher = SeedResult(seed=0, quality={"perplexity": 12.15, "token_ece": 0.02})
    return record(
        arms=[
            Arm(name="teacher", title="teacher, 6 layers", role="teacher", runs=[teacher]),
            *(arm(name, perplexity) for name, perplexity in PERPLEXITIES.items()),
        ],
        comparisons=[against("full", "none"), against("tail-50", "none"), against("tail-50", "none", "token_ece")],
        figures={"bytes_per_token_8": 21.3, "bytes_per_token_50": 104.2, "seconds_per_epoch_full": 1410.0},
        notes=["A note."],
    )


def cells(page: str, title: str) -> list[str]:
    line = next(line for line in page.splitlines() if line.startswith(f"| {title} |"))
    return [cell.strip().replace("\u00a0", " ") for cell in line.strip("|").split("|")]


def test_the_table_holds_what_the_record_says(words):
    page = truncated.page(words)
    close = ["13.55 ± 0.10", "2.1 ± 0.0 %", "70.0 ± 0.0 %", "80.0 ± 1.0 %", "104", "740"]
    assert cells(page, "3 layers, tail-50") == ["3 layers, tail-50", *close]
    assert cells(page, "3 layers, full")[-2:] == ["–", "1,410"]  # nothing is kept, and the epoch's own time counts
    assert cells(page, "teacher, 6 layers") == ["teacher, 6 layers", "12.15", "2.0 %", "–", "–", "–", "–"]


def test_the_page_explains_the_forms_and_tells_every_comparison(words):
    page = truncated.page(words)
    assert "Which to take: `tail`" in page
    assert "How large a k" not in page
    for comparison in words.comparisons:
        assert f"- {truncated.told(words, comparison)}\n" in page
    assert "“3 layers, tail-50” and “3 layers, none” differ in token_ece." in page
    assert "- A note." in page


def test_the_picture_has_a_mark_for_each_k_and_a_level_for_each_end(words):
    drawn = ElementTree.fromstring(truncated.picture(words))
    plot = drawn.findall(f"{SVG}g")[0]
    tips = {mark.findtext(f"{SVG}title") for mark in plot.iter(f"{SVG}polygon") if mark.find(f"{SVG}title") is not None}
    assert tips == {
        f"{name}, k = {k}: {PERPLEXITIES[f'{form}-{k}']:.2f} ± 0.10"
        for form, name in (("tail", "tail bucket"), ("renorm", "renormalised"))
        for k in (8, 50)
    }
    named = {text.text for text in drawn.iter(f"{SVG}text")}
    assert {"whole softmax", "no teacher", "k = 8", "k = 50", "21.3", "104", "1,410"} <= named
    # a level is drawn once across the plot and once in the legend
    levels = [line.get("class") for line in plot.iter(f"{SVG}line") if "level" in line.get("class", "")]
    assert sorted(levels) == sorted(2 * ["level tone-baseline", "level tone-other-2"])


def test_the_picture_knows_every_colour_it_uses_in_light_and_dark(words):
    drawn = truncated.picture(words)
    style = ElementTree.fromstring(drawn).findtext(f"{SVG}style")
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    assert "light-dark(" not in style
    for name in ("paper", "ink", "soft", "student", "baseline", "other-1", "other-2", "teacher"):
        assert f"--{name}: #" in light
        assert f"--{name}: #" in dark


def test_a_record_without_bytes_and_seconds_still_has_a_page(words):
    bare = words.but(figures={}, arms=[a.but(runs=[r.but(seconds=0.0) for r in a.runs]) for a in words.arms])
    assert cells(truncated.page(bare), "3 layers, tail-8")[-2:] == ["–", "–"]
    ElementTree.fromstring(truncated.picture(bare))


def test_the_page_is_made_when_its_record_is_there(words, tmp_path, monkeypatch):
    monkeypatch.setattr(make, "RESULTS", tmp_path)
    assert "truncated.md" not in {path.name for path in make.pages()}
    assert make.results("imdb_words").startswith("Not measured yet")
    words.save(tmp_path / "imdb_words.json")
    pages = {path.name: text for path, text in make.pages().items()}
    assert pages["truncated.md"] == truncated.page(words)
    assert pages["truncated.svg"] == truncated.picture(words)
    shown = make.results("imdb_words")
    assert "| 3 layers, tail-8 |" in shown
    assert "“3 layers, tail-50” and “3 layers, none” differ in perplexity." in shown
    assert "“3 layers, full”" not in shown  # a task's page tells the default; its own page tells all


def test_figures_of_one_kind_and_limit_share_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(make, "RESULTS", tmp_path)
    assert make.results("word-benchmarks") == "Not measured yet; `make benchmarks` does.\n"
    figures = {"bytes_per_token_bert_k50": 101.0, "bytes_per_token_qwen_k50": 108.5, "bytes_per_token_bert_k128": 250.0}
    limits = {f"{figure}_limit": 280.0 if "128" in figure else 110.0 for figure in figures}
    record("store", figures=figures | limits | {"unlimited": 3.0}).save(tmp_path / "store.json")
    record("cached_words", figures={"time": 1.031, "time_limit": 1.1, "gap": 3e-6, "gap_limit": 1e-4}).save(
        tmp_path / "cached_words.json"
    )
    record("startup", figures={"seconds": 0.2, "seconds_limit": 0.4}).save(tmp_path / "startup.json")
    assert make.results("word-benchmarks").splitlines()[2:] == [
        "| time | 1.03 | 1.1 | `benchmarks/cached_words.py` |",
        "| gap | 3.0e-06 | 0.0001 | `benchmarks/cached_words.py` |",
        "| bytes per token (bert k50, qwen k50) | 101.00 to 108.50 | 110 | `benchmarks/store.py` |",
        "| bytes per token (bert k128) | 250.00 | 280 | `benchmarks/store.py` |",
    ]
    assert make.results("benchmarks").splitlines()[2:] == ["| seconds | 0.20 | 0.4 | `benchmarks/startup.py` |"]
