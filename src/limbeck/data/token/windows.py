"""Sentences become windows of tokens. The tag of a word is predicted once, at its first token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from limbeck.core.progress import Silent, Watcher
from limbeck.data.settings import DataSettings, WindowSettings
from limbeck.data.token.sentences import Sentence
from limbeck.data.uids import parts_uid
from limbeck.data.windows import (
    Window,
    WindowCorpus,
    WindowRows,
    Windows,
    build_corpus,
    check_fast,
    cut_windows,
    model_inputs,
    numbered,
)
from limbeck_runtime.tags import first_tokens


def encode_sentences(
    found: WindowRows[Sentence],
    tokenizer: Any,
    settings: DataSettings,
    windows: WindowSettings,
    watcher: Watcher = Silent(),  # noqa: B008
) -> WindowCorpus:
    """Cuts into windows; logs what was chosen and what became of every row."""
    check_fast(tokenizer)
    length = min(settings.max_length, tokenizer.model_max_length)
    stride = max(min(windows.stride, length // 2 - tokenizer.num_special_tokens_to_add()), 0)
    ids = {label: place for place, label in enumerate(found.task.labels)}
    made = {}
    for split, sentences, times, uids in numbered(found):
        tagged = []
        for item, tokens, mine in cut_windows([row.texts for row in sentences], tokenizer, length, stride):
            sentence = sentences[item]
            chosen = first_tokens(sentence.words, [(window, tokens["offset_mapping"][window]) for window in mine])
            for window in mine:
                words = sorted((seen.place, word) for word, seen in chosen.items() if seen.window == window)
                if words:
                    inputs = model_inputs(tokens, window)
                    tagged.append(_window(item, sentence, times[item], inputs, words, ids))
        made[split] = Windows(tagged, uids)
    return build_corpus(found, made, length, "sentences hold no word the tokenizer sees", watcher)


def _window(
    item: int,
    sentence: Sentence,
    times: int,
    inputs: dict[str, np.ndarray],
    words: Sequence[tuple[int, int]],
    ids: dict[str, int],
) -> Window:
    predicted = np.zeros(len(inputs["input_ids"]), dtype=bool)
    predicted[[place for place, _ in words]] = True
    tags = [sentence.tags[word] for _, word in words]
    span = f"{times} {words[0][1]} {words[-1][1]} {len(words)}"
    return Window(
        item=item,
        uid=parts_uid("tag", [span, *sentence.words], sentence.where),
        inputs=inputs,
        predicted=predicted,
        labels=np.array([ids[tag] if tag else 0 for tag in tags], dtype=np.int64),
        has_label=np.array([bool(tag) for tag in tags], dtype=bool),
        where=np.array([word for _, word in words], dtype=np.int32),
    )
