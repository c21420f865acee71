"""What is counted, timed and agreed on: labelled rows, sentences, words, questions, or tokens in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from limbeck.core.record import Record, Shape
from limbeck.core.task import TaskInfo
from limbeck.report import numbers as n


@dataclass(frozen=True)
class Units:
    read: str  # what the source holds
    row: str  # what a split is counted in, and what tests draw
    text: str  # what is timed
    answer: str  # what a model answers once
    labelled: str  # the split's second count
    again: str = "text"  # what may occur twice


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

_OF_WRITING = {
    "bleu": "corpus BLEU of what is written greedily, 0 to 100, as sacrebleu has it (words by 13a, smoothed by exp)",
    "chrf": "corpus chrF of what is written greedily, 0 to 100, as sacrebleu has it: letters and not words",
    "bleu_beam": "BLEU of what beam search writes",
    "chrf_beam": "chrF of what beam search writes",
    "beam_gain": "what beam search adds to greedy BLEU; near 0 where greedy writing is as good",
    "perplexity": "of a token of the references; only models with the same tokens compare, and a student that learns "
    "from translations may write better while this rises",
    "perplexity_of_teacher": "of a token of the teacher’s translations",
    "p_best": "mean probability that a model gives to its own best translation, a whole text; high where it is sure",
}


def units(record: Record) -> Units:
    if record.task.is_seq2seq:
        return Units("pair", "sentence", "sentence", "token", "with a target", "source")
    if record.task.kind == "tag":
        return Units("sentence", "sentence", "sentence", "word", "labelled")
    if record.task.kind == "answer":
        return Units("question", "question", "question", "answer end", "labelled")
    if not record.task.over_vocabulary:
        return Units("row", "row", "sentence", "row", "labelled")
    read = "chat" if "messages" in record.data.columns else "document"
    return Units(read, "block", "block", "token", "tokens", read)


def in_blocks(task: TaskInfo) -> bool:
    """Running text, cut into blocks and read, as against texts that are written."""
    return task.over_vocabulary and not task.is_seq2seq


def beam_of(records: Sequence[Record]) -> int:
    """The beam with which all of these were tested; 0 where it is not known or not one."""
    beams = {int((record.knobs.get("translate") or {}).get("test_beam", 0)) for record in records}
    return beams.pop() if len(beams) == 1 else 0


def writing(records: Sequence[Record]) -> str:
    """How the timed text comes about, for a translator."""
    beam = beam_of(records)
    return f"written with a beam of {beam}" if beam > 1 else "written greedily" if beam else "written word by word"


def layers(shape: Shape) -> str:
    """3 layers, or 6+2 where six read and two write."""
    if not shape.decoder_layers:
        return n.plural(shape.layers, "layer")
    return f"{shape.layers}+{shape.decoder_layers} layers"


def block_length(record: Record) -> int:
    """Tokens of a test block, on average; 0 where that is not known."""
    split = record.data.splits.get("test") or record.data.splits.get("dev")
    return round(split.labelled / split.rows) if in_blocks(record.task) and split and split.rows else 0


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


def meaning(task: TaskInfo, metric: str) -> str:
    """What a figure about tokens, places or translations says; a classifier's figures are common knowledge."""
    if task.is_seq2seq:
        return _OF_WRITING.get(metric, "")
    if task.in_windows:
        return (_OF_TAGS if task.kind == "tag" else _OF_ANSWERS).get(metric, "")
    token = "token" if task.kind != "mask-fill" else "token under a mask"
    meanings = {
        "perplexity": f"exp of the cross-entropy: the model is as unsure of a {token} as if it chose blindly between "
        "so many; lower is better, and only models with the same tokens compare",
        "token_nll": f"mean −log probability of the right {token}, in nats; lower is better",
        "token_accuracy": f"how often the most probable word is the right {token}",
        "token_ece": "how far stated confidence lies from the share of right tokens; lower is better",
    }
    return meanings.get(metric, "") if task.over_vocabulary else ""
