"""Does literally what CONTRIBUTING says: its objective, as a plugin, in a run."""

import shlex
from pathlib import Path

import pytest

from examples import blocks_of, example_of
from limbeck.core.record import Record
from running import QUICK, finish, start

PAGE = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    [code] = blocks_of(PAGE.read_text(encoding="utf-8"))
    path = tmp_path_factory.mktemp("plugin") / "margin.py"
    path.write_text(code, encoding="utf-8")
    return path


def test_the_card_and_the_flag(plugin):
    said = finish(start("methods", "margin", "--plugin", plugin))
    assert said.code == 0, said.err
    assert "L = (m_student − m_teacher)² / s²" in said.out
    assert "Ada Newcomer (2026). Margins." in said.out
    assert "--objective.margin.scale" in said.out


def test_the_command_of_the_page(plugin, taught, reviews, tmp_path):
    [command] = blocks_of(PAGE.read_text(encoding="utf-8"), "sh")
    places = {"margin.py": plugin, "my-classifier": taught, "reviews.csv": reviews, "runs/small": tmp_path / "small"}
    words = [str(places.get(word, word)) for word in shlex.split(command)[1:]]
    said = finish(start(*words, *QUICK))
    assert said.code == 0, said.err
    record = Record.load(tmp_path / "small")
    assert record.knobs["objective"]["margin"] == {"weight": 0.5, "scale": 2.0}
    assert record.knobs["plugin"].endswith(f"{plugin.parent.name}/{plugin.name}")
    assert not Path(record.knobs["plugin"]).is_absolute()
    assert any("Ada Newcomer (2026). Margins." in citation.text for citation in record.citations)
    assert "margin" in record.arm("distilled").runs[0].curve[-1].terms
    assert "newcomer2026margins" in (tmp_path / "small" / "student" / "README.md").read_text(encoding="utf-8")


def test_its_example_runs_and_limbeck_has_its_class(plugin):
    import limbeck
    from limbeck.core.card import METHODS

    limbeck.load_plugins(str(plugin))
    try:
        exec(example_of(limbeck.Margin.__doc__), {})
    finally:
        METHODS.pop("margin")
