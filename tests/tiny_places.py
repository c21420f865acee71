"""Tiny real things for tasks about places: tagged sentences, questions, and models for both."""

import random

import torch
from transformers import BertConfig, BertForQuestionAnswering, BertForTokenClassification

from tiny import BAD, FILLER, GOOD, VOCABULARY

TAGS = ("O", "B-GOOD", "I-GOOD", "B-BAD")


def make_sentences(count=120, seed=0):
    """One or two good words are an entity, a bad word is one of another type."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        words = [draw.choice(FILLER) for _ in range(draw.randint(2, 8))]
        tags = ["O"] * len(words)
        place = draw.randrange(len(words))
        if draw.random() < 0.5:
            size = draw.randint(1, 2)
            words[place:place] = draw.choices(GOOD, k=size)
            tags[place:place] = ["B-GOOD", "I-GOOD"][:size]
        else:
            words.insert(place, draw.choice(BAD))
            tags.insert(place, "B-BAD")
        rows.append({"tokens": words, "tags": tags})
    return rows


def make_questions(count=120, seed=0, unanswerable=0.0):
    """The answer is the adjective of the text: good ones where the question says good, else bad ones."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        words = [draw.choice(FILLER) for _ in range(draw.randint(4, 12))]
        side = draw.random() < 0.5
        answer = draw.choice((GOOD if side else BAD)[1:])
        missing = draw.random() < unanswerable
        if not missing:
            words.insert(draw.randrange(1, len(words)), answer)
        text = " ".join(words)
        answers = {"text": [], "answer_start": []}
        if not missing:
            start = f" {text} ".index(f" {answer} ")
            answers = {"text": [answer], "answer_start": [start]}
        rows.append({"question": "good" if side else "bad", "context": text, "answers": answers})
    return rows


def _shape(hidden=32, layers=2, **more):
    return BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        **more,
    )


def make_tagger(labels=TAGS, seed=0, **how):
    torch.manual_seed(seed)
    names = {"id2label": dict(enumerate(labels)), "label2id": {name: place for place, name in enumerate(labels)}}
    return BertForTokenClassification(_shape(**names, **how)).eval()


def make_reader(seed=0, **how):
    torch.manual_seed(seed)
    return BertForQuestionAnswering(_shape(**how)).eval()
