"""Tokens as the tokenizer gives them, cut and counted, padded and never mistaken for text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from limbeck.core.errors import ModelError
from limbeck.core.task import TaskInfo
from limbeck.data.batches import Collator, batches, to_batch
from limbeck.data.text.examples import Examples, encode

TASK = TaskInfo(kind="classify", labels=("a", "b"))
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh"]


def tokenizer(**settings: Any) -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=backend, **{**names, "model_input_names": inputs, **settings})


def examples(texts: list[str], pairs: list[str] | None = None, labels: Any = None) -> Examples:
    n = len(texts)
    found = np.arange(n) % 2 if labels is None else np.asarray(labels)
    return Examples(np.arange(n, dtype=np.int64) + 2**62, texts, pairs or [], found, np.arange(n) % 3 != 0)


def test_rows_are_what_the_tokenizer_gives() -> None:
    texts, pairs = ["a b c", "d", "e f g h"], ["a", "b c d", "h"]
    tok = tokenizer()
    for second in (None, pairs):
        encoded = encode(examples(texts, second), tok, 32)
        expected = tok(texts, second)
        for i in range(3):
            row = encoded[i]
            assert {name: row[name] for name in expected} == {name: expected[name][i] for name in expected}
            assert (row["uids"], row["labels"], row["has_label"]) == (2**62 + i, i % 2, i % 3 != 0)
        assert encoded.lengths == [len(ids) for ids in expected["input_ids"]]
        assert (len(encoded), encoded.truncated) == (3, 0)


def test_truncation_is_counted_exactly() -> None:
    texts = ["a b c d e f", "a b c d e f g", "a " * 50_000, "a"]
    encoded = encode(examples(texts), tokenizer(), 8)
    assert encoded.lengths == [8, 8, 8, 3]
    assert encoded.truncated == 2  # the first fills the length and loses nothing
    pair = encode(examples(["a b c d e f g h"], ["a b"]), tokenizer(), 8)
    assert pair[0]["token_type_ids"].count(1) == 3  # longest first: the short text stays whole
    assert pair.truncated == 1


def test_the_tokenizers_own_limit_and_padding_hold() -> None:
    tok = tokenizer(model_max_length=5)
    tok.backend_tokenizer.enable_padding(length=30)
    encoded = encode(examples(["a b c d e f g h", "a"]), tok, 128)
    assert encoded.lengths == [5, 3]


def test_many_chunks_join_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [" ".join("abcdefgh"[: 1 + n % 8]) for n in range(25)]
    whole = encode(examples(texts), tokenizer(), 8)
    monkeypatch.setattr("limbeck.data.text.examples.CHUNK", 4)
    chunked = encode(examples(texts), tokenizer(), 8)
    assert [whole[i] for i in range(25)] == [chunked[i] for i in range(25)]
    assert whole.truncated == chunked.truncated == 6


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    left=st.booleans(),
    kind=st.sampled_from(["classify", "multilabel", "regress"]),
)
def test_padding_changes_nothing_but_the_shape(lengths: list[int], left: bool, kind: Any) -> None:
    n = len(lengths)
    labels: dict[str, np.ndarray] = {
        "classify": np.arange(n),
        "multilabel": np.ones((n, 2), np.float32),
        "regress": np.ones(n, np.float32),
    }
    tok = tokenizer(padding_side="left" if left else "right")
    encoded = encode(examples(["a " * length for length in lengths], labels=labels[kind]), tok, 32)
    rows = [encoded[i] for i in range(n)]
    collator = Collator.of(tok, TaskInfo(kind=kind, labels=() if kind == "regress" else ("a", "b")))
    tensors = collator(rows)
    assert tensors["input_ids"].shape == (n, max(lengths) + 2)
    for i, row in enumerate(rows):
        real = tensors["attention_mask"][i].bool()
        assert tensors["input_ids"][i][real].tolist() == row["input_ids"]
        assert (tensors["input_ids"][i][~real] == tok.pad_token_id).all()
    assert tensors["uids"].dtype == torch.int64
    assert tensors["uids"].tolist() == [row["uids"] for row in rows]
    assert tensors["labels"].dtype == (torch.int64 if kind == "classify" else torch.float32)
    assert tensors["labels"].shape == labels[kind].shape
    assert tensors["has_label"].dtype == torch.bool


def test_batches_give_every_row_once_longest_first() -> None:
    texts = [" ".join("abcdefgh"[: 1 + n % 8]) for n in range(25)]
    encoded = encode(examples(texts), tokenizer(), 32)
    made = list(batches(encoded, Collator.of(tokenizer(), TASK), 4))
    assert [len(batch.uids) for batch in made] == [4] * 6 + [1]
    assert sorted(torch.cat([batch.uids for batch in made]).tolist()) == encoded.examples.uids.tolist()
    widths = [batch.inputs["input_ids"].shape[1] for batch in made]
    assert widths == sorted(widths, reverse=True)
    assert set(made[0].inputs) == {"input_ids", "attention_mask", "token_type_ids"}


def test_works_as_a_dataset_of_a_data_loader() -> None:
    encoded = encode(examples(["a b", "c", "d e f"]), tokenizer(), 32)
    loader = torch.utils.data.DataLoader(encoded, batch_size=2, collate_fn=Collator.of(tokenizer(), TASK))  # type: ignore[arg-type,var-annotated]
    first = to_batch(next(iter(loader)), TASK)
    assert first.labels.tolist() == [0, 1]
    assert first.has_label.tolist() == [False, True]


def test_a_tokenizer_without_padding_is_refused() -> None:
    with pytest.raises(ModelError, match="no padding token"):
        Collator.of(tokenizer(pad_token=None), TASK)


def test_no_rows_encode_to_nothing() -> None:
    encoded = encode(examples([]), tokenizer(), 32)
    assert (len(encoded), encoded.truncated) == (0, 0)
