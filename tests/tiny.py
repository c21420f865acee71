"""Tiny real things: a tokenizer, a classifier, a file of texts."""

import csv
import random
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

GOOD = "good great fine lovely bright warm funny clever".split()
BAD = "bad poor dull weak cold bland silly tired".split()
FILLER = "the a film movie plot story actor scene is was very quite and with of".split()
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *GOOD, *BAD, *FILLER]


def make_tokenizer() -> BertTokenizerFast:
    return BertTokenizerFast(vocab={word: index for index, word in enumerate(VOCABULARY)}, model_max_length=64)


def make_classifier(labels=("negative", "positive"), layers=4, hidden=32, seed=0, **config):
    torch.manual_seed(seed)
    config = {"id2label": dict(enumerate(labels)), "label2id": {name: i for i, name in enumerate(labels)}} | config
    shape = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        **config,
    )
    return BertForSequenceClassification(shape).eval()


def make_rows(count=240, seed=0):
    """Texts whose class is the kind of adjective they hold, with one in ten wrong."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        positive = draw.random() < 0.5
        words = [draw.choice(FILLER) for _ in range(draw.randint(2, 14))]
        words.insert(draw.randrange(len(words)), draw.choice(GOOD if positive else BAD))
        label = positive if draw.random() < 0.9 else not positive
        rows.append({"text": " ".join(words), "label": "positive" if label else "negative"})
    return rows


def write_csv(path: Path, rows) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path
