"""What needs no model: the floor that every other figure stands on.

A constant answer is learnt from the training rows, or from those measured where there are no others, which the title
then says. It is scored by the same code as a model, so the floor has every metric that a constant answer can have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from limbeck.core.task import TaskInfo
from limbeck.measure.metrics import BINS, bins_of
from limbeck.measure.predictions import Array, labels_of
from limbeck.measure.spans import normalised

COPIED_SOURCE = "copied source"
NO_ANSWER = "no answer at all"
LONGEST = 30  # characters of an answer that a title shows


def of_split(split: str) -> str:
    """How a title tells that the floor comes from the very rows that are measured."""
    return "" if split == "train" else f" of {split}"


def constant_logits(task: TaskInfo, labels: Array, split: str) -> tuple[str, Array]:
    """The title, and the logits [outputs] of one answer for every text: how frequent each class or label is, counted
    from one so that no class is impossible; of numbers, their mean."""
    gold = labels_of(task, labels)
    if task.kind == "regress":
        mean = gold.mean()
        return f"mean of {split} ({mean:.3g})", np.array([mean])
    if task.kind == "multilabel":
        count = gold.sum(axis=0)
        return f"each label’s majority{of_split(split)}", np.log((count + 1) / (len(gold) - count + 1))
    logits = np.log(np.bincount(gold, minlength=task.outputs) + 1.0)
    return f"most frequent class{of_split(split)} ({task.labels[logits.argmax()]})", logits


def most_frequent_tag(golds: Iterable[Sequence[str]], split: str) -> tuple[str, str]:
    """The title and the tag, of all words that have one; of equally frequent ones, the first in the alphabet."""
    counts = Counter(tag for tags in golds for tag in tags if tag)
    tag = min(counts, key=lambda tag: (-counts[tag], tag))
    return f"most frequent tag{of_split(split)} ({tag})", tag


def constant_answer(golds: Sequence[Sequence[str]], split: str) -> tuple[str, str]:
    """The title and the answer that is right for most questions: none at all, or the most frequent one."""
    first = {normalised(text): text for gold in reversed(golds) for text in reversed(gold)}  # as it is first spelt
    counts = Counter(answer for gold in golds for answer in {normalised(text) for text in gold} - {""})
    without = len(golds) - sum(any(map(normalised, gold)) for gold in golds)
    best = min(counts, key=lambda answer: (-counts[answer], answer), default="")
    if counts[best] <= max(without, 1):  # an answer that is right once is nothing to count on
        return NO_ANSWER, ""
    return f"most frequent answer{of_split(split)} ({first[best][:LONGEST]})", first[best]


def unigram_sums(learnt: Array, scored: Array, vocabulary: int) -> Array:
    """[1, 3 + BINS] of a unigram model on the token ids `scored`, as measure/tokens.py sums them over a block.

    Its probabilities are the shares of the token ids `learnt`, smoothed as by Witten and Bell (1991): tokens never seen
    share the weight of as many tokens as there are different ones.
    """
    counts = np.bincount(learnt, minlength=max(vocabulary, int(scored.max()) + 1))
    kinds = np.count_nonzero(counts)
    p = (counts + kinds / len(counts)) / (counts.sum() + kinds)
    right = np.count_nonzero(scored == p.argmax())
    sums = np.zeros((1, 3 + BINS))
    sums[0, :3] = -np.log(p[scored]).sum(), right, len(scored)
    sums[0, 3 + bins_of(p.max())] = p.max() * len(scored) - right
    return sums
