"""What a method's docstring teaches: every example runs."""

from inspect import getdoc

import pytest
import torch

import limbeck
from examples import example_of
from limbeck.core.card import METHODS


@pytest.mark.parametrize("name", METHODS)
def test_every_method_teaches_in_its_docstring(name):
    card = METHODS[name]
    text = getdoc(card.cls)
    assert card.text in text  # what it is, its formula, what to mind
    assert card.paper.title in text
    assert not text.startswith(card.text)  # a line of its own, which editors show
    code = example_of(text)
    assert f"limbeck.{card.cls.__name__}(" in code
    torch.manual_seed(0)
    exec(code, {})
    *before, last = code.strip().splitlines()
    scope = {}
    exec("\n".join(before), scope)
    assert torch.isfinite(eval(last.split("  #")[0], scope))  # its last line is a loss


def test_every_registered_class_is_a_name_of_the_package():
    assert {card.cls.__name__ for card in METHODS.values()} <= set(dir(limbeck))
    assert all(getattr(limbeck, card.cls.__name__) is card.cls for card in METHODS.values())
