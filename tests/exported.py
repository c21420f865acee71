"""Exported folders of tiny models, one for each kind, made once for all tests."""

import warnings
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import torch
from transformers import AutoTokenizer, BertConfig, BertForQuestionAnswering, BertForTokenClassification

from limbeck.core.checksum import FILES, checksums, write_sealed
from limbeck.measure.size import count_parameters
from limbeck.students.load import load
from tiny import VOCABULARY, make_classifier, make_rows, make_tokenizer
from tiny_language import make_masked, save

SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
SHAPE = {"vocab_size": len(VOCABULARY), "max_position_embeddings": 64, "initializer_range": 0.5, **SMALL}
TAGS = dict(enumerate(["O", "B-X", "I-X"]))
TEXTS = [row["text"] for row in make_rows(40)]
LONG = " ".join(TEXTS)  # more tokens than the models read
KINDS = ("classify", "multilabel", "regress", "tag", "answer", "mask-fill")


def network(kind):
    torch.manual_seed(1)
    if kind == "tag":
        return BertForTokenClassification(BertConfig(**SHAPE, id2label=TAGS))
    if kind == "answer":
        return BertForQuestionAnswering(BertConfig(**SHAPE))
    if kind == "mask-fill":
        return make_masked()
    labels = {"classify": ("negative", "positive"), "multilabel": ("a", "b", "c"), "regress": ("score",)}[kind]
    problem = {"classify": "single_label", "multilabel": "multi_label"}.get(kind)
    problem = f"{problem}_classification" if problem else "regression"
    return make_classifier(labels, layers=2, problem_type=problem, initializer_range=0.5)


@cache
def folders(kind) -> tuple[Path, Path]:
    """The model's folder, and what is exported of it."""
    place = Path(mkdtemp(prefix="limbeck-exported-"))
    source = save(network(kind), make_tokenizer(), place / "model")
    return source, export(source, kind, place / "exported")


def export(source: Path, kind: str, out: Path, **more) -> Path:
    """What the exporter writes for a float32 BERT, in the fastest way that torch has; `more` changes the facts."""
    model, _ = load(source, kind)
    outputs = ["start_logits", "end_logits"] if kind == "answer" else ["logits"]
    inputs = ["input_ids", "attention_mask", "token_type_ids"]

    class Graph(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *tensors):
            found = self.model(**dict(zip(inputs, tensors, strict=True)))
            return tuple(found[name] for name in outputs)

    out.mkdir(parents=True)
    tokens = torch.ones(2, 7, dtype=torch.int64)
    axes = {name: {0: "batch", 1: "length"} for name in inputs}
    axes |= {name: {0: "batch"} | ({1: "length"} if kind in ("tag", "answer", "mask-fill") else {}) for name in outputs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Graph(),
            (tokens, tokens, tokens * 0),
            out / "model.onnx",
            input_names=inputs,
            output_names=outputs,
            dynamic_axes=axes,
            opset_version=17,
            dynamo=False,
        )
    model.config.save_pretrained(out)
    AutoTokenizer.from_pretrained(source).save_pretrained(out)
    config = model.config
    facts = {
        "format": 1,
        "kind": kind,
        "labels": list(config.id2label.values()),
        "inputs": inputs,
        "outputs": outputs,
        "max_length": config.max_position_embeddings,
        "pad_id": 0,
        "pad_type_id": 0,
        "opset": 17,
        "precision": "float32",
        "engine": "ONNX Runtime",
        "parent": "",
        "parameters": list(count_parameters(model)),
        "parity": {},
        FILES: checksums(out),
    }
    write_sealed(out / "limbeck.json", facts | more)
    return out


def same(ours, theirs):
    """Two answers, but for rounding."""
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        if value is None or (not isinstance(value, float) and name not in ("probabilities", "entities")):
            assert value == theirs[name], name
        elif name == "entities":
            assert len(value) == len(theirs[name])
            for one, other in zip(value, theirs[name], strict=True):
                same(one, other)
        else:
            assert np.allclose(value, theirs[name], atol=1e-5), name
