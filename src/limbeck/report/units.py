"""What is counted, timed and agreed on: labelled rows and sentences, words, questions, or tokens in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from limbeck.core.record import Record
from limbeck.core.task import Task
from limbeck.report import numbers as n


@dataclass(frozen=True)
class Units:
    read: str  # what the source holds
    row: str  # what a split is counted in, and what tests draw
    text: str  # what is timed
    answer: str  # what a model answers once
    labelled: str  # the split's second count


_OF_TAGS = {
    "f1": "of whole entities: type, first and last word must be right; of words where tags mark no beginnings",
    "precision": "share of the entities said that are true",
    "recall": "share of the true entities that are said",
    "accuracy": "share of words with the right tag",
}
_OF_ANSWERS = {
    "f1": "of the words of an answer and the gold answer nearest to it, as SQuAD's script has it; mean over questions",
    "exact_match": "share of answers that are a gold answer, but for case, articles and punctuation",
}


def units(record: Record) -> Units:
    if record.task.kind == "tag":
        return Units("sentence", "sentence", "sentence", "word", "labelled")
    if record.task.kind == "answer":
        return Units("question", "question", "question", "answer end", "labelled")
    if not record.task.of_tokens:
        return Units("row", "row", "sentence", "row", "labelled")
    read = "chat" if "messages" in record.data.columns else "document"
    return Units(read, "block", "block", "token", "tokens")


def block_length(record: Record) -> int:
    """Tokens of a test block, on average; 0 where that is not known."""
    split = record.data.splits.get("test") or record.data.splits.get("dev")
    return round(split.labelled / split.rows) if record.task.of_tokens and split and split.rows else 0


def timed(records: Sequence[Record]) -> str:
    """What one measurement of speed reads: a sentence, a question with its text, or a block and how long it is."""
    texts = {units(record).text for record in records}
    if texts != {"block"}:
        return texts.pop() if len(texts) == 1 else "text"
    lengths = {block_length(record) for record in records}
    about = lengths.pop() if len(lengths) == 1 else 0
    return f"block of about {n.plural(about, 'token')}" if about else "block"


def throughput(records: Sequence[Record]) -> str:
    texts = {units(record).text for record in records}
    return f"{texts.pop() if len(texts) == 1 else 'text'}s/s"


def meaning(task: Task, metric: str) -> str:
    """What a figure about tokens or places says; a classifier's figures are common knowledge."""
    if task.of_places:
        return (_OF_TAGS if task.kind == "tag" else _OF_ANSWERS).get(metric, "")
    token = "token" if task.kind != "mask-fill" else "token under a mask"
    meanings = {
        "perplexity": f"exp of the cross-entropy: the model is as unsure of a {token} as if it chose blindly between "
        "so many; lower is better, and only models with the same tokens compare",
        "token_nll": f"mean −log probability of the right {token}, in nats; lower is better",
        "token_accuracy": f"how often the most probable word is the right {token}",
        "token_ece": "how far stated confidence lies from the share of right tokens; lower is better",
    }
    return meanings.get(metric, "") if task.of_tokens else ""
