"""Language models from Python, with models and texts in hand."""

import pytest
import torch
from transformers import TrainerCallback

import limbeck
from limbeck import CacheRun, LanguageModeling, Model, Run, Shrink, Truncated, WordKD
from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.record import Record
from limbeck.teachers.topk import TopKCache
from running import limbeck as command
from tiny import VOCABULARY, make_tokenizer
from tiny_language import byte_level, make_causal, make_masked, make_text

TEXT = {"length": 16}
FAST = {
    "blocks": TEXT,
    "train": {"epochs": 1, "learning_rate": 5e-3, "batch_size": 16},
    "measure": {"speed": False, "bootstrap": 200},
}
MASK_FILL = {"task": "mask-fill"}


@pytest.fixture
def network():
    return make_masked(layers=4)


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


def test_a_model_and_texts_in_hand(network, tmp_path, capfd):
    before = weights(network)
    result = limbeck.distill(
        teacher=network,
        tokenizer=make_tokenizer(),
        data=make_text(60),
        student=Shrink(layers=1),
        out=tmp_path / "run",
        reading=MASK_FILL,
        **FAST,
    )
    assert capfd.readouterr() == ("", "")
    assert same(before, weights(network))
    assert result.student.config.num_hidden_layers == 1
    assert Record.load(tmp_path / "run") == result.record
    assert result.record.task.vocab_size == len(VOCABULARY)
    assert result.record.knobs["data"]["task"] == "mask-fill"
    assert [arm.name for arm in result.record.arms] == ["teacher", "plain", "distilled"]
    assert len(TopKCache.open(tmp_path / "run" / "teacher-cache")) > 50
    assert (tmp_path / "run" / "teacher" / "model.safetensors").exists()
    said = result.student(**result.tokenizer("the [MASK] is good", return_tensors="pt")).logits
    assert said.shape[-1] == len(VOCABULARY)


def test_an_objective_and_a_student_in_hand(network):
    start = make_masked(layers=1, seed=9)
    before = weights(start)
    result = limbeck.distill(
        Model(network, make_tokenizer()),
        make_text(40),
        Model(start, make_tokenizer()),
        objective=0.3 * LanguageModeling() + 0.7 * WordKD(reverse=0.5),
        reading=MASK_FILL,
        baseline=False,
        **FAST,
    )
    assert same(before, weights(start)), "the student is a copy"
    assert not same(before, weights(result.student))
    assert result.record.knobs["recipe"] == "custom"
    assert any("at every step" in note for note in result.record.notes)


def test_a_cache_from_python_serves_a_run_without_its_teacher(network, tmp_path):
    found = limbeck.cache(
        CacheRun(out=str(tmp_path / "cache"), blocks=TEXT, mask={"rounds": 2}, top=8, data=MASK_FILL),
        data=make_text(40),
        teacher=Model(network, make_tokenizer()),
    )
    assert found.manifest.k == 8
    assert found.tokens == TopKCache.open(tmp_path / "cache").tokens > 0
    result = limbeck.distill(
        data=make_text(40),
        student=Model(make_masked(layers=1), make_tokenizer()),
        objective=1.0 * Truncated(form="renorm", temperature=2.0),
        reading=MASK_FILL,
        teacher_cache={"cache": str(tmp_path / "cache")},
        **FAST,
    )
    assert [arm.name for arm in result.record.arms] == ["plain", "distilled"]
    assert result.record.knobs["mask"]["rounds"] == 2
    terms = next(point.terms for point in result.record.arm("distilled").runs[0].curve if point.terms)
    assert terms.keys() == {"truncated"}


def test_the_kind_of_a_model_in_hand_is_seen(tmp_path):
    tokenizer = byte_level()
    found = limbeck.cache(
        CacheRun(out=str(tmp_path / "cache"), blocks=TEXT, top=4),
        data=make_text(10),
        teacher=Model(make_causal(tokenizer), tokenizer),
    )
    assert found.manifest.notes["task"] == "generate"
    assert found.manifest.vocabulary == len(tokenizer)


def test_a_run_as_an_object_for_causal_models():
    tokenizer = byte_level()
    run = Run(data={"task": "generate"}, baseline=False, student={"layers": 1}, **FAST)
    result = limbeck.distill(make_causal(tokenizer), make_text(30), tokenizer=tokenizer, run=run)
    assert result.record.task.kind == "generate"
    assert result.student.config.n_layer == 1


def test_a_family_whose_logits_are_more_than_a_projection(tmp_path):
    """MobileBERT: its logits are shown whole, its answers kept all the same, from a folder that is freed or not."""
    from transformers import MobileBertConfig, MobileBertForMaskedLM

    torch.manual_seed(0)
    shape = {"vocab_size": len(VOCABULARY), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    shape |= {"intermediate_size": 24, "embedding_size": 8, "intra_bottleneck_size": 16, "max_position_embeddings": 64}
    MobileBertForMaskedLM(MobileBertConfig(**shape)).save_pretrained(tmp_path / "mobile")
    make_tokenizer().save_pretrained(tmp_path / "mobile")
    result = limbeck.distill(
        tmp_path / "mobile", make_text(30), make_masked_student(), reading=MASK_FILL, baseline=False, **FAST
    )
    assert result.record.arm("distilled").runs[0].fidelity.divergence > 0


def make_masked_student():
    return Model(make_masked(layers=1, seed=4), make_tokenizer())


class Interrupt(TrainerCallback):
    """Ctrl-C after some steps."""

    def on_step_end(self, args, state, control, **_):
        if state.global_step == 9:
            raise KeyboardInterrupt


def test_a_run_stopped_by_hand_goes_on(network, tmp_path):
    how = dict(data=make_text(40), reading=MASK_FILL, tokenizer=make_tokenizer(), baseline=False, **FAST)
    how["train"] = FAST["train"] | {"batch_size": 4}
    whole = limbeck.distill(network, out=tmp_path / "whole", **how)
    with pytest.raises(KeyboardInterrupt):
        limbeck.distill(network, out=tmp_path / "run", callbacks=[Interrupt()], **how)
    resumed = limbeck.distill(network, out=tmp_path / "run", resume=True, **how)
    assert same(weights(whole.student), weights(resumed.student))
    other = make_masked(layers=4, seed=1)
    with pytest.raises(MismatchError, match="teacher"):
        limbeck.distill(other, out=tmp_path / "run", resume=True, **how)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"teacher": ""}, "no teacher was given"),
        ({"objective": 1.0 * limbeck.Labels()}, "does not serve --task mask-fill"),
        ({"objective": LanguageModeling() + limbeck.NextSentence()}, "needs pairs of sentences"),
        ({"recipe": "hinton"}, "does not serve --task mask-fill"),
        ({"tokenizer": None}, "came without its tokenizer"),
    ],
)
def test_what_does_not_fit_is_refused_first(network, tmp_path, change, message):
    how = dict(teacher=network, tokenizer=make_tokenizer(), data=make_text(20), reading=MASK_FILL, **FAST) | change
    with pytest.raises((KnobError, MismatchError), match=message) as refused:
        limbeck.distill(out=tmp_path / "x", **how)
    assert refused.value.remedy
    assert not (tmp_path / "x").exists()


def test_a_run_file_says_it_all(masked, corpus, tmp_path):
    """What --print writes is what a run of words needs, and a finished run's file makes the same student again."""
    given = ("--task", "mask-fill", "--teacher", masked, "--data", corpus, "--blocks.length", 16, "--epochs", 1)
    given = (*given, "--measure.no-speed", "--measure.bootstrap", 200, "--no-baseline", "--train.threads", 1)
    printed = command("distill", *given, "--print")
    assert printed.code == 0
    (tmp_path / "run.toml").write_text(printed.out)
    assert "[objective.truncated]" in printed.out
    for name, file in (("a", tmp_path / "run.toml"), ("b", tmp_path / "a" / "run.toml")):
        said = command("distill", file, "--out", tmp_path / name)
        assert said.code == 0, said.err
    a, b = ((tmp_path / name / "student" / "model.safetensors").read_bytes() for name in "ab")
    assert a == b
