"""Which students are trained without a teacher, and under which names."""

import pytest

from limbeck.core.progress import Silent
from limbeck.recipes.compare_lanes import lanes
from limbeck.recipes.compare_run import CompareRun, columns
from limbeck.recipes.prepare import Model, gather, prepare
from limbeck.recipes.student import set_up
from tiny import make_classifier, make_rows, make_tokenizer


@pytest.fixture(scope="module")
def material():
    teacher = Model(make_classifier(), make_tokenizer())
    return gather(CompareRun(), Silent(), data=make_rows(120), teacher=teacher)


def students(material, recipes, each, **knobs):
    run = CompareRun(recipes=recipes, each=each, **knobs)
    return {name: set_up(prepare(column, material, Silent())) for name, column in columns(run).items()}


def told(field):
    return [(lane.name, lane.than, lane.plain) for lane in field]


def test_students_that_are_alike_share_a_baseline(material):
    one = {
        "one": {"recipe": "hinton", "student": {"layers": 1}},
        "other": {"recipe": "logits", "student": {"layers": 1}},
    }
    assert told(lanes(students(material, "hinton,finetune", one))) == [
        ("hinton", "finetune", False),
        ("finetune", "", True),
        ("plain-one", "", True),
        ("one", "plain-one", False),
        ("other", "plain-one", False),
    ]


def test_another_schedule_is_another_baseline(material):
    longer = {"longer": {"recipe": "hinton", "train": {"epochs": 5.0}}}
    field = lanes(students(material, "finetune,hinton", longer))
    assert told(field)[2:] == [("plain-longer", "", True), ("longer", "plain-longer", False)]
    assert [lane.epochs for lane in field] == [3.0, 3.0, 5.0, 5.0]


def test_a_baseline_keeps_its_name_when_other_columns_are_gone(material):
    """Else a resumed run would take the finished model of another student for it."""
    each = {f"l{layers}": {"recipe": "hinton", "student": {"layers": layers}} for layers in (1, 2, 3)}
    whole = students(material, "", each)
    before = {lane.name: lane.student.start.network.config.num_hidden_layers for lane in lanes(whole)}
    del whole["l1"]
    after = {lane.name: lane.student.start.network.config.num_hidden_layers for lane in lanes(whole)}
    assert after.items() <= before.items()
    assert len(after) == 4


def test_cells_go_by_lane_and_seed(material):
    (plain, lane) = lanes(students(material, "hinton", {}, seeds=2, seed=4))
    assert [cell.name for cell in lane.cells] == ["hinton-seed4", "hinton-seed5"]
    assert [cell.title for cell in plain.cells] == ["plain-hinton, seed 4", "plain-hinton, seed 5"]
    assert told(lanes(students(material, "hinton", {}, baseline=False))) == [("hinton", "", False)]
