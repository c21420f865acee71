"""Steps: what each looks at, what is learned in it, and that a run cut off between or inside them ends the same."""

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, TrainerCallback

import limbeck
from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.objective import bridges
from limbeck.core.record import Shape
from limbeck.core.task import TaskInfo
from limbeck.core.trace import ATTENTION_PARTS, Want
from limbeck.jobs.plan import planned_steps
from limbeck.jobs.settings import Run, read_run, resolve, write_run
from limbeck.objectives.labels import Labels
from limbeck.recipes.recipe import RECIPES, Recipe, Repeat, Rewind, Snapshot, Train, to_table
from limbeck.students.shrink import Shrink
from limbeck.students.sizes import Sizes
from limbeck.training.progressive import freeze_above, slow_below
from tiny import make_classifier, make_rows, make_tokenizer

pytestmark = pytest.mark.slow

TASK = TaskInfo(kind="classify", labels=("negative", "positive"))
BIG = Shape(architecture="bert", layers=4, hidden=32, heads=4, feed_forward=64)
SMALL = Shape(architecture="bert", layers=2, hidden=16, heads=4, feed_forward=64)
QUICK = {
    "train": {"epochs": 1, "learning_rate": 1e-3, "batch_size": 32},
    "measure": {"speed": False},
    "augment": {"kind": "none"},
}
TINYBERT = {"recipe": "tinybert", "stages": {"intermediate": {"epochs": 1}}, **QUICK}


def planned(run, student=SMALL, teacher=BIG):
    return planned_steps(resolve(Run(**run), TASK), TASK, student, teacher)


def test_a_recipe_with_stages_looks_at_layers_first_and_at_answers_last():
    found = planned({"recipe": "tinybert"})
    first, last = found
    assert (first.name, last.name) == ("intermediate", "main")
    assert first.teacher_request.hidden == (0, 2, 4)
    assert first.student_request.heads == (1, 2)
    assert first.teacher_request.heads == (2, 4)
    assert last.teacher_request.want == Want.LOGITS
    assert bridges(first.objective, SMALL, BIG) == {"tinybert": (16, 32)}
    assert first.student_request.want & ATTENTION_PARTS
    assert not first.evaluated
    assert last.evaluated
    assert sum(step.schedule.epochs for step in found) == 13
    assert (first.schedule.decay, last.schedule.decay) == ("constant", "linear")


def test_a_persons_knobs_go_before_the_recipes():
    run = resolve(Run(recipe="pkd-skip", train={"epochs": 2}), TASK)
    assert run.train.epochs == 2
    assert run.student.keep == "first"
    assert resolve(Run(recipe="pkd-skip"), TASK).train.epochs == 4
    assert resolve(Run(recipe="pkd-skip", student={"keep": "last"}), TASK).student.keep == "last"
    assert resolve(Run(recipe="pkd-skip", student={"layers": 2}), TASK).student.keep == "first"


@pytest.mark.parametrize("asked", [{"layers": 2}, {"preset": "half"}, {"layers": 2, "keep": "last"}])
def test_a_number_of_layers_goes_before_a_recipes_rule_that_counts_them(asked):
    teacher = Sizes(layers=4, hidden=32, heads=4, feed_forward=64)
    assert len(resolve(Run(recipe="lottery"), TASK).student.sized(teacher).kept(teacher)[0]) == 4
    run = resolve(Run(recipe="lottery", student=asked), TASK)
    assert run.student.keep == asked.get("keep", "spread")
    assert len(run.student.sized(teacher).kept(teacher)[0]) == 2
    assert resolve(run, TASK) == run
    with pytest.raises(KnobError, match="keeps 4 layers, but knob 'layers' is 2"):
        resolve(Run(recipe="lottery", student=asked | {"keep": "every-1"}), TASK).student.sized(teacher).sizes(teacher)


def test_a_term_that_only_a_stage_has_is_changed_there():
    run = resolve(Run(recipe="tinybert", objective={"tinybert": {"attention": 0}}), TASK)
    assert run.stages["intermediate"].objective["tinybert"]["attention"] == 0
    assert "tinybert" not in run.objective
    steps = planned({"recipe": "tinybert", "objective": {"tinybert": {"attention": 0}}})
    assert [step.teacher_request.heads for step in steps] == [(), ()]


def test_a_term_of_both_is_changed_in_both_but_for_its_share():
    run = resolve(Run(recipe="small", objective={"tinybert": {"layers": "2,4", "weight": 0.5}}), TASK)
    both = run.objective["tinybert"], run.stages["hidden"].objective["tinybert"]
    assert [(one["layers"], one["weight"]) for one in both] == [("2,4", 0.5), ("2,4", 1.0)]
    assert resolve(run, TASK) == run
    own = {"hidden": {"objective": {"tinybert": {"layers": "uniform"}}}}
    run = resolve(Run(recipe="small", objective={"tinybert": {"layers": "2,4"}}, stages=own), TASK)
    assert run.stages["hidden"].objective["tinybert"]["layers"] == "uniform"


@pytest.mark.parametrize("preset", ["small", "tiny"])
def test_a_small_preset_brings_its_recipe_where_that_serves(preset):
    run = resolve(Run(student={"preset": preset}), TASK)
    assert (run.recipe, run.student.dropout, run.train.learning_rate) == ("small", 0.0, 5e-4)
    assert run.student.preset == preset
    assert resolve(run, TASK) == run
    assert resolve(Run(student={"preset": preset}, recipe="hinton"), TASK).recipe == "hinton"
    assert resolve(Run(student={"preset": preset}), TaskInfo(kind="generate", vocab_size=9)).recipe == "truncated"
    assert resolve(Run(recipe="small"), TASK).student.preset == "small"
    assert resolve(Run(recipe="small", student_from="somewhere"), TASK).student.preset == "auto"


def test_a_stage_is_changed_by_name_and_a_new_one_needs_an_objective():
    run = resolve(Run(recipe="tinybert", stages={"intermediate": {"epochs": 2}}), TASK)
    assert run.stages["intermediate"].epochs == 2
    assert run.stages["intermediate"].decay == "constant"
    with pytest.raises(KnobError, match="stage 'more' has no objective"):
        resolve(Run(recipe="tinybert", stages={"more": {"epochs": 2}}), TASK)


def test_a_run_file_with_stages_reads_back_equal(tmp_path):
    run = resolve(Run(recipe="tinybert"), TASK)
    (tmp_path / "run.toml").write_text(write_run(run))
    again = Run(**read_run(tmp_path / "run.toml"))
    assert again == run
    assert resolve(again, TASK) == run


def test_shapes_that_do_not_fit_are_refused_before_the_first_step():
    with pytest.raises(MismatchError, match="heads"):
        planned({"recipe": "tinybert"}, student=SMALL.but(heads=2))
    with pytest.raises(MismatchError, match="different things stand for a text"):
        planned(
            {
                "recipe": "pkd-skip",
                "objective": {"pkd": {"pool": "cls"}, "cka": {"among": "texts", "pool": "mean"}},
            }
        )


def test_layer_by_layer_every_step_has_one_layer():
    stage = {"progressive": True, "epochs": 4, "objective": {"pkd": {"layers": "uniform"}}}
    *found, _ = planned({"recipe": "hinton", "stages": {"transfer": stage}})
    assert [step.name for step in found] == ["transfer-1", "transfer-2"]
    assert [step.teacher_request.pooled for step in found] == [(2,), (4,)]
    assert [step.focus for step in found] == [1, 2]
    assert [step.schedule.epochs for step in found] == [2, 2]


def progressive(objective, layers=3):
    stage = {"progressive": True, "epochs": 6, "objective": objective}
    run = {"recipe": "hinton", "stages": {"transfer": stage}}
    return planned(run, student=SMALL.but(layers=layers))[:-1]


@pytest.mark.parametrize(
    ("layers", "pairs"), [("1:2,2:4", [(1, 2), (2, 4)]), ("skip", [(1, 2), (2, 3)]), ("3:1", [(3, 1)])]
)
def test_layer_by_layer_those_without_a_partner_have_no_step(layers, pairs):
    found = progressive({"mobilebert": {"layers": layers}})
    assert [step.name for step in found] == [f"transfer-{layer}" for layer, _ in pairs]
    assert [(step.focus, step.teacher_request.heads) for step in found] == [(layer, (other,)) for layer, other in pairs]
    assert sum(step.schedule.epochs for step in found) == pytest.approx(6)


def test_layer_by_layer_a_term_is_there_for_the_layers_it_names():
    terms = {"hinton": {}, "mobilebert": {"layers": "1:2"}, "pkd": {"layers": "1:1,3:4"}}
    found = progressive({**terms, "cka": {"weight": 0.0, "layers": "2:2"}})
    assert [step.focus for step in found] == [1, 3]
    assert [list(to_table(step.objective)) for step in found] == [list(terms), ["hinton", "pkd"]]
    assert [step.teacher_request.pooled for step in found] == [(1,), (4,)]
    assert [step.focus for step in progressive({"hinton": {}})] == [1, 2, 3]


def test_mobilebert_learns_some_of_its_layers_one_by_one():
    result = limbeck.distill(
        make_classifier(seed=5),
        make_rows(120),
        Shrink(layers=3),
        tokenizer=make_tokenizer(),
        baseline=False,
        recipe="mobilebert",
        stages={"transfer": {"epochs": 2, "objective": {"mobilebert": {"layers": "1:2,2:4"}}}},
        **QUICK,
    )
    assert result.student.config.model_type == "mobilebert"
    assert result.student.config.num_hidden_layers == 3
    assert {"features", "soft"} <= {name for p in result.record.arm("distilled").runs[0].curve for name in p.terms}


def test_a_student_of_another_family_than_was_said_is_refused():
    with pytest.raises(KnobError, match=r"family 'albert', but .* is a bert\n.*--student.family same"):
        planned({"recipe": "albert"})
    assert planned({"recipe": "albert"}, student=SMALL.but(architecture="albert"))
    assert planned({"recipe": "bilstm"}, student=SMALL.but(architecture="limbeck-bilstm"))
    assert planned({"recipe": "albert", "student": {"family": "same"}})


def test_one_layer_learns_those_below_slowly_those_above_not_at_all():
    model = make_classifier(layers=3)
    stopped = freeze_above(model, 2)
    names = {name for name, p in model.named_parameters() if not p.requires_grad}
    assert names == {name for name, _ in model.named_parameters() if "layer.2." in name}
    assert len(stopped) == len(names)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1.0)
    slow_below(optimizer, model, 2)
    rate = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    of = {name: rate.get(id(p)) for name, p in model.named_parameters()}
    assert of["bert.encoder.layer.1.output.dense.weight"] == of["classifier.weight"] == 1.0
    assert of["bert.encoder.layer.0.output.dense.weight"] == pytest.approx(0.1)
    assert of["bert.embeddings.word_embeddings.weight"] == pytest.approx(0.1)


def distilled(out, **how):
    return limbeck.distill(
        make_classifier(seed=5),
        make_rows(160),
        Shrink(layers=2, hidden=16, heads=4),
        tokenizer=make_tokenizer(),
        out=out,
        baseline=False,
        **how,
    )


class Cut(TrainerCallback):
    """Ctrl-C at a step of a stage."""

    def __init__(self, where, step):
        self.where, self.step = where, step

    def on_step_end(self, args, state, control, **_):
        if args.output_dir.endswith(self.where) and state.global_step == self.step:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    return out, distilled(out, **TINYBERT)


def test_the_student_of_two_stages_is_saved_without_bridges_and_tap(whole):
    out, result = whole
    saved = load_file(out / "student" / "model.safetensors")
    assert not [name for name in saved if "bridge" in name]
    opened = AutoModelForSequenceClassification.from_pretrained(out / "student")
    assert opened.config._attn_implementation == "sdpa"
    curve = result.record.arm("distilled").runs[0].curve
    assert {"embedding", "hidden", "attention"} <= set(curve[0].terms)
    assert "soft" in curve[-1].terms
    assert [point.step for point in curve] == sorted({point.step for point in curve})
    assert any("it runs at every step" in note for note in result.record.notes)


@pytest.mark.parametrize(("where", "step"), [("checkpoints-00", 3), ("checkpoints-01", 1)])
def test_cut_off_in_either_stage_it_ends_like_an_unbroken_one(where, step, whole, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        distilled(out, callbacks=[Cut(where, step)], **TINYBERT)
    distilled(out, resume=True, **TINYBERT)
    a, b = (load_file(folder / "student" / "model.safetensors") for folder in (out, whole[0]))
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_live_and_kept_layers_teach_the_same(tmp_path):
    how = {"recipe": "pkd-skip", **QUICK}
    kept, live = (
        distilled(tmp_path / name, **how, teacher_cache={"live": name == "live"}) for name in ("kept", "live")
    )
    a, b = (run.student.state_dict() for run in (kept, live))
    assert all(torch.allclose(a[name], b[name], atol=2e-4) for name in a)


def test_a_student_is_cut_from_another_model_than_its_teacher(tmp_path):
    make_classifier(seed=9).save_pretrained(tmp_path / "other")
    make_tokenizer().save_pretrained(tmp_path / "other")
    result = limbeck.distill(
        make_classifier(seed=5),
        make_rows(160),
        Shrink(layers=2),
        tokenizer=make_tokenizer(),
        out=tmp_path / "run",
        recipe="pkd-skip",
        student_from=str(tmp_path / "other"),
        **{**QUICK, "baseline": False, "train": {"epochs": 1, "learning_rate": 1e-9}},
    )
    other = make_classifier(seed=9).bert.encoder.layer[0].output.dense.weight
    assert torch.allclose(result.student.bert.encoder.layer[0].output.dense.weight, other, atol=1e-5)
    assert len(result.student.bert.encoder.layer) == 2


def test_a_shape_from_python_leaves_the_rest_to_the_recipe(tmp_path):
    run = distilled(tmp_path / "run", recipe="pkd-skip", **QUICK)
    assert run.record.knobs["student"]["keep"] == "first"
    assert run.record.knobs["student"]["hidden"] == 16


@pytest.mark.parametrize(
    "steps",
    [
        (Train(1.0 * Labels()), Rewind("x")),
        (Rewind("x"), Snapshot("x"), Train(1.0 * Labels())),
        (Snapshot("start"), Repeat(2, (Train(1.0 * Labels()), Rewind("x")))),
    ],
)
def test_a_rewind_to_a_snapshot_that_no_earlier_step_takes_is_refused(monkeypatch, steps):
    paper = RECIPES["lottery"].paper
    monkeypatch.setitem(RECIPES, "lost", Recipe("lost", "for a test", paper, lambda task: steps))
    with pytest.raises(KnobError, match=r"'lost' rewinds to a snapshot 'x' that no earlier step takes\n.*Snapshot"):
        planned({"recipe": "lost"})
