"""The knobs of a compression: slips are refused in a person's words, before anything is loaded."""

import pytest

from limbeck.core.errors import KnobError
from limbeck.core.task import TaskInfo
from limbeck.jobs.compress_settings import CompressRun
from limbeck.jobs.plan import _check_rewind
from limbeck.jobs.settings import Run
from limbeck.recipes.recipe import Apply, Rewind, Snapshot

INFO = TaskInfo(kind="classify", labels=("0", "1"))


def steps(**knobs):
    run = CompressRun(model="a", passes="vocabulary,lowrank,quantize", **knobs)
    return [one.compress.name if isinstance(one, Apply) else "train" for one in run.recipe_for(INFO).every_step(INFO)]


def test_a_teacher_recovers_what_changed_and_can_learn():
    assert steps() == ["vocabulary", "lowrank", "quantize"]
    assert steps(teacher="self") == ["vocabulary", "lowrank", "train", "quantize"]
    aggressive = {"mode": "aggressive"}
    assert steps(teacher="self", vocabulary=aggressive) == ["vocabulary", "train", "lowrank", "train", "quantize"]
    assert steps(teacher="b", recover="vocabulary") == ["vocabulary", "train", "lowrank", "quantize"]
    assert steps(teacher="b", recover="none") == ["vocabulary", "lowrank", "quantize"]


@pytest.mark.parametrize(
    ("knobs", "problem", "remedy"),
    [
        ({"passes": "vocabulary,lowrnk"}, "there is no pass 'lowrnk'", "did you mean 'lowrank'?"),
        ({"passes": "lowrank", "teacher": "b", "recover": "quantize"}, "no pass in --passes 'quantize'", "lowrank"),
        ({"passes": "lowrank", "recover": "lowrank"}, "no teacher to recover with", "--teacher"),
        ({"passes": "lowrank", "student": {"layers": 2}}, "no table 'student'", "limbeck distill"),
        ({"passes": "lowrank", "recipe": "hinton"}, "no knob 'recipe'", "leave it out"),
        ({"passes": "lowrank", "lowrank": {"enrgy": 0.9}}, "no knob 'lowrank.enrgy'", "did you mean 'energy'?"),
        ({"passes": "lowrank", "export": "onnx-int9"}, "no format to export to 'onnx-int9'", "did you mean 'onnx-int"),
    ],
)
def test_a_slip_is_refused_with_what_was_meant(knobs, problem, remedy):
    with pytest.raises(KnobError, match=problem) as caught:
        CompressRun(model="a", **knobs)
    assert remedy in caught.value.remedy


def test_a_table_of_a_pass_that_is_not_named_has_no_effect_and_is_refused():
    run = CompressRun(model="a", passes="lowrank", quantize={"bits": 4})
    with pytest.raises(KnobError, match=r"'quantize\.bits' has no effect") as caught:
        run.spelled_out("classify")
    assert "name the pass 'quantize' in --passes" in caught.value.remedy


def test_a_table_of_a_pass_belongs_to_compressions_alone():
    with pytest.raises(KnobError, match="there is no knob 'lowrank'"):
        Run(lowrank={"energy": 0.9})


def test_a_number_may_come_as_text_from_a_flag():
    assert CompressRun(model="a", passes="quantize", quantize={"bits": "4"}).pass_of("quantize").precision == "int4"


def test_a_rewind_over_a_change_of_shapes_is_refused():
    """At plan time: the weights of the snapshot would not fit."""
    passes = CompressRun(model="a", passes="magnitude,lowrank")
    pruned, factored = (Apply(passes.pass_of(name)) for name in passes.pass_names)
    _check_rewind("mine", [Snapshot("start"), pruned], Rewind("start"))
    _check_rewind("mine", [factored, Snapshot("start"), pruned], Rewind("start"))
    with pytest.raises(KnobError, match="'lowrank' gives the weights other shapes") as caught:
        _check_rewind("mine", [Snapshot("start"), factored], Rewind("start"))
    assert caught.value.remedy == 'take Snapshot("start") behind that pass'
