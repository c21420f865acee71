"""Layers that passes make: what they compute, how they are described, rebuilt, saved and opened again."""

import copy
import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModel, AutoModelForSequenceClassification, LlamaConfig, LlamaForCausalLM

import limbeck
from limbeck import LowRank, Magnitude, Mask, Quantize
from limbeck.core.errors import ModelError
from limbeck.core.layers import LowRankEmbedding, QuantizedEmbedding, QuantizedLinear, dense, layers_of, rebuild
from limbeck.measure.size import count_parameters, weight_bytes
from limbeck.students.load import load
from limbeck.students.model_folder import save_folder
from limbeck.students.shrink import Shrink, shrink
from students.tiny_encoders import batch, classifier
from students.tiny_encoders import tokenizer as make_tokenizer
from tiny_language import make_masked
from tiny_reverser import make_marian

IDS = torch.tensor([[5, 6, 7, 8], [9, 10, 11, 12]])


def make_llama():
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=60, intermediate_size=48, **sizes)).eval()


def make_gpt2():
    from tiny_language import byte_level, make_causal

    return make_causal(byte_level(), hidden=32)


MODELS = {
    **{name: (lambda name=name: classifier(name)) for name in ("bert", "electra", "distilbert", "albert")},
    "shared": lambda: Shrink(groups=2, embedding=8).build(classifier("bert"))[0].eval(),
    "masked": lambda: make_masked(hidden=32),
    "marian": make_marian,
    "gpt2": make_gpt2,
    "llama": make_llama,
}
CHAINS = {
    "lowrank": [LowRank(ratio=0.6)],
    "int8": [Quantize(affine=False)],
    "int4": [Quantize(bits=4, group=32)],
    "both": [LowRank(ratio=0.6), Quantize(bits=4)],
}
CASES = [(name, chain) for name in MODELS for chain in (CHAINS if name == "bert" else ("int8", "both"))]


def inputs(model):
    if model.config.is_encoder_decoder:
        return {"input_ids": IDS, "decoder_input_ids": IDS[:, :3]}
    return batch() if model.config.vocab_size == 100 else {"input_ids": IDS}


@torch.no_grad()
def logits(model):
    return model(**inputs(model)).logits


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return make_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def saved(tmp_path_factory, tokenizer):
    """Every model after every chain: saved once."""
    made = {}

    def find(name, chain):
        if (name, chain) not in made:
            model = MODELS[name]()
            small = limbeck.compress(model, CHAINS[chain])
            folder = tmp_path_factory.mktemp(f"{name}-{chain}") / "model"
            small.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            made[name, chain] = (model, small, folder)
        return made[name, chain]

    return find


@pytest.mark.parametrize(("name", "chain"), CASES)
def test_a_saved_model_opens_to_the_same_bits(name, chain, saved):
    model, small, folder = saved(name, chain)
    opened, _ = limbeck.load(folder)
    assert type(opened) is type(small) is not type(model)
    assert torch.equal(logits(opened), logits(small))
    assert layers_of(opened) == layers_of(small) != {}
    assert not opened.training
    assert count_parameters(opened) == count_parameters(small)
    assert (
        json.loads((folder / "config.json").read_text())["model_type"]
        == f"limbeck-compressed-{model.config.model_type}"
    )


@pytest.mark.parametrize(("name", "chain"), CASES)
def test_it_computes_what_its_dense_copy_does(name, chain, saved):
    model, small, _ = saved(name, chain)
    before = torch.get_rng_state()
    ordinary = dense(small)
    assert torch.equal(torch.get_rng_state(), before)
    assert type(ordinary) is type(model)
    assert ordinary.config.model_type == model.config.model_type
    assert not hasattr(ordinary.config, "compressed_layers")
    assert layers_of(ordinary) == {}
    assert [name for name, _ in ordinary.named_parameters()] == [name for name, _ in model.named_parameters()]
    exact = not any(entry["type"].startswith("LowRank") for entry in layers_of(small).values())
    difference = (logits(ordinary) - logits(small)).abs().max() / logits(model).abs().max()
    assert difference == 0 if exact else difference < 1e-5


def test_files_shrink_as_computed(saved, tmp_path):
    """8 bits: a byte per weight and 4 per channel; 4 bits: half a byte, and 4 and 1 for each group of 32."""
    model, _, int8 = saved("bert", "int8")
    int4 = saved("bert", "int4")[2]
    model.save_pretrained(tmp_path)
    matrices = [one.weight for one in model.modules() if isinstance(one, nn.Linear | nn.Embedding)]
    others = sum(one.numel() for one in model.parameters()) - sum(one.numel() for one in matrices)
    head = model.classifier.weight
    expected8 = sum(one.numel() + 4 * len(one) for one in matrices) + 4 * others
    rest = [one for one in matrices if one is not head]
    expected4 = sum(one.numel() // 2 + 5 * len(one) * -(-one.shape[1] // 32) for one in rest) + 4 * (
        others + head.numel()
    )
    for folder, expected in ((int8, expected8), (int4, expected4)):
        tensors = load_file(folder / "model.safetensors")
        assert sum(one.numel() * one.element_size() for one in tensors.values()) == expected
        assert expected < weight_bytes(folder) < expected + 20_000  # the header names the tensors
    assert count_parameters(saved("bert", "int8")[1]) == count_parameters(model)
    lowrank = saved("bert", "lowrank")[1]
    assert sum(one.numel() for one in lowrank.parameters()) < sum(one.numel() for one in model.parameters())


def test_a_table_that_the_head_shares_is_quantised_once_and_never_factored(saved):
    for name in ("masked", "marian", "gpt2"):
        model, small, folder = saved(name, "both")
        tables = [
            one for one in small.modules() if isinstance(one, QuantizedEmbedding | QuantizedLinear) and one.holder
        ]
        assert tables
        words = small.get_input_embeddings()
        assert isinstance(words, QuantizedEmbedding)
        assert small.get_output_embeddings().table is words.table
        assert not any(isinstance(one, LowRankEmbedding) for one in small.modules())
        assert (words.padding_idx, words.embed_scale) == (
            model.get_input_embeddings().padding_idx,
            float(getattr(model.get_input_embeddings(), "embed_scale", 1.0)),
        )
        assert sum(key.endswith("codes") for key in load_file(folder / "model.safetensors")) == len(
            {id(one.table) for one in small.modules() if isinstance(one, QuantizedEmbedding | QuantizedLinear)}
        )


def test_a_translator_writes_the_same(saved):
    _, small, folder = saved("marian", "int8")
    opened, _ = limbeck.load(folder)
    how = {"max_new_tokens": 6, "num_beams": 2}
    assert torch.equal(opened.generate(IDS, **how), small.generate(IDS, **how))
    assert torch.equal(dense(small).generate(IDS, **how), small.generate(IDS, **how))


def test_padding_is_zero_and_stays_so():
    model = nn.Sequential(nn.Embedding(40, 16, padding_idx=3))
    for one in (LowRank(rank=4), Quantize()):
        small = limbeck.compress(model, [one])
        assert small[0].padding_idx == 3
        assert not small(torch.tensor([3])).any()
        assert small(torch.tensor([4])).any()


def test_a_description_is_json_and_rebuilds_empty_layers_that_weights_fit(saved):
    model, small, _ = saved("masked", "both")
    description = json.loads(json.dumps(layers_of(small)))
    again = copy.deepcopy(model)
    before = torch.get_rng_state()
    rebuild(again, description)
    assert torch.equal(torch.get_rng_state(), before)  # no numbers are drawn
    again.load_state_dict(small.state_dict())
    assert torch.equal(logits(again), logits(small))
    rebuild(again, description)  # what is there stays
    assert torch.equal(logits(again), logits(small))


def test_a_description_that_does_not_fit_is_refused_by_name(saved):
    model, small, _ = saved("bert", "lowrank")
    good = layers_of(small)
    name = next(iter(good))
    for wrong in (
        {f"{name}.nowhere": good[name]},
        {name: good[name] | {"in_features": 7}},
        {name: good[name] | {"type": "Linear"}},
        {name: good[name] | {"colour": 1}},
        {name: good[name] | {"rank": "many"}},
        {"bert.encoder": good[name]},
        {"classifier": layers_of(saved("bert", "int8")[1])["bert.embeddings.word_embeddings"]},
    ):
        with pytest.raises(ModelError, match=next(iter(wrong))):
            rebuild(copy.deepcopy(model), wrong)
    with pytest.raises(ModelError, match="is not in the description"):
        rebuild(copy.deepcopy(small), {})


def test_a_rebuilt_model_is_saved_as_what_it_is(saved, tokenizer, tmp_path):
    """As a trial that is resumed has it: an ordinary class, and layers from a step's file."""
    model, small, _ = saved("bert", "int8")
    again = copy.deepcopy(model)
    rebuild(again, layers_of(small))
    again.load_state_dict(small.state_dict())
    save_folder(again, tokenizer, tmp_path)
    assert torch.equal(logits(limbeck.load(tmp_path)[0]), logits(small))


def test_a_weight_too_few_too_many_or_of_another_shape_is_refused_by_name(saved, tokenizer, tmp_path):
    weights = load_file(saved("bert", "int8")[2] / "model.safetensors")
    config = json.loads((saved("bert", "int8")[2] / "config.json").read_text())
    name = "bert.encoder.layer.1.attention.self.query.codes"

    def refused(words, weights, config):
        folder = tmp_path / "model"
        folder.mkdir(exist_ok=True)
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        (folder / "config.json").write_text(json.dumps(config))
        tokenizer.save_pretrained(folder)
        with pytest.raises(ModelError, match=words):
            limbeck.load(folder)

    refused(f"lacks {name},", {key: value for key, value in weights.items() if key != name}, config)
    refused("has bert.more,", weights | {"bert.more": torch.zeros(2)}, config)
    refused(f"has {name} of another shape", weights | {name: weights[name][:5]}, config)
    layers = dict(config["compressed_layers"])
    del layers["bert.encoder.layer.1.attention.self.query"]
    refused("lacks bert.encoder.layer.1.attention.self.query.weight", weights, config | {"compressed_layers": layers})
    refused("cannot be opened|cannot be made", weights, config | {"compressed_layers": [1]})
    refused("bert.encoder.nowhere", weights, config | {"compressed_layers": layers | {"bert.encoder.nowhere": {}}})
    refused("cannot be opened", weights, config | {"model_type": "limbeck-compressed-nothing"})
    refused("does not name the class", weights, config | {"architectures": []})


def test_ordinary_folders_open_strictly_too(tokenizer, tmp_path):
    model = classifier("bert")
    save_folder(model, tokenizer, tmp_path)
    opened, _ = limbeck.load(tmp_path)
    assert type(opened) is type(model)
    assert torch.equal(logits(opened), logits(model))
    weights = load_file(tmp_path / "model.safetensors")
    save_file(
        {key: value for key, value in weights.items() if key != "classifier.bias"}, tmp_path / "model.safetensors"
    )
    with pytest.raises(ModelError, match=r"lacks classifier\.bias"):
        limbeck.load(tmp_path)


def test_it_opens_with_another_head_and_with_none(saved):
    _, small, folder = saved("bert", "int8")
    base = AutoModel.from_pretrained(folder)
    states = base(**batch(), output_hidden_states=True).hidden_states
    expected = small(**batch(), output_hidden_states=True).hidden_states
    assert all(torch.equal(a, b) for a, b in zip(states, expected, strict=True))
    torch.manual_seed(0)
    labels = limbeck.core.task.TaskInfo("classify", ("a", "b"))
    other, _ = load(folder, "classify", labels, new_head=True)  # 2 labels instead of 3
    assert isinstance(other.classifier, nn.Linear)
    assert other(**batch()).logits.shape == (3, 2)
    assert torch.equal(other.bert(**batch())[0], base(**batch())[0])
    same, _ = load(folder, "classify")
    assert torch.equal(logits(same), logits(small))


def test_hidden_states_of_a_bare_encoder_are_there_after_a_pass():
    base = classifier("bert").bert
    small = limbeck.compress(base, [Quantize()])
    assert len(small(**batch(), output_hidden_states=True).hidden_states) == 5


def test_a_student_shrinks_from_what_the_layers_stand_for(saved):
    _, small, _ = saved("bert", "int8")
    student = shrink(small, layers=2)
    assert layers_of(student) == {}
    assert torch.equal(student.bert.embeddings.word_embeddings.weight, small.bert.embeddings.word_embeddings.weight)


def test_factors_learn_and_integers_do_not(saved):
    small = copy.deepcopy(saved("bert", "both")[1]).train()
    small(**batch(), labels=torch.tensor([0, 1, 2])).loss.backward()
    assert small.classifier.weight.grad.any()
    layer = small.bert.encoder.layer[0].attention.self.query
    assert all(isinstance(one, QuantizedLinear) for one in (layer.first, layer.second))
    assert layer.second.bias.grad.any()
    plain = copy.deepcopy(saved("bert", "lowrank")[1]).train()
    plain(**batch(), labels=torch.tensor([0, 1, 2])).loss.backward()
    layer = plain.bert.encoder.layer[0].intermediate.dense
    assert layer.first.weight.grad.any()
    assert layer.second.weight.grad.any()


def test_pruned_weights_stay_zero_and_the_mask_loses_what_is_gone():
    model = classifier("bert")
    mask = Magnitude(0.5).apply(model, Mask()).mask
    change = Quantize().apply(model, mask)
    assert change.mask.live == {}
    query = model.bert.encoder.layer[0].attention.self.query
    assert not query.weight[~mask.live["bert.encoder.layer.0.attention.self.query.weight"]].any()
    change.mask.hold(model)


def test_a_model_with_code_of_its_own_is_refused_before_it_is_changed():
    own = type("Own", (type(classifier("bert")),), {"__module__": "somewhere"})
    model = classifier("bert")
    model.__class__ = own
    with pytest.raises(ModelError, match="Own is neither an architecture of transformers"):
        Quantize().apply(model, Mask())
    assert layers_of(model) == {}


@pytest.mark.slow
def test_transformers_without_limbeck_refuses_the_folder(saved):
    import subprocess
    import sys

    folder = saved("bert", "int8")[2]
    code = (
        "import sys\nfrom transformers import AutoModelForSequenceClassification as Auto\n"
        "try:\n    Auto.from_pretrained(sys.argv[1])\nexcept ValueError as error:\n"
        "    assert 'limbeck' not in sys.modules\n    print('refused:', error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("refused:")
    assert "limbeck-compressed-bert" in done.stdout


def test_the_auto_classes_open_it_once_limbeck_has_opened_it(saved):
    _, small, folder = saved("distilbert", "int8")
    limbeck.load(folder)
    assert torch.equal(logits(AutoModelForSequenceClassification.from_pretrained(folder)), logits(small))
