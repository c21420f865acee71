"""What a language model makes of new texts: the words under their masks, or how they go on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from limbeck.core.errors import DataError
from limbeck.core.forward import forward
from limbeck.core.tap import eval_mode
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch
from limbeck.data.batches import Collator, batches, padding_id
from limbeck.data.text.examples import tokenise

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

MASK = "[MASK]"  # as people write it, whatever a tokenizer calls it


class _Texts:
    """A map-style dataset of tokens alone."""

    def __init__(self, columns: dict[str, list[np.ndarray]]) -> None:
        self.columns, self.lengths = columns, [len(ids) for ids in columns["input_ids"]]

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> dict[str, Any]:
        nothing = np.zeros(self.lengths[index], dtype=np.int64)
        row = {"attention_mask": nothing + 1, "labels": nothing, "has_label": nothing, "uids": index}
        return {name: rows[index] for name, rows in self.columns.items()} | row


def fill_masks(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    info: TaskInfo,
    texts: Sequence[str],
    size: int,
    longest: int,
    top: int,
) -> list[dict[str, object]]:
    """The `top` words for the mask of each text, with their probabilities; of several masks, a list for each."""
    import torch

    mask = str(tokenizer.mask_token)
    marked = [text.replace(MASK, mask) for text in texts]
    for text in (text for text, written in zip(texts, marked, strict=True) if mask not in written):
        raise DataError(f"the text {text[:60]!r} has no {MASK}", f"write {MASK} where a word is to be filled in")
    columns, _ = tokenise(tokenizer, longest, marked)
    found: list[dict[str, object]] = [{} for _ in texts]
    for batch in _batches(columns, tokenizer, info, size, "right"):
        asked = batch.inputs["input_ids"] == tokenizer.mask_token_id
        batch = replace(batch, predicted=asked)
        with eval_mode(model), torch.inference_mode():
            logits = forward(model, batch.to(model.device), vocabulary=info.vocab_size).tokens.logits().float().cpu()
        best = logits.softmax(-1).topk(min(top, logits.shape[-1]))
        owners = asked.nonzero()[:, 0]
        for place, uid in enumerate(batch.uids.tolist()):
            mine = owners == place
            words = [[tokenizer.decode([token]).strip() for token in row] for row in best.indices[mine].tolist()]
            sure = best.values[mine].tolist()
            if not words:
                raise DataError(
                    f"the text {texts[uid][:60]!r} has its {MASK} beyond the {longest} tokens that are read",
                    "shorten it, or raise --data.max-length",
                )
            one = len(words) == 1
            found[uid] = {"words": words[0] if one else words, "probabilities": sure[0] if one else sure}
    return found


def continuations(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    info: TaskInfo,
    texts: Sequence[str],
    size: int,
    longest: int,
    new_tokens: int,
) -> list[str]:
    """How each text goes on, greedily, to its end or for so many tokens. Of a long text the last tokens are read."""
    import torch

    columns, _ = tokenise(tokenizer, 2**31 - 1, texts)
    room = max(longest - new_tokens, 1)
    tokens = {"input_ids": [ids[-room:] for ids in columns["input_ids"]]}
    found = [""] * len(texts)
    for batch in _batches(tokens, tokenizer, info, size, "left"):
        inputs = batch.to(model.device).inputs
        with eval_mode(model), torch.inference_mode():
            ids = model.generate(
                **inputs,
                max_new_tokens=new_tokens,
                do_sample=False,
                num_beams=1,
                pad_token_id=padding_id(tokenizer),
            )
        written = tokenizer.batch_decode(ids[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        for uid, text in zip(batch.uids.tolist(), written, strict=True):
            found[uid] = text
    return found


def _batches(
    columns: dict[str, list[np.ndarray]],
    tokenizer: PreTrainedTokenizerBase,
    info: TaskInfo,
    size: int,
    side: Literal["left", "right"],
) -> Iterator[Batch]:
    return batches(_Texts(columns), Collator(padding_id(tokenizer), info, side), size)
