"""How words are tagged and questions answered: which columns hold what, and how long texts are read."""

from __future__ import annotations

from limbeck.core.knob import Settings, knob, table
from limbeck.core.task import WINDOW_KINDS


@table("windows", "windows of long texts, and the columns of token classification and extractive QA", WINDOW_KINDS)
class WindowSettings(Settings):
    stride: int = knob(32, "tokens that a window of a long text shares with the next one", at_least=0)
    longest_question: int = knob(
        64, "tokens kept of a question; more are cut and counted", at_least=1, source="BERT code, max_query_length"
    )
    longest_answer: int = knob(
        30, "tokens of an answer at most, where a model gives one", at_least=1, source="BERT code, max_answer_length"
    )
    null_threshold: float = knob(
        0.0,
        "for questions that may have no answer: none is given where its score beats the best answer's by more",
        source="BERT code, null_score_diff_threshold",
    )
    word_column: str = knob(
        "", "the column with lists of words; of a CoNLL file its number, from 1. By default found, or the first"
    )
    tag_column: str = knob(
        "", "the column with lists of tags; of a CoNLL file its number, from 1. By default found, or the last"
    )
    question_column: str = knob("", "the column with the question; by default found by its name")
    context_column: str = knob("", "the column with the text that answers lie in; by default found by its name")
    answer_column: str = knob("", "the column with the answer or answers; by default found by its name")
