"""Which examples, and how to read them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import field_validator

from limbeck.core.knob import Settings, knob, table
from limbeck.core.task import WINDOW_KINDS

HUB_TAGS = {  # what the Hub calls a task → what --task calls it
    "text-classification": "classify",
    "token-classification": "tag",
    "question-answering": "answer",
    "fill-mask": "mask-fill",
    "text-generation": "generate",
    "translation": "translate",
    "summarization": "translate",
    "text2text-generation": "translate",
}


class DataSettings(Settings):
    train: str = knob(
        "",
        "a CSV, TSV, JSONL or Parquet file, for tag also CoNLL, for answer also SQuAD's JSON (gzipped or not), a "
        "folder with train/dev/test files, a saved datasets folder, or a Hub id",
        short="--data",
    )
    dev: str = knob("", "a file that chooses the best checkpoint; without one, a part of train is cut off for it")
    test: str = knob("", "a file that is only measured on; without one, a part of train is cut off for it")
    text_column: str = knob("", "the column with the text; by default found by its name", short="--text-column")
    pair_column: str = knob("", "the column with the second text of a pair; by default found by its name")
    label_column: str = knob(
        "",
        "the column with the label, or none; several 0/1 columns, separated by commas, make a multi-label task",
        short="--label-column",
    )
    task: Literal[
        "auto", "classify", "multilabel", "regress", "tag", "answer", "mask-fill", "generate", "translate"
    ] = knob(
        "auto",
        "classify, multilabel, regress: whole texts; tag: token classification (NER); answer: extractive QA; "
        "mask-fill: masked LM; generate: causal LM; translate: seq2seq; auto: by the teacher's head or the labels. The "
        "Hub's tags (token-classification, fill-mask, …) are accepted too",
        short="--task",
    )
    classes: str = knob(
        "", "class names in the teacher's order, separated by commas; needed when it only knows LABEL_0, LABEL_1, …"
    )
    separator: str = knob("|", "what stands between the labels in one cell of a multi-label column")
    quoting: Literal["auto", "csv", "none"] = knob(
        "auto", 'whether "…" wraps a field (csv) or is part of the text (none); auto decides by looking'
    )
    header: Literal["auto", "yes", "no"] = knob(
        "auto", "whether the first line names the columns; without names they are called 1, 2, 3, …"
    )
    encoding: str = knob(
        "auto", "text encoding of the file; auto is UTF-8 (UTF-16 if it has a BOM) and refuses any other"
    )
    max_length: int = knob(128, "tokens kept of a text; longer ones are truncated and counted", at_least=8)
    limit: int = knob(
        0,
        "train on this many rows (language models: blocks), drawn by hash and so always the same ones; 0 is all",
        at_least=0,
    )
    dev_share: float = knob(0.1, "the part of train cut off for dev when there is no dev file", above=0, below=1)
    test_share: float = knob(0.1, "the part of train cut off for test when there is no test file", above=0, below=1)

    @field_validator("task", mode="before")
    @classmethod
    def _by_hub_tag(cls, value: Any) -> Any:
        return HUB_TAGS.get(value, value) if isinstance(value, str) else value


@table("windows", "windows of long texts, and the columns of token classification and extractive QA", WINDOW_KINDS)
class WindowSettings(Settings):
    """Token classification and extractive QA: which columns hold what, and how long texts are read."""

    stride: int = knob(32, "tokens that a window of a long text shares with the next one", at_least=0)
    longest_question: int = knob(
        64, "tokens kept of a question; longer ones are truncated", at_least=1, source="BERT code, max_query_length"
    )
    longest_answer: int = knob(
        30, "tokens of a predicted answer at most", at_least=1, source="BERT code, max_answer_length"
    )
    null_threshold: float = knob(
        0.0,
        "for questions that may have no answer: predict none where its score beats the best answer's by more",
        source="BERT code, null_score_diff_threshold",
    )
    word_column: str = knob(
        "", "the column with lists of words; in a CoNLL file its number, from 1. By default found, or the first"
    )
    tag_column: str = knob(
        "", "the column with lists of tags; in a CoNLL file its number, from 1. By default found, or the last"
    )
    question_column: str = knob("", "the column with the question; by default found by its name")
    context_column: str = knob("", "the column with the context of the question; by default found by its name")
    answer_column: str = knob("", "the column with the answer or answers; by default found by its name")
