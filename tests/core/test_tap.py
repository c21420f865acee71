"""The tap: real architectures, recorded without moving what they say."""

import copy
import threading

import pytest
import torch
from transformers import (
    AlbertConfig,
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    BartConfig,
    BertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    Gemma2Config,
    GPT2Config,
    LlamaConfig,
    MobileBertConfig,
    ModernBertConfig,
    MPNetConfig,
    RobertaConfig,
    T5Config,
    T5EncoderModel,
)

from limbeck.core.errors import ModelError
from limbeck.core.tap import NAME, install, tapped, uninstall
from limbeck.core.trace import ATTENTION_PARTS, Request, Want

LAYERS, HEADS, LENGTH = 3, 4, 7
SHAPE = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 24,
}
BASE = SHAPE | {"max_position_embeddings": 32, "pad_token_id": 0}
ENDS = {"bos_token_id": 1, "eos_token_id": 2}
CONFIGS = {
    "bert": BertConfig(**BASE),
    "roberta": RobertaConfig(**BASE),
    "distilbert": DistilBertConfig(vocab_size=50, dim=16, n_layers=LAYERS, n_heads=HEADS, hidden_dim=24),
    "electra": ElectraConfig(**BASE, embedding_size=8),
    "albert": AlbertConfig(**BASE, embedding_size=8),
    "modernbert": ModernBertConfig(**BASE, **ENDS, cls_token_id=1, sep_token_id=2, local_attention=4),
    "mobilebert": MobileBertConfig(**SHAPE, embedding_size=8, intra_bottleneck_size=16),
    "gpt2": GPT2Config(vocab_size=50, n_embd=16, n_layer=LAYERS, n_head=HEADS, **ENDS),
    "llama": LlamaConfig(**BASE, **ENDS, num_key_value_heads=2),
}
REFUSED = {
    "mpnet": MPNetConfig(**BASE),
    "deberta-v2": DebertaV2Config(**BASE),
    "gemma2": Gemma2Config(**BASE, **ENDS, head_dim=4, num_key_value_heads=2),
    "t5": T5Config(vocab_size=50, d_model=16, d_kv=4, d_ff=24, num_layers=2, num_heads=HEADS),
    "bart": BartConfig(vocab_size=50, d_model=16, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=24),
}
ALL = Request(ATTENTION_PARTS, heads=(1, 2, 3))


def build(name, attention=None, **changes):
    torch.manual_seed(0)
    config = copy.deepcopy((CONFIGS | REFUSED)[name])
    for key, value in changes.items():
        setattr(config, key, value)
    return AutoModel.from_config(config, attn_implementation=attention).eval()


def batch():
    ids = torch.randint(3, 50, (2, LENGTH), generator=torch.Generator().manual_seed(1))
    present = torch.ones_like(ids)
    present[1, 4:] = 0
    return {"input_ids": ids, "attention_mask": present}


def record(model, ask=ALL):
    seen = []
    with tapped(ask, seen):
        outputs = model(**batch())
    return outputs[0], seen


@pytest.mark.parametrize("name", CONFIGS)
def test_what_is_recorded_is_what_eager_attention_does(name):
    model, eager = install(build(name)), build(name, "eager")
    with torch.no_grad():
        found, seen = record(model)
        expected = eager(**batch(), output_attentions=True)
    assert torch.equal(found, expected[0])
    assert len(seen) == LAYERS
    for heads, weights in zip(seen, expected.attentions, strict=True):
        assert heads.scores.shape == (2, HEADS, LENGTH, LENGTH)
        assert heads.queries.shape == heads.keys.shape == heads.values.shape == (2, HEADS, LENGTH, 4)
        scores = heads.queries @ heads.keys.transpose(2, 3) / 2
        assert torch.allclose(heads.scores, scores, atol=1e-6)
        # A key is hidden where eager attention gives it nothing: padding, the future, what a window leaves out.
        hidden = weights == 0
        assert hidden[1, :, :4, 4:].all()
        found_weights = heads.scores.masked_fill(hidden, -1e9).softmax(-1)
        for text, tokens in enumerate((LENGTH, 4)):
            assert torch.allclose(found_weights[text, :, :tokens], weights[text, :, :tokens], atol=1e-6)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(
    "ask",
    [
        Request(),
        Request(Want.VALUES, heads=(2,)),
        Request(Want.ATTENTION, heads=(3,)),
        Request(Want.LOGITS | Want.KEYS, heads=(1, 3)),
    ],
    ids=str,
)
def test_what_is_not_asked_for_is_empty_and_nothing_moves(name, ask):
    model, eager = install(build(name)), build(name, "eager")
    with torch.no_grad():
        found, seen = record(model, ask)
        expected = eager(**batch())[0]
    present = batch()["attention_mask"].bool()
    assert torch.allclose(found[present], expected[present], atol=1e-5)
    assert len(seen) == (LAYERS if ask.heads else 0)
    for layer, heads in enumerate(seen, start=1):
        shown = {
            Want.QUERIES: heads.queries,
            Want.KEYS: heads.keys,
            Want.VALUES: heads.values,
            Want.ATTENTION: heads.scores,
        }
        for want, tensor in shown.items():
            assert bool(tensor.numel()) == (layer in ask.heads and want in ask.want)


@pytest.mark.parametrize("name", CONFIGS)
def test_idle_it_is_the_attention_the_model_had(name):
    model, plain = install(build(name)), build(name)
    assert torch.equal(model(**batch())[0], plain(**batch())[0])


ONLY_ATTENTION = {"attention_probs_dropout_prob": 0.3, "hidden_dropout_prob": 0.0}


@pytest.mark.parametrize(
    ("name", "dropout"),
    [
        ("bert", ONLY_ATTENTION),
        ("bert", {}),
        ("albert", ONLY_ATTENTION),
        ("gpt2", {"attn_pdrop": 0.3, "embd_pdrop": 0.0, "resid_pdrop": 0.0}),
    ],
)
def test_dropout_is_that_of_eager_attention(name, dropout):
    model, eager = install(build(name, **dropout)).train(), build(name, "eager", **dropout).train()
    torch.manual_seed(3)
    found, _ = record(model)
    torch.manual_seed(3)
    assert torch.equal(found, eager(**batch())[0])
    torch.manual_seed(4)
    assert not torch.equal(found, eager(**batch())[0])


def test_values_alone_are_the_same_with_and_without_scores():
    model = install(build("llama"))
    _, alone = record(model, Request(Want.VALUES, heads=(1,)))
    _, both = record(model, Request(Want.VALUES | Want.ATTENTION, heads=(1,)))
    assert torch.equal(alone[0].values, both[0].values)
    assert torch.equal(alone[0].values[:, 0], alone[0].values[:, 1])  # two heads share one
    assert not torch.equal(alone[0].values[:, 1], alone[0].values[:, 2])


@pytest.mark.parametrize("part", ["queries", "keys", "values", "scores"])
def test_gradients_flow_through_what_is_recorded(part):
    model = install(build("bert"))
    _, seen = record(model)
    getattr(seen[1], part).square().sum().backward()
    first, second, third = (layer.attention.self for layer in model.encoder.layer)
    moved = {"queries": second.query, "keys": second.key, "values": second.value, "scores": second.key}[part]
    assert moved.weight.grad.abs().sum() > 0
    assert first.value.weight.grad.abs().sum() > 0
    assert third.query.weight.grad is None


def test_two_models_one_after_the_other_and_one_within_the_other():
    teacher, student = install(build("bert")), install(build("distilbert"))
    _, alone = record(student)
    outer, inner = [], []
    with tapped(ALL, outer):
        with tapped(Request(Want.KEYS, heads=(1,)), inner):
            teacher(**batch())
        with tapped(Request(), []):
            teacher(**batch())
        student(**batch())
    assert [heads.scores.numel() for heads in inner] == [0, 0, 0]
    assert len(outer) == LAYERS
    assert all(torch.equal(mine.scores, its.scores) for mine, its in zip(alone, outer, strict=True))


def test_nothing_is_recorded_outside_or_in_another_thread():
    model = install(build("bert"))
    seen = []
    with tapped(ALL, seen):
        other = threading.Thread(target=lambda: model(**batch()))
        other.start()
        other.join()
        assert seen == []
        model(**batch())
    model(**batch())
    assert len(seen) == LAYERS


def test_after_an_error_nothing_is_recorded():
    model = install(build("bert"))
    seen = []
    with pytest.raises(ZeroDivisionError), tapped(ALL, seen):
        raise ZeroDivisionError
    model(**batch())
    assert seen == []


def test_a_model_without_the_tap_is_not_taken_for_one_without_attention():
    with pytest.raises(ModelError, match=r"layer 3 .* 0 layers were seen"):
        record(build("bert"))


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_recorded_is_refused_by_name(name):
    model = build(name)
    before = model.config._attn_implementation
    inputs = batch() | ({"decoder_input_ids": batch()["input_ids"]} if model.config.is_encoder_decoder else {})
    said = model(**inputs)[0]
    with pytest.raises(ModelError, match=f"a {name} model") as refusal:
        install(model)
    assert "hinton" in refusal.value.remedy
    assert model.config._attn_implementation == before
    assert torch.equal(model(**inputs)[0], said)


def test_scores_with_a_bias_beside_the_mask_are_refused_however_small_it_is():
    config = copy.deepcopy(REFUSED["t5"])
    with pytest.raises(ModelError, match="scores are changed by position_bias"):
        install(T5EncoderModel(config).eval())


@pytest.mark.parametrize("change", ["scaled by what only it knows", "a bias beside the mask"])
def test_a_model_that_would_speak_differently_is_refused(change, monkeypatch):
    """Its eager attention does something that no argument of the interface tells."""
    from transformers.models.bert import modeling_bert

    honest = modeling_bert.eager_attention_forward

    def odd(module, query, key, value, mask, scaling=None, **kwargs):
        if change.startswith("scaled"):
            return honest(module, query * 1.5, key, value, mask, scaling, **kwargs)
        return honest(module, query, key, value, mask + torch.arange(mask.shape[-1]), scaling, **kwargs)

    monkeypatch.setattr(modeling_bert, "eager_attention_forward", odd)
    # At its first weights a model attends almost evenly; larger ones show the difference.
    model = build("bert", initializer_range=0.5)
    with pytest.raises(ModelError, match="outputs would move by"):
        install(model)


def test_the_probe_leaves_the_model_as_it_was():
    model = build("bert").train()
    model.encoder.eval()
    modes = [module.training for module in model.modules()]
    weights = copy.deepcopy(model.state_dict())
    state = torch.get_rng_state()
    install(model)
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions(dtype):
    model = install(build("bert").to(dtype))
    found, seen = record(model)
    assert seen[0].scores.dtype == found.dtype == dtype


def test_uninstall_restores_and_both_may_be_repeated():
    model = build("bert", "eager")
    assert install(install(model)).config._attn_implementation == NAME
    copied = copy.deepcopy(model)
    assert uninstall(uninstall(model)).config._attn_implementation == "eager"
    assert len(record(copied)[1]) == LAYERS
    assert uninstall(copied).config._attn_implementation == "eager"
    install(model)
    assert len(record(model)[1]) == LAYERS


def test_a_model_made_from_the_config_of_one_with_the_tap():
    model = AutoModel.from_config(install(build("bert")).config).eval()
    assert len(record(install(model))[1]) == LAYERS
    assert uninstall(model).config._attn_implementation == "sdpa"


def test_a_saved_model_knows_nothing_of_it(tmp_path):
    torch.manual_seed(0)
    model = install(AutoModelForSequenceClassification.from_config(copy.deepcopy(CONFIGS["bert"])).eval())
    model.save_pretrained(tmp_path)
    assert not [path for path in tmp_path.glob("*.json") if NAME in path.read_text() or "before" in path.read_text()]
    assert AutoConfig.from_pretrained(tmp_path)._attn_implementation is None
    opened = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert opened.config._attn_implementation == "sdpa"
    assert torch.equal(opened(**batch()).logits, model(**batch()).logits)
