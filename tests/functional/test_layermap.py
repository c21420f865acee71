"""Layer maps: the published ones, their shape for any depth, and what is said of the impossible."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limbeck.core.errors import KnobError
from limbeck.functional.layermap import layer_pairs


@pytest.mark.parametrize(
    ("rule", "student", "expected"),
    [
        ("uniform", 4, [3, 6, 9, 12]),  # TinyBERT4
        ("uniform", 6, [2, 4, 6, 8, 10, 12]),  # TinyBERT6
        ("uniform", 5, [3, 5, 8, 10, 12]),
        ("skip", 6, [2, 4, 6, 8, 10]),  # PKD-Skip
        ("skip", 3, [4, 8]),
        ("last", 6, [7, 8, 9, 10, 11]),  # PKD-Last
        ("last", 3, [10, 11]),
        ("top", 4, [9, 10, 11, 12]),
        ("bottom", 4, [1, 2, 3, 4]),
        ("kept", 4, [1, 5, 8, 12]),  # as Shrink keeps 0, 4, 7, 11
        ("kept", 1, [12]),  # a head reads it
        ("2,4,6", 4, [2, 4, 6]),
        ("uniform", 12, list(range(1, 13))),
    ],
)
def test_the_map_of_a_teacher_with_twelve_layers(rule, student, expected):
    assert layer_pairs(rule, student, 12) == list(enumerate(expected, 1))


def test_pairs_may_name_any_layers():
    assert layer_pairs("1:2, 3:6", 3, 6) == [(1, 2), (3, 6)]
    assert layer_pairs("2:5,1:5", 3, 6) == [(2, 5), (1, 5)]


def test_official_indices_of_tinybert():
    """Its code counts attention from 0, and hidden states from 0 with the embeddings first."""
    pairs = layer_pairs("uniform", 4, 12)
    assert [i - 1 for _, i in pairs] == [2, 5, 8, 11]
    assert [0, *(i for _, i in pairs)] == [0, 3, 6, 9, 12]


@given(st.integers(1, 40), st.integers(1, 40))
def test_uniform_serves_any_depth(student, teacher):
    pairs = layer_pairs("uniform", student, teacher)
    layers = [i for _, i in pairs]
    assert [j for j, _ in pairs] == list(range(1, student + 1))
    assert layers == sorted(layers)
    assert layers[-1] == teacher
    assert layers[0] >= 1
    if student <= teacher:
        assert len(set(layers)) == student
        assert layer_pairs("top", student, teacher)[-1] == (student, teacher)
    if student > 1:
        assert layer_pairs("skip", student, teacher) == pairs[:-1]


@pytest.mark.parametrize(
    ("rule", "student", "teacher", "words"),
    [
        ("skip", 1, 4, "no layer below"),
        ("last", 1, 4, "2 layers or more"),
        ("middle", 2, 4, "cannot be 'middle'"),
        ("", 2, 4, "use uniform"),
        ("2,", 2, 4, "cannot be"),
        ("1:2,4", 2, 4, "cannot be"),
        ("1 2", 2, 4, "cannot be"),
        ("2,5", 2, 4, "the teacher has no layer 5"),
        ("0,2", 2, 4, "counted from 1 to 4"),
        ("1,2,3", 2, 4, "the student has no layer 3"),
        ("1:2,1:3", 2, 4, "twice"),
        ("top", 5, 4, "the teacher only 4"),
        ("bottom", 5, 4, "use uniform"),
    ],
)
def test_impossible_maps_name_the_knob_and_the_remedy(rule, student, teacher, words):
    with pytest.raises(KnobError, match="knob 'layers'") as error:
        layer_pairs(rule, student, teacher)
    assert words in str(error.value)
    assert error.value.remedy
