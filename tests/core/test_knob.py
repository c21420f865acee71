"""A setting is declared once, with its limits, and a slip is refused in the user's words."""

from typing import Literal

import pytest

from limbeck.core.errors import KnobError
from limbeck.core.knob import Settings, knob


class Inner(Settings):
    size: int = knob(2, "how large", at_least=1)
    rate: float = knob(0.5, "how fast", above=0, below=1)


class Outer(Settings):
    name: str = knob("x", "what it is called", source="somebody", short="--name")
    way: Literal["up", "down"] = knob("up", "where to")
    inner: Inner = knob(Inner(), "the rest")


def test_values_are_checked_and_read_from_text():
    made = Outer(inner={"size": "7", "rate": "0.25"}, way="down")
    assert made.inner == Inner(size=7, rate=0.25)
    assert made.but(name="y").inner is not None
    assert made.but(name="y") == Outer(name="y", inner=Inner(size=7, rate=0.25), way="down")


@pytest.mark.parametrize(
    ("values", "problem", "remedy"),
    [
        ({"nam": 1}, "there is no knob 'nam'", "did you mean 'name'"),
        ({"inner": {"sise": 1}}, "there is no knob 'inner.sise'", "did you mean 'size'.* known here: size, rate"),
        ({"inner": {"size": 0}}, "knob 'inner.size' cannot be 0", "greater than or equal to 1"),
        ({"inner": {"rate": 1}}, "knob 'inner.rate' cannot be 1", "less than 1"),
        ({"inner": {"rate": "inf"}}, "knob 'inner.rate' cannot be 'inf'", "finite"),
        ({"inner": {"rate": float("nan")}}, "knob 'inner.rate' cannot be nan", "it should be"),
        ({"way": "left"}, "knob 'way' cannot be 'left'", "'up' or 'down'"),
        ({"inner": {"size": "two"}}, "knob 'inner.size' cannot be 'two'", "a valid integer"),
    ],
)
def test_a_slip_names_the_knob_and_the_remedy(values, problem, remedy):
    with pytest.raises(KnobError, match=f"{problem}\n  → .*{remedy}"):
        Outer(**values)


def test_settings_within_a_table_say_so():
    assert Inner.of({"size": "3"}, within="some.table") == Inner(size=3)
    with pytest.raises(KnobError, match=r"knob 'some\.table\.size' cannot be 0"):
        Inner.of({"size": 0}, within="some.table")


def test_settings_are_frozen_and_a_change_is_checked():
    made = Inner()
    with pytest.raises(Exception, match="frozen"):
        made.size = 3
    with pytest.raises(KnobError, match="'size' cannot be -1"):
        made.but(size=-1)
