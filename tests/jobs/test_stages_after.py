"""Steps that come after the main one, and rows that differ between them."""

from limbeck.core.record import Shape
from limbeck.core.task import TaskInfo
from limbeck.jobs.plan import planned_steps
from limbeck.jobs.settings import Run, resolve
from limbeck.recipes.recipe import MAIN, from_table

SHAPE = Shape(architecture="marian", layers=2, hidden=32, heads=2, feed_forward=64, decoder_layers=2)
TASK = TaskInfo(kind="translate", vocab_size=100)


def steps_of(recipe, **knobs):
    run = resolve(Run(recipe=recipe, data={"task": "translate"}, **knobs), TASK)
    return planned_steps(run.but(train=run.train.but(learning_rate=1e-3)), TASK, SHAPE, SHAPE)


def test_interpolation_comes_after_with_a_tenth_of_the_rate():
    found = steps_of("seq-kd+seq-inter")
    assert [(step.name, step.targets) for step in found] == [(MAIN, "beam"), ("interpolate", "closest")]
    assert found[1].schedule.learning_rate == 1e-4
    assert found[1].schedule.epochs == 3


def test_the_student_of_seq_inter_first_learns_what_people_wrote():
    assert [step.targets for step in steps_of("seq-inter")] == ["gold", "closest"]


def test_both_steps_are_evaluated_and_the_last_is_kept():
    assert [step.evaluated for step in steps_of("seq-inter")] == [True, True]


def test_word_kd_needs_the_teacher_in_every_step_of_all_three():
    needed = [bool(step.teacher_request.want) for step in steps_of("seq-kd+seq-inter+word-kd")]
    assert needed == [True, True]
    assert not any(step.teacher_request.want for step in steps_of("seq-kd"))


def test_a_rate_of_its_own_counts_more_than_a_share():
    found = steps_of("seq-inter", stages={"interpolate": {"learning_rate": 5e-5}})
    assert found[1].schedule.learning_rate == 5e-5


def test_the_objective_of_a_run_is_that_of_its_main_step():
    run = resolve(Run(recipe="seq-kd+seq-inter+word-kd"), TASK)
    main = next(step for step in steps_of("seq-kd+seq-inter+word-kd") if step.name == MAIN)
    assert from_table(run.objective) == main.objective
