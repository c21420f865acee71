"""An ONNX graph answers as its source: for every family and head, for any batch, length and padding."""

import warnings
from functools import cache

import numpy as np
import onnxruntime
import pytest
import torch
import transformers as hf

from limbeck.core.errors import ModelError
from limbeck.exporters.onnx import onnx_graph
from limbeck.exporters.onnx_quantize import LEVELS, quantizable, quantize, rounded
from limbeck.students.bilstm import to_bilstm
from limbeck.students.shrink import Shrink, shrink
from tiny import VOCABULARY, make_classifier, make_tokenizer

COMMON = {"vocab_size": len(VOCABULARY), "max_position_embeddings": 64, "pad_token_id": 0}
SIZES = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48}
RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False}
CONFIGS = {
    "bert": lambda: hf.BertConfig(**COMMON, **SIZES),
    "roberta": lambda: hf.RobertaConfig(**COMMON, **SIZES, type_vocab_size=1),
    "distilbert": lambda: hf.DistilBertConfig(**COMMON, n_layers=2, dim=32, n_heads=4, hidden_dim=48),
    "electra": lambda: hf.ElectraConfig(**COMMON, **SIZES, embedding_size=16),
    "mpnet": lambda: hf.MPNetConfig(**COMMON, **SIZES),
    "albert": lambda: hf.AlbertConfig(**COMMON, **SIZES, embedding_size=16),
    "mobilebert": lambda: hf.MobileBertConfig(**COMMON, **SIZES, embedding_size=16, intra_bottleneck_size=16),
    # The one that cannot be traced: torch's newer exporter takes its time.
    "deberta": lambda: hf.DebertaConfig(**COMMON, **{**SIZES, "num_hidden_layers": 1}, **RELATIVE),
    "deberta-v3": lambda: hf.DebertaV2Config(
        **COMMON, **SIZES, **RELATIVE, share_att_key=True, norm_rel_ebd="layer_norm", position_buckets=8
    ),
    "modernbert": lambda: hf.ModernBertConfig(**COMMON, **SIZES, local_attention=8, global_attn_every_n_layers=2),
}
HEADS = {
    "classify": hf.AutoModelForSequenceClassification,
    "tag": hf.AutoModelForTokenClassification,
    "answer": hf.AutoModelForQuestionAnswering,
    "mask-fill": hf.AutoModelForMaskedLM,
}
CASES = [(family, "classify") for family in (*CONFIGS, "bilstm", "bilstm-pairs", "shared")]
CASES += [(family, kind) for family in ("bert", "modernbert") for kind in ("tag", "answer", "mask-fill")]
SHAPES = ((1, 1), (1, 5), (4, 13), (3, 40))


def spread(model):
    """Weights of a size that shows in the outputs."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.2 * torch.randn_like(parameter) + (parameter.dim() == 1) * 0.3)
    return model.eval()


def network(family, kind):
    if family.startswith("bilstm"):
        return spread(to_bilstm(make_classifier(), Shrink(family="bilstm"), make_tokenizer(), "pairs" in family)[0])
    if family == "shared":
        return shrink(spread(make_classifier()), make_tokenizer(), groups=2).eval()
    return spread(HEADS[kind].from_config(CONFIGS[family]()))


@cache
def exported(family, kind):
    model = network(family, kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model, onnx_graph(model, make_tokenizer(), kind)


def session_of(graph):
    return onnxruntime.InferenceSession(graph.copy().model().SerializeToString(), providers=["CPUExecutionProvider"])


def batch(texts, length, seed=0):
    draw = np.random.default_rng(seed)
    ids = draw.integers(5, len(VOCABULARY), (texts, length))
    mask = np.ones_like(ids)
    for row in range(1, texts):
        mask[row, max(1, length - 3 * row) :] = 0
    segments = (np.arange(length) > length // 2).astype(np.int64) * mask
    return {"input_ids": ids * mask, "attention_mask": mask, "token_type_ids": segments}


def both(model, session, arrays, kind):
    """What source and graph say, without padding."""
    names = [each.name for each in session.get_inputs()]
    arrays = {name: arrays[name] for name in names}
    with torch.no_grad():
        found = model(**{name: torch.from_numpy(value) for name, value in arrays.items()})
    outputs = [each.name for each in session.get_outputs()]
    ours, theirs = [found[name].numpy() for name in outputs], session.run(None, arrays)
    if kind != "classify":
        real = arrays["attention_mask"].astype(bool)
        ours, theirs = ([x[real] for x in side] for side in (ours, theirs))
    return np.stack(ours), np.stack(theirs)


@pytest.mark.parametrize(("family", "kind"), CASES)
def test_a_graph_gives_the_logits_of_its_source(family, kind):
    model, graph = exported(family, kind)
    session = session_of(graph)
    for shape in SHAPES:
        ours, theirs = both(model, session, batch(*shape), kind)
        assert np.abs(ours - theirs).max() <= 1e-4 * np.abs(ours).max()
        assert np.abs(ours).max() > 0.01


@pytest.mark.parametrize(("family", "kind"), [("bert", "classify"), ("bert", "tag"), ("bilstm", "classify")])
def test_a_text_alone_has_the_logits_it_has_in_a_padded_batch(family, kind):
    session, arrays = session_of(exported(family, kind)[1]), batch(4, 13)
    together = session.run(None, {each.name: arrays[each.name] for each in session.get_inputs()})[0]
    for row in range(4):
        real = arrays["attention_mask"][row].astype(bool)
        one = {each.name: arrays[each.name][row : row + 1, real] for each in session.get_inputs()}
        alone = session.run(None, one)[0][0]
        expected = together[row] if kind == "classify" else together[row][real]
        assert np.allclose(alone, expected, atol=1e-5)


class Bessel(torch.nn.Module):
    """A function that ONNX has no operator for."""

    def forward(self, x):
        return torch.special.bessel_j0(x)


def test_an_operator_that_onnx_lacks_is_refused(capfd):
    model = make_classifier()
    model.bert.embeddings.LayerNorm = Bessel()
    with pytest.raises(ModelError, match=r"BertForSequenceClassification cannot be exported to ONNX: .") as refused:
        onnx_graph(model, make_tokenizer(), "classify")
    assert "another architecture" in refused.value.remedy
    assert "graph(" not in "".join(capfd.readouterr())


def test_names_are_those_that_optimum_expects():
    for family, kind in (("bert", "answer"), ("distilbert", "classify"), ("roberta", "classify")):
        session = session_of(exported(family, kind)[1])
        inputs = ["input_ids", "attention_mask"] + ["token_type_ids"] * (family == "bert")
        assert sorted(each.name for each in session.get_inputs()) == sorted(inputs)
        outputs = ["start_logits", "end_logits"] if kind == "answer" else ["logits"]
        assert [each.name for each in session.get_outputs()] == outputs


def test_a_graph_has_no_node_that_a_small_model_would_feel():
    nodes = [node.op_type for node in exported("bert", "classify")[1].copy().model().graph.node]
    assert nodes.count("MultiHeadAttention") == 2
    assert nodes.count("LayerNormalization") == nodes.count("Sum") == 5
    assert not {"If", "Loop", "Reshape", "Transpose", "Where", "Expand", "Softmax", "Constant", "Identity"} & {*nodes}
    assert len(nodes) <= 50


def test_the_last_layer_computes_the_first_token_alone_where_the_head_reads_no_other():
    """Its feed-forward and its queries read [batch, 1, width]: what other tokens would be there does not exist."""
    for kind, single in (("classify", True), ("tag", False)):
        graph = exported("bert", kind)[1]
        last = [node for node in graph.nodes if node.op_type == "MultiHeadAttention"][-1]
        query, key = (next(node for node in graph.nodes if last.input[n] in node.output) for n in (0, 1))
        assert (query is not key) == single


def test_layers_that_share_weights_share_them_in_the_file():
    model, graph = exported("shared", "classify")
    numbers = sum(x.numel() for x in model.parameters())  # each once
    assert sum(x.size for x in graph.copy().weights.values()) >= numbers  # torch writes one for each use
    written = sum(int(np.prod(x.dims)) for x in graph.copy().model().graph.initializer)
    assert written < numbers + 200


def test_rounding_to_integers_has_at_most_half_a_step_of_error_inside_its_clip():
    rows = np.random.default_rng(0).normal(size=(7, 33)).astype(np.float32)
    values, scales = rounded(rows, LEVELS)
    assert np.abs(values).max() <= LEVELS
    inside = np.abs(rows) <= scales[:, None] * LEVELS
    assert (np.abs(values * scales[:, None] - rows)[inside] <= (scales[:, None] / 2 + 1e-6).repeat(33, 1)[inside]).all()
    plain = np.abs(rows).max(1, keepdims=True) / LEVELS
    error = np.square(values * scales[:, None] - rows).sum(1)
    assert (error <= np.square(np.rint(rows / plain) * plain - rows).sum(1) + 1e-6).all()
    assert (rounded(np.zeros((2, 8), np.float32), LEVELS)[0] == 0).all()


@pytest.mark.parametrize(("bits", "smaller", "noise"), [(8, 0.45, 0.05), (4, 0.4, 0.5)])
@pytest.mark.parametrize("family", ["bert", "bilstm"])
def test_integers_are_smaller_and_near(family, bits, smaller, noise):
    model, graph = exported(family, "classify")
    some = graph.copy()
    quantize(some, bits)
    assert quantizable(some) == []
    assert some.copy().model().ByteSize() < smaller * graph.copy().model().ByteSize()
    ours, theirs = both(model, session_of(some), batch(4, 13), "classify")
    assert np.square(ours - theirs).mean() <= noise * np.square(ours).mean()
    assert not np.array_equal(ours, theirs)


def test_what_is_to_stay_float_stays_float():
    _, graph = exported("bert", "classify")
    some = graph.copy()
    names = quantizable(some)
    quantize(some, 8, leave=names)
    assert some.copy().model().SerializeToString() == graph.copy().model().SerializeToString()
    quantize(some, 8, leave=names[1:])
    assert quantizable(some) == names[1:]
