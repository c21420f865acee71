"""A narrower stream: exact where the teacher only seems wide, near where it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers as hf

from limbeck.core.compress import Calibration
from limbeck.students.narrow import stream_of
from limbeck.students.shrink import Shrink
from limbeck.training.bridges import add_bridges, bridges_of, drop_bridges
from students.test_electra import EXACT, rows
from students.tiny_encoders import COMMON, SIZES, classifier


def seemingly_wide() -> hf.BertModel:
    """Width 32 with every coordinate there twice, plain norms, and two of four heads that write nothing."""
    torch.manual_seed(0)
    model = hf.BertModel(hf.BertConfig(**COMMON, **SIZES)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(0.3 * torch.randn_like(weight))
            if "LayerNorm" in name:
                weight.fill_(1.5 if name.endswith("weight") else 0.0)
            elif "embeddings" in name:
                weight.copy_(weight[:, ::2].repeat_interleave(2, 1))
            elif name.endswith(("output.dense.weight", "output.dense.bias")):
                weight.copy_(weight[::2].repeat_interleave(2, 0))
        for layer, heads in zip(model.encoder.layer, ((0, 1), (0, 2), (1, 3), (2, 3)), strict=True):
            for head in heads:
                layer.attention.output.dense.weight[:, 8 * head : 8 * head + 8] = 0
    return model


@torch.no_grad()
def gaps(teacher: hf.PreTrainedModel, student: hf.PreTrainedModel, shown: Calibration) -> list[float]:
    """Of the embeddings and each layer: the part that the student does not have."""
    stream = stream_of(student)
    assert stream is not None
    way, rest = stream.way.float(), stream.rest.float()
    gone, whole = torch.zeros(10), torch.zeros(10)
    for one in shown.batches:
        present = one.inputs["attention_mask"].bool()
        theirs, ours = (m(**one.inputs, output_hidden_states=True).hidden_states for m in (teacher, student))
        for place, (x, y) in enumerate(zip(ours, theirs, strict=True)):
            gone[place] += (x[present] @ way.T + rest - y[present]).square().sum()
            whole[place] += y[present].square().sum()
    return (gone / whole)[: len(theirs)].tolist()


def test_a_teacher_that_only_seems_wide_loses_nothing() -> None:
    teacher, shown = seemingly_wide(), rows()
    student, inheritance = Shrink(family="electra", hidden=16, embedding=16, keep="every-1").build(
        teacher, calibration=shown
    )
    assert (student.config.hidden_size, student.config.num_attention_heads) == (16, 2)
    assert "leading directions" in inheritance.note
    assert max(gaps(teacher, student, shown)) < 1e-6
    assert max(gaps(teacher, student, rows(3))) < 1e-6


@pytest.mark.parametrize("family", EXACT)
def test_every_teacher_is_nearer_the_wider_the_stream(family: str) -> None:
    teacher, shown = classifier(family), rows(20)
    found = []
    for hidden in (8, 16, 24):
        shape = Shrink(family="electra", hidden=hidden, embedding=hidden, keep="every-1")
        found.append(gaps(teacher, shape.build(teacher, calibration=shown)[0], shown))
    assert [one[0] for one in found] == sorted((one[0] for one in found), reverse=True)  # embeddings
    assert found[2][0] < 0.2


def test_padding_shows_nothing() -> None:
    teacher, shown = classifier("bert"), rows(6)
    for one in shown.batches:
        one.inputs["input_ids"][one.inputs["attention_mask"] == 0] = 77
    shape = Shrink(family="electra", hidden=16)
    first, second = (shape.build(teacher, calibration=x)[0].state_dict() for x in (shown, rows(6)))
    for name, tensor in first.items():
        torch.testing.assert_close(tensor, second[name], atol=2e-4, rtol=1e-3)


@pytest.mark.parametrize("kind", ["ForTokenClassification", "ForQuestionAnswering"])
def test_heads_for_tokens_and_spans_read_the_narrow_stream(kind: str) -> None:
    ends = {"id2label": {0: "start", 1: "end"}} if kind == "ForQuestionAnswering" else {}
    torch.manual_seed(0)
    teacher = getattr(hf, f"Bert{kind}")(hf.BertConfig(**{**COMMON, **SIZES, **ends})).eval()
    teacher.bert.load_state_dict(seemingly_wide().state_dict(), strict=False)
    shown = rows()
    student, _ = Shrink(family="electra", hidden=16, embedding=16, keep="every-1").build(teacher, calibration=shown)
    inputs = dict(shown.batches[0].inputs)
    present = inputs["attention_mask"].bool()
    with torch.no_grad():
        ours, theirs = student(**inputs), teacher(**inputs)
    for name in ("logits", "start_logits"):
        if name in theirs:
            torch.testing.assert_close(ours[name][present], theirs[name][present], atol=1e-4, rtol=0)


def test_a_bridge_starts_as_the_way_back_and_no_file_has_it(tmp_path: Path) -> None:
    student, _ = Shrink(preset="tiny", family="electra", dropout=0.0).build(classifier("bert"), calibration=rows())
    stream = stream_of(student)
    assert stream is not None
    way = stream.way.float()
    assert way.shape == (32, 16)  # two of four heads of 8
    unit = torch.eye(16) - 1 / 16  # coordinates of mean 0
    torch.testing.assert_close(way.T @ way, unit, atol=1e-5, rtol=0)
    add_bridges(student, {"tinybert": (16, 32), "other": (16, 5)})
    assert torch.equal(bridges_of(student)["tinybert"].weight, way)
    assert torch.equal(bridges_of(student)["tinybert"].bias, stream.rest.float())
    drop_bridges(student).save_pretrained(tmp_path)
    found = hf.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert stream_of(found) is None
    assert found.state_dict().keys() == student.state_dict().keys()


def test_without_rows_some_coordinates_are_kept() -> None:
    student, inheritance = Shrink(family="electra", hidden=16).build(classifier("bert"))
    assert student.config.hidden_size == 16
    assert stream_of(student) is None
    assert not inheritance.note
