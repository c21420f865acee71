"""MobileBERT: the published counts, what it takes from its teacher, and that its parts do what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers as hf

from limbeck.core.errors import KnobError, ModelError
from limbeck.students.inherit import reinit
from limbeck.students.mobilebert import ib_teacher
from limbeck.students.shrink import Shrink
from limbeck.students.sizes import shape_of
from students.tiny_encoders import COMMON, LABELS, SIZES, batch, classifier, logits

KINDS = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMaskedLM", "Model")


def parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def bert(kind: str = "ForSequenceClassification", **config) -> hf.PreTrainedModel:
    torch.manual_seed(0)
    ends = {"id2label": {0: "start", 1: "end"}} if kind == "ForQuestionAnswering" else {}
    return getattr(hf, f"Bert{kind}")(hf.BertConfig(**{**COMMON, **SIZES, **ends, **config})).eval()


def mobile(teacher: hf.PreTrainedModel, **how):
    return Shrink(family="mobilebert", **how).build(teacher)


def wide_inside(kind: str = "ForSequenceClassification", layers: int = 3) -> hf.PreTrainedModel:
    torch.manual_seed(0)
    config = ib_teacher(vocab_size=100, layers=layers, hidden=32, heads=4, inside=64, feed_forward=128)
    config.id2label = LABELS
    return getattr(hf, f"MobileBert{kind}")(config).eval()


@torch.no_grad()
def embedded(model: hf.PreTrainedModel, ids: torch.Tensor) -> torch.Tensor:
    return getattr(model, model.base_model_prefix).embeddings(ids)


@pytest.mark.parametrize("inverted", [True, False])
def test_the_counts_of_mobilebert(inverted: bool) -> None:
    sizes = {"num_hidden_layers": 24, "hidden_size": 512, "num_attention_heads": 4, "intermediate_size": 2048}
    with torch.device("meta"):
        teacher = hf.MobileBertModel(ib_teacher()) if inverted else hf.BertModel(hf.BertConfig(**sizes))
    student, _ = mobile(teacher)
    assert student.device.type == "meta"
    assert parameters(student) == 24_844_544
    assert parameters(student) - parameters(student.pooler) == 24_581_888
    assert {parameters(layer) for layer in student.encoder.layer} == {842_240}
    assert parameters(student.embeddings) == 4_368_128


def test_the_inverted_bottleneck_is_as_near_as_transformers_comes() -> None:
    with torch.device("meta"):
        assert parameters(hf.MobileBertModel(ib_teacher())) == 332_216_576
    narrow = ib_teacher(vocab_size=50, layers=1, hidden=32, heads=4, inside=64, feed_forward=128)
    assert hf.MobileBertModel(narrow)(torch.tensor([[1, 2, 3]])).last_hidden_state.shape == (1, 3, 32)
    narrow.use_bottleneck_attention = False  # as published: queries and keys from the narrow stream
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        hf.MobileBertModel(narrow)(torch.tensor([[1, 2, 3]]))


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_mobilebert_all_but_the_layers_is_copied(kind: str) -> None:
    teacher = wide_inside(kind)
    student, inheritance = mobile(teacher)
    theirs, mine = teacher.state_dict(), student.state_dict()
    outside = [name for name in mine if ".encoder." not in f".{name}"]
    assert inheritance.whole == len(outside) > 0
    assert (inheritance.sliced, inheritance.layers, inheritance.dropped) == (0, [], [])
    assert all(torch.equal(mine[name], theirs[name]) for name in outside)
    assert set(inheritance.fresh) == mine.keys() - set(outside)
    assert "layers of its own" in inheritance.sentence()


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_bert_it_answers_saves_and_opens(kind: str, tmp_path: Path) -> None:
    teacher = bert(kind)
    student, inheritance = mobile(teacher, layers=2)
    assert type(student).__name__ == f"MobileBert{kind}"
    shape = shape_of(student)
    assert (shape.layers, shape.hidden, shape.heads, shape.feed_forward) == (2, 32, 4, 32)
    assert student.config.intra_bottleneck_size == student.config.embedding_size == 8
    if kind == "ForSequenceClassification":
        assert torch.equal(student.classifier.weight, teacher.classifier.weight)
        assert torch.equal(student.mobilebert.pooler.dense.weight, teacher.bert.pooler.dense.weight)
    if kind == "ForMaskedLM":
        assert student.get_output_embeddings().weight is student.get_input_embeddings().weight
        assert "cls.predictions.transform.dense.weight" in inheritance.fresh
    other = reinit(student, inheritance.fresh)
    table = student.get_input_embeddings().weight
    assert torch.equal(other.get_input_embeddings().weight, table)
    student.save_pretrained(tmp_path)
    opened = type(student).from_pretrained(tmp_path).eval()
    with torch.no_grad():
        for ours, theirs in zip(opened(**batch()).values(), student(**batch()).values(), strict=True):
            assert torch.isfinite(ours).all()
            assert torch.equal(ours, theirs)


def test_berts_embeddings_come_over_up_to_the_length_of_each_token() -> None:
    """With room for all directions: the same direction as the teacher's normed embedding, of its mean length."""
    teacher = bert()
    tables = teacher.bert.embeddings
    student, inheritance = mobile(teacher, embedding=32)
    assert inheritance.sliced == 6
    ids = torch.arange(3, 30)[None]
    ours, theirs = embedded(student, ids)[0], embedded(teacher, ids)[0]
    assert torch.cosine_similarity(ours, theirs).min() > 0.9999  # norms of a fresh BERT are 1 and 0
    assert ours.norm(dim=-1).mean() == pytest.approx(theirs.norm(dim=-1).mean().item(), rel=0.1)
    assert tables.word_embeddings.weight.std() < 0.03
    narrow = embedded(mobile(teacher, embedding=24)[0], ids)[0]
    assert 0.8 < torch.cosine_similarity(narrow, theirs).mean() < 0.9999


def test_no_norm_starts_as_the_identity() -> None:
    student, _ = mobile(wide_inside())
    norms = [part for part in student.mobilebert.encoder.modules() if type(part).__name__ == "NoNorm"]
    assert len(norms) == 3 * 8  # in a layer: after attention, after each of 4 feed-forwards, at each of 3 bottlenecks
    for norm in norms:
        states = torch.randn(2, 3, len(norm.weight))
        assert torch.equal(norm(states), states)


def test_a_trigram_sees_its_neighbours_and_zeros_beyond_the_ends() -> None:
    student, _ = mobile(wide_inside())
    layer = student.mobilebert.embeddings
    seen: list[torch.Tensor] = []
    layer.embedding_transformation.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    words = layer.word_embeddings.weight
    embedded(student, torch.tensor([[7]]))
    zeros = torch.zeros(8)
    torch.testing.assert_close(seen[0][0, 0], torch.cat([zeros, words[7], zeros]))
    embedded(student, torch.tensor([[7, 8, 9]]))
    torch.testing.assert_close(seen[1][0, 0], torch.cat([words[8], words[7], zeros]))
    torch.testing.assert_close(seen[1][0, 1], torch.cat([words[9], words[8], words[7]]))
    torch.testing.assert_close(seen[1][0, 2], torch.cat([zeros, words[9], words[8]]))


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"bottleneck": 16, "feed_forwards": 2}, {"intra_bottleneck_size": 16, "intermediate_size": 64}),
        ({"feed_forward": 20}, {"intermediate_size": 20, "num_feedforward_networks": 4}),
        ({"heads": 2, "embedding": 5}, {"num_attention_heads": 2, "hidden_size": 32, "embedding_size": 5}),
        ({"keep": "0,2,3"}, {"num_hidden_layers": 3}),
    ],
)
def test_its_knobs(how: dict, expected: dict[str, int]) -> None:
    student, _ = mobile(bert(), **how)
    assert {name: getattr(student.config, name) for name in expected} == expected
    assert torch.isfinite(logits(student)).all()
    if "feed_forwards" in how:
        assert len(student.mobilebert.encoder.layer[0].ffn) == 1


def test_what_a_mobilebert_cannot_be() -> None:
    with pytest.raises(ModelError, match=r"not from RobertaForSequenceClassification\n.*family same"):
        mobile(classifier("roberta"))
    with pytest.raises(KnobError, match=r"as wide as its teacher, 32.*\n.*bottleneck"):
        mobile(bert(), hidden=16)
    with pytest.raises(KnobError, match="multiple of 4"):
        mobile(bert(), bottleneck=10)
    with pytest.raises(KnobError, match="at most 32"):
        mobile(bert(), embedding=33)
    with pytest.raises(KnobError, match=r"'student.bottleneck' has no effect for family 'same'\n.*family mobilebert"):
        Shrink(bottleneck=8, family="same").build(bert())
