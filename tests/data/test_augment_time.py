"""How many new texts a teacher can answer in the time that it has."""

import pytest

from limbeck.core.errors import KnobError
from limbeck.data.augment import affordable
from limbeck.data.settings import BY_TIME, AugmentSettings


def auto(kind="joins", **knobs):
    return AugmentSettings(kind=kind, copies="auto", **knobs)


@pytest.mark.parametrize(
    ("rate", "copies", "limit"),
    [(1.0, 1, 600), (5.0, 3, 3_000), (10.0, 6, 6_000), (100.0, 10, 60_000), (1e-9, 1, 1)],
)
def test_as_many_as_ten_minutes_allow_of_a_thousand_rows(rate, copies, limit):
    found = affordable(auto(), 1_000, False, rate)
    assert (found.copies, found.limit) == (copies, limit)


def test_no_more_copies_than_are_published():
    many = {"rows": 1_000, "rate": 1e6}
    assert affordable(auto("bilstm"), pairs=False, **many).copies == 20
    assert affordable(auto("bilstm"), pairs=True, **many).copies == 10
    assert affordable(auto("tinybert"), pairs=False, **many).copies == 30


def test_a_limit_that_a_person_sets_holds():
    assert affordable(auto(limit=50), 1_000, False, 1e6).limit == 50
    assert affordable(auto(limit=50, minutes=0.01), 1_000, False, 1.0).limit == 1


@pytest.mark.parametrize("value", [-2, "many", 0.5])
def test_a_number_or_auto(value):
    with pytest.raises(KnobError, match="copies"):
        AugmentSettings(copies=value)


def test_a_flag_gives_text():
    assert AugmentSettings(copies="3").copies == 3
    assert AugmentSettings(copies="auto").copies == AugmentSettings(copies="-1").copies == BY_TIME
