"""Stages that come after the main one, and rows that differ between phases."""

from limbeck.core.record import Shape
from limbeck.core.task import TaskInfo
from limbeck.recipes.phases import MAIN, plan
from limbeck.recipes.recipe import from_table
from limbeck.recipes.run import Run, complete

SHAPE = Shape(architecture="marian", layers=2, hidden=32, heads=2, feed_forward=64, decoder_layers=2)
TASK = TaskInfo(kind="translate", vocab_size=100)


def phases_of(recipe, **knobs):
    run = complete(Run(recipe=recipe, data={"task": "translate"}, **knobs), TASK)
    return plan(run.but(train=run.train.but(learning_rate=1e-3)), from_table(run.objective), SHAPE, SHAPE)


def test_interpolation_comes_after_with_a_tenth_of_the_rate():
    found = phases_of("seq-kd+seq-inter").phases
    assert [(phase.name, phase.targets) for phase in found] == [(MAIN, "beam"), ("interpolate", "closest")]
    assert found[1].schedule.learning_rate == 1e-4
    assert found[1].schedule.epochs == 3


def test_the_student_of_seq_inter_first_learns_what_people_wrote():
    assert [phase.targets for phase in phases_of("seq-inter").phases] == ["gold", "closest"]


def test_both_phases_are_watched_and_the_last_is_kept():
    assert [phase.watched for phase in phases_of("seq-inter").phases] == [True, True]


def test_word_kd_asks_in_every_phase_of_all_three():
    asked = [bool(phase.of_teacher.want) for phase in phases_of("seq-kd+seq-inter+word-kd").phases]
    assert asked == [True, True]
    assert not phases_of("seq-kd").of_teacher.want


def test_a_rate_of_its_own_counts_more_than_a_share():
    found = phases_of("seq-inter", stages={"interpolate": {"learning_rate": 5e-5}}).phases
    assert found[1].schedule.learning_rate == 5e-5


def test_the_objective_of_a_plan_is_the_main_one():
    found = phases_of("seq-kd+seq-inter+word-kd")
    assert found.objective == found.phases[0].objective
