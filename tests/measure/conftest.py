"""Tiny random BERT classifiers with a WordPiece tokenizer, saved as people save theirs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

WORDS = ["the", "film", "is", "good", "a", "dull", "plot", "joy", "and", "tears", "it", "never", "end", "##s"]


@pytest.fixture(scope="session")
def build() -> Callable[..., BertForSequenceClassification]:
    def tiny(labels: int = 2, layers: int = 2) -> BertForSequenceClassification:
        torch.manual_seed(layers)
        config = BertConfig(
            vocab_size=len(WORDS) + 5,
            hidden_size=32,
            num_hidden_layers=layers,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=64,
            num_labels=labels,
        )
        return BertForSequenceClassification(config).eval()

    return tiny


@pytest.fixture(scope="session")
def folder(build: Callable[..., BertForSequenceClassification], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tiny")
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    tokenizer = BertTokenizer(vocab={token: i for i, token in enumerate(tokens)}, model_max_length=64)
    tokenizer.save_pretrained(place)
    build().save_pretrained(place)
    return place
