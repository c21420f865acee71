"""Exported folders of tiny models, one for each kind, made once for all tests."""

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import torch
from transformers import BertConfig, BertForQuestionAnswering, BertForTokenClassification

from limbeck.exporters.export import export
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
    return source, export(source, "onnx", place / "exported").path


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
            assert np.allclose(value, theirs[name], atol=1e-4), name
