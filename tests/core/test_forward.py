"""A forward pass as a Trace: every architecture's logits, without its projection where that is all they are."""

import copy
import gc
from dataclasses import replace

import pytest
import torch
from transformers import (
    AlbertConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForPreTraining,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    Gemma2Config,
    GPT2Config,
    GraniteConfig,
    LlamaConfig,
    MobileBertConfig,
    ModernBertConfig,
    MPNetConfig,
    OPTConfig,
    RobertaConfig,
)

from limbeck.core import forward as module
from limbeck.core.forward import forward, projects
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch, Request, Want

WORDS = 50
SHAPE = {
    "vocab_size": WORDS,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}
BASE = SHAPE | {"max_position_embeddings": 32, "pad_token_id": 0}
ENDS = {"bos_token_id": 1, "eos_token_id": 2}
MASKED = {
    "bert": BertConfig(**BASE),
    "roberta": RobertaConfig(**BASE),
    "modernbert": ModernBertConfig(**BASE, **ENDS, cls_token_id=1, sep_token_id=2),
    "distilbert": DistilBertConfig(vocab_size=WORDS, dim=16, n_layers=2, n_heads=2, hidden_dim=24),
    "electra": ElectraConfig(**BASE, embedding_size=8),
    "albert": AlbertConfig(**BASE, embedding_size=8),
    "mpnet": MPNetConfig(**BASE),
    "deberta-v2": DebertaV2Config(**BASE),
    "mobilebert": MobileBertConfig(**SHAPE, embedding_size=8, intra_bottleneck_size=16),
}
CAUSAL = {
    "gpt2": GPT2Config(vocab_size=WORDS, n_embd=16, n_layer=2, n_head=2, **ENDS),
    "llama": LlamaConfig(**BASE, **ENDS),
    "gemma2": Gemma2Config(**BASE, **ENDS, head_dim=8, num_key_value_heads=2),
    "granite": GraniteConfig(**BASE, **ENDS, logits_scaling=2.0),
    "opt": OPTConfig(vocab_size=WORDS, hidden_size=16, ffn_dim=24, num_hidden_layers=2, num_attention_heads=2),
}
WHOLE = {"mobilebert", "gemma2", "granite"}  # two weights, a soft cap, a scale: more than one product


def build(name):
    torch.manual_seed(0)
    auto = AutoModelForMaskedLM if name in MASKED else AutoModelForCausalLM
    return auto.from_config((MASKED | CAUSAL)[name]).eval()


def batch_for(name="bert", seed=0, **more):
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, WORDS, (3, 9), generator=draw)
    asked = torch.rand(3, 9, generator=draw) > 0.5
    here = torch.ones_like(ids)
    here[1, 6:] = 0
    asked &= here.bool()
    kind = "mask-fill" if name in MASKED else "generate"
    inputs = {"input_ids": ids, "attention_mask": here}
    return Batch(TaskInfo(kind=kind, vocab_size=WORDS), torch.arange(3), ids, asked, inputs, predicted=asked, **more)


@pytest.mark.parametrize("name", [*MASKED, *CAUSAL])
def test_the_logits_of_every_architecture(name):
    model, batch = build(name), batch_for(name)
    runs = []
    head = model.get_output_embeddings()
    hook = head.register_forward_hook(lambda module, given, out: runs.append(out.shape[-1]))
    found = forward(model, batch, Request(Want.LOGITS | Want.HIDDEN, hidden=(0, 1, 2)))
    multiplied = [width for width in runs[1:] if width]  # the first time is the trial
    hook.remove()
    outputs = model(**batch.inputs, output_hidden_states=True)
    assert torch.allclose(found.tokens.logits(), outputs.logits[batch.predicted], atol=1e-6)
    assert len(found.hidden) == len(outputs.hidden_states) == 3
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(found.hidden, outputs.hidden_states, strict=True))
    assert projects(model, batch) == (name not in WHOLE)
    if name not in WHOLE:
        assert not multiplied, "the projection was run"
        assert found.tokens.weight is head.weight or torch.equal(found.tokens.weight, head.weight)
        assert found.tokens.features.shape == (int(batch.predicted.sum()), head.in_features)
    assert not found.logits.numel()


@pytest.mark.parametrize("name", ["bert", "llama", "gemma2"])
def test_a_vocabulary_is_cut(name):
    model, batch = build(name), batch_for(name)
    found = forward(model, batch, vocabulary=41).tokens
    assert found.vocabulary == 41
    assert torch.allclose(found.logits(), model(**batch.inputs).logits[batch.predicted][:, :41], atol=1e-6)
    assert not forward(model, batch, vocabulary=41).hidden


@pytest.mark.parametrize("name", ["bert", "mobilebert", "gpt2"])
def test_modules_stay_in_the_mode_they_were_in(name):
    model, batch = build(name).train(), batch_for(name)
    frozen = model.get_input_embeddings().eval()
    forward(model, batch)
    assert [module for module in model.modules() if not module.training] == [frozen]


def test_dropout_is_on_while_training():
    model, batch = build("bert").train(), batch_for()
    assert not torch.equal(forward(model, batch).tokens.features, forward(model, batch).tokens.features)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("tried", [True, False])
def test_a_model_that_raises_is_left_as_it_was(training, tried):
    model, batch = build("bert"), batch_for()
    head = model.get_output_embeddings()
    if tried:
        forward(model, batch)
    model.train(training)

    def fail(*_):
        raise RuntimeError("out of memory")

    # One fails before its projection, the other after it.
    for part in (model.base_model.encoder, model):
        hook = part.register_forward_hook(fail)
        with pytest.raises(RuntimeError, match="out of memory"):
            forward(model, batch)
        hook.remove()
        assert "forward" not in vars(head)
        assert all(module.training == training for module in model.modules())
    model.eval()
    assert torch.allclose(
        forward(model, batch).tokens.logits(), model(**batch.inputs).logits[batch.predicted], atol=1e-6
    )


def test_a_forward_that_someone_put_on_the_head_comes_back():
    """As hooks of accelerate do."""
    model, batch = build("bert"), batch_for()
    head = model.get_output_embeddings()
    own = head.forward
    head.forward = lambda features: own(features)
    theirs = head.forward
    forward(model, batch)
    assert head.forward is theirs


def test_models_of_one_class_are_judged_one_by_one():
    scaled, plain = build("granite"), AutoModelForCausalLM.from_config(GraniteConfig(**BASE, **ENDS, logits_scaling=1))
    batch = batch_for("granite")
    plain.eval()
    for _ in range(2):
        assert not projects(scaled, batch)
        assert projects(plain, batch)
    for model in (scaled, plain):
        reference = model(**batch.inputs).logits[batch.predicted]
        assert torch.allclose(forward(model, batch).tokens.logits(), reference, atol=1e-6)


def test_two_models_at_work_in_turn_do_not_mix():
    a, b, batch = build("bert"), build("bert"), batch_for()
    with torch.no_grad():
        b.get_output_embeddings().weight.mul_(2)
    one, two, again = (forward(model, batch).tokens.logits() for model in (a, b, a))
    assert torch.equal(one, again)
    assert not torch.allclose(one, two)


def test_what_is_known_of_a_model_goes_with_it():
    model, batch = build("bert"), batch_for()
    known = len(module._PLAIN)
    forward(model, batch)
    assert len(module._PLAIN) == known + 1
    del model
    gc.collect()
    assert len(module._PLAIN) <= known


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_gradients_are_those_of_the_whole(name, tied):
    torch.manual_seed(0)
    config = copy.deepcopy((MASKED | CAUSAL)[name])
    config.tie_word_embeddings = tied
    auto = AutoModelForMaskedLM if name == "bert" else AutoModelForCausalLM
    model, batch = auto.from_config(config).eval(), batch_for(name)
    assert (model.get_output_embeddings().weight is model.get_input_embeddings().weight) == tied

    def gradients(logits):
        model.zero_grad()
        logits.logsumexp(-1).sum().backward()
        return {
            name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None
        }

    whole = gradients(model(**batch.inputs).logits[batch.predicted])
    found = gradients(forward(model, batch).tokens.logits())
    cut = gradients(forward(model, batch, vocabulary=WORDS).tokens.logits())
    assert whole.keys() == found.keys() == cut.keys()
    for name in whole:
        assert torch.allclose(whole[name], found[name], atol=1e-6), name
        assert torch.allclose(whole[name], cut[name], atol=1e-6), name


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", ["bert", "llama", "gemma2"])
def test_other_precisions(name, dtype):
    model, batch = build(name).to(dtype), batch_for(name)
    assert projects(model, batch) == (name not in WHOLE)
    found = forward(model, batch).tokens.logits()
    assert found.dtype == dtype
    assert torch.allclose(
        found, model(**batch.inputs).logits[batch.predicted], rtol=2e-2 if dtype == torch.bfloat16 else 0
    )


def test_a_batch_that_asks_about_nothing():
    model, batch = build("bert"), batch_for()
    nothing = Batch(
        batch.task, batch.uids, batch.labels, batch.has_label, batch.inputs, predicted=torch.zeros_like(batch.predicted)
    )
    assert forward(model, nothing).tokens.logits().shape == (0, WORDS)


def test_next_sentences_have_logits_of_their_own():
    torch.manual_seed(0)
    model = BertForPreTraining(MASKED["bert"]).eval()
    batch = batch_for(next_sentence_label=torch.tensor([0, 1, 0]))
    found, outputs = forward(model, batch), model(**batch.inputs)
    assert projects(model, batch)
    assert torch.equal(found.logits, outputs.seq_relationship_logits)
    assert torch.allclose(found.tokens.logits(), outputs.prediction_logits[batch.predicted], atol=1e-6)


def test_a_task_about_texts_has_plain_logits(tokenizer):
    from tiny import make_classifier

    model = make_classifier(layers=1, hidden=16)
    inputs = dict(tokenizer("the film is good", return_tensors="pt"))
    row = torch.zeros(1, dtype=torch.int64)
    batch = Batch(TaskInfo(kind="classify", labels=("a", "b")), row, row, row.bool(), inputs)
    found = forward(model, batch)
    assert torch.equal(found.logits, model(**inputs).logits)
    assert not found.tokens.features.numel()


@pytest.mark.parametrize("side", ["right", "left"])
def test_of_texts_only_the_asked_layers_are_shown(side):
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(MASKED["bert"]).eval()
    ids = torch.tensor([[1, 5, 6, 2, 0], [1, 7, 8, 9, 2]])
    mask = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]])
    if side == "left":
        ids[0], mask[0] = ids[0].roll(1), mask[0].roll(1)
    inputs = {"input_ids": ids, "attention_mask": mask}
    batch = Batch(TaskInfo(kind="classify", labels=("a", "b")), torch.arange(2), torch.zeros(2), torch.ones(2), inputs)
    states = model(**inputs, output_hidden_states=True).hidden_states
    ask = Request(Want.HIDDEN | Want.POOLED, hidden=(2,), pooled=(0, 1))
    for pool in ("cls", "mean"):
        found = forward(model, batch, replace(ask, pool=pool))
        assert [x.numel() > 0 for x in found.hidden] == [False, False, True]
        assert [x.numel() > 0 for x in found.pooled] == [True, True, False]
        first = int(side == "left")
        present = slice(first, first + 4)
        expected = states[1][0, first] if pool == "cls" else states[1][0, present].mean(0)
        assert torch.allclose(found.pooled[1][0], expected, atol=1e-6)
        assert torch.equal(found.hidden[2], states[2])
    assert forward(model, batch).hidden == forward(model, batch).pooled == ()
