"""Errors travel between processes whole; every method has its card."""

import pickle

import pytest

from limbeck.core.card import METHODS, card_of
from limbeck.core.errors import KnobError, LimbeckError
from limbeck.core.knob import Settings
from limbeck.objectives import SoftTargets
from limbeck.recipes import RECIPES


def test_an_error_says_problem_and_remedy_and_survives_pickling():
    error = pickle.loads(pickle.dumps(KnobError("what", "do this")))
    assert isinstance(error, KnobError)
    assert str(error) == "what\n  → do this"
    assert str(LimbeckError("alone")) == "alone"


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_paper_formula_and_knobs_with_sources(name):
    card = METHODS[name]
    assert card.paper.title
    assert card.paper.url.startswith("https://")
    assert card.paper.bibtex().startswith(f"@misc{{{card.paper.key},")
    assert "L = " in card.text
    assert not card.summary.endswith(".")
    for field in card.cls.model_fields.values():
        assert field.description
        assert field.json_schema_extra.get("source")


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_has_a_paper_and_a_summary(name):
    assert RECIPES[name].paper.year > 1990
    assert RECIPES[name].summary


def test_a_card_is_found_by_its_method_and_a_stranger_is_refused():
    assert card_of(SoftTargets()).name == "hinton"
    with pytest.raises(KnobError, match="not a registered method"):
        card_of(Settings())
