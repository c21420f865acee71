"""The floor of every task, computed by hand; one answer for every row; rows that stand in train too."""

from collections import Counter

import numpy as np
import pytest
import sacrebleu
from sklearn.metrics import accuracy_score, f1_score, log_loss, matthews_corrcoef

from limbeck.core.task import TaskInfo
from limbeck.data.seq2seq.pairs import Parallel
from limbeck.data.settings import DataSettings, WindowSettings
from limbeck.data.span.questions import read_questions
from limbeck.data.span.windows import encode_questions
from limbeck.data.text.examples import encode, read_texts
from limbeck.data.token.sentences import read_sentences
from limbeck.data.token.windows import encode_sentences
from limbeck.data.uids import source_uids
from limbeck.measure.evaluator import TextEvaluator
from limbeck.measure.predictions import constant
from limbeck.measure.quality import confusion, quality, reliability
from limbeck.measure.seq2seq_evaluator import Seq2SeqEvaluator
from limbeck.measure.window_evaluator import SpanEvaluator, TokenEvaluator
from limbeck.teachers.settings import TranslateSettings
from tiny import make_tokenizer
from tiny_language import byte_level, make_words
from tiny_places import TAGS

TWO = TaskInfo(kind="classify", labels=("bad", "good"))
NUMBER = TaskInfo(kind="regress")


def texts(train, test, **settings):
    """Labels of train and test, with texts that all differ; a (text, label) has its own."""

    def rows(split, labels):
        named = [one if isinstance(one, tuple) else (f"{split} {number}", one) for number, one in enumerate(labels)]
        return [{"text": text, "label": label} for text, label in named]

    splits = {"train": rows("train", train), "dev": rows("dev", test), "test": rows("test", test)}
    corpus = read_texts(DataSettings(**settings), {name: part for name, part in splits.items() if part})
    encoded = {name: encode(part, make_tokenizer(), 16) for name, part in corpus.splits.items()}
    return TextEvaluator(corpus.task, make_tokenizer(), encoded)


def test_the_most_frequent_class_is_that_of_train():
    evaluator = texts(["good"] * 6 + ["bad"] * 3, ["bad"] * 3 + ["good"] * 2)
    floor = evaluator.floor()
    assert floor.title == "most frequent class (good)"
    gold, answer = [0, 0, 0, 1, 1], [1] * 5
    assert floor.quality["accuracy"] == accuracy_score(gold, answer)
    assert floor.quality["f1_macro"] == pytest.approx(f1_score(gold, answer, average="macro"))
    assert floor.quality["matthews"] == matthews_corrcoef(gold, answer) == 0
    assert floor.quality["nll"] == pytest.approx(log_loss(gold, [[4 / 11, 7 / 11]] * 5))
    assert floor.quality.keys() == quality(TWO, np.eye(2), np.array([0, 1]), np.ones(2, bool))[0].keys()


def test_without_a_train_split_the_floor_is_of_the_rows_measured():
    evaluator = texts(["good"] * 6 + ["bad"], ["bad"] * 3 + ["good"] * 2)
    evaluator = TextEvaluator(evaluator.info, evaluator.processor, {"test": evaluator.splits["test"]})
    assert evaluator.floor().title == "most frequent class of test (bad)"
    assert evaluator.floor().quality["accuracy"] == 3 / 5
    assert not evaluator.seen.any()


def test_each_label_has_its_own_majority():
    train = ["a", "a", "a|b", "a|c", "b"]
    floor = texts(train, ["a", "a|b", "b", "a"], task="multilabel").floor()
    assert floor.title == "each label’s majority"
    assert floor.quality["accuracy"] == 2 / 4  # {a} for each
    assert floor.quality["f1_micro"] == pytest.approx(2 * 3 / (4 + 5))


def test_the_mean_has_no_correlation_and_the_error_of_a_constant():
    floor = texts([1.0, 2.5, 4.0, 2.5], [1.5, 3.5, 0.5], task="regress").floor()
    assert floor.title == "mean of train (2.5)"
    assert floor.quality["pearson"] == floor.quality["spearman"] == 0
    assert floor.quality["mae"] == pytest.approx((1 + 1 + 2) / 3)


def test_the_most_frequent_tag_has_no_entity():
    rows = [{"tokens": ["good", "film"], "tags": ["B-GOOD", "O"]}, {"tokens": ["a", "film"], "tags": ["O", "O"]}]
    how = DataSettings(), WindowSettings()
    found = read_sentences(*how, {"train": rows, "dev": rows, "test": rows}, TAGS)
    evaluator = TokenEvaluator(encode_sentences(found, make_tokenizer(), *how), make_tokenizer(), how[1])
    floor = evaluator.floor()
    assert floor.title == "most frequent tag (O)"
    assert (floor.quality["f1"], floor.quality["accuracy"]) == (0.0, 3 / 4)
    assert evaluator.constant([["O", "O"], ["O"]]) == "O"
    assert evaluator.constant([["O", "O"], ["B-BAD"]]) == ""


def question(number, answer, text="the film is good"):
    return {"question": f"what {number}", "context": text, "answers": {"text": [answer] if answer else []}}


@pytest.mark.parametrize(
    ("answers", "title", "f1"),
    [
        (["", "", "good"], "no answer at all", 2 / 3),
        (["good", "Good", "film"], "most frequent answer (good)", 2 / 3),
        (["good", "film", "the film is"], "no answer at all", 0.0),  # nothing is right more than once
    ],
)
def test_no_answer_or_the_most_frequent_one(answers, title, f1):
    rows = [question(number, answer, "The film is good. Good") for number, answer in enumerate(answers)]
    how = DataSettings(), WindowSettings()
    found = read_questions(*how, {"train": rows, "dev": rows, "test": rows})
    evaluator = SpanEvaluator(encode_questions(found, make_tokenizer(), *how), make_tokenizer(), how[1])
    assert evaluator.floor().title == title
    assert evaluator.floor().quality["f1"] == pytest.approx(f1)


@pytest.mark.parametrize("kind", ["mask-fill", "generate"])
def test_the_unigram_model_is_scored_on_the_tokens_that_models_are(kind):
    evaluator = make_words(make_tokenizer() if kind == "mask-fill" else byte_level(), kind)
    rows = [evaluator.splits["test"][row] for row in range(len(evaluator.splits["test"]))]
    scored = [
        label
        for row in rows
        for label, known, predicted in zip(row["labels"], row["has_label"], row["predicted"], strict=True)
        if known and predicted
    ]
    train = evaluator.splits["train"].blocks
    text = [token for token, special in zip(train.ids.tolist(), train.special, strict=True) if not special]
    if kind == "generate":  # nothing predicts the first token of a block
        first = {train.tokens(block).start for block in range(len(train))}
        text = [token for place, token in enumerate(train.ids.tolist()) if place not in first]
    counts, size = Counter(text), evaluator.info.vocab_size
    share = {token: (counts[token] + len(counts) / size) / (len(text) + len(counts)) for token in range(size)}
    floor = evaluator.floor()
    assert floor.title == "unigrams of train"
    assert sum(share.values()) == pytest.approx(1)
    assert floor.quality["perplexity"] == pytest.approx(np.exp(-np.mean([np.log(share[token]) for token in scored])))
    best = max(share, key=share.get)
    right = np.mean([token == best for token in scored])
    assert floor.quality["token_accuracy"] == pytest.approx(right)
    assert floor.quality["token_ece"] == pytest.approx(abs(share[best] - right))


def test_the_source_is_copied_without_what_is_there_for_the_model_alone(words):
    bare = ["a b c d e f", "b c a d g a", "c d e f"]
    gold = ["a b c d e g", "c a d g b a", "c d f e"]
    sources = [f"<2de> say: {source}" for source in bare]
    pairs = Parallel(sources, gold, source_uids(sources))
    info = TaskInfo(kind="translate", vocab_size=len(words))
    how = {"train_uids": source_uids(sources[1:2]).tolist(), "prefix": "say: "}
    evaluator = Seq2SeqEvaluator(info, words, 0, pairs, pairs, TranslateSettings(), 32, **how)
    floor = evaluator.floor()
    assert floor.title == "copied source"
    assert floor.quality.keys() == {"bleu", "chrf", "bleu_beam", "chrf_beam"}
    assert floor.quality["bleu"] == pytest.approx(sacrebleu.corpus_bleu(bare, [gold], force=True).score)
    assert evaluator.seen.tolist() == [False, True, False]
    assert evaluator.evaluation(np.zeros((3, 61)), ["x", "x", "x"]).constant == "x"


def test_rows_that_stand_in_train_are_left_out_of_a_second_score():
    evaluator = texts([("seen", "good"), "bad", "good"], [("seen", "good"), "bad", "good", "bad"])
    assert evaluator.seen.tolist() == [True, False, False, False]
    logits = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    found = evaluator.evaluation(logits).result()
    assert (found.quality["accuracy"], found.unseen["accuracy"]) == (3 / 4, 2 / 3)
    assert found.unseen.keys() == found.quality.keys()
    assert texts(["good", "bad"], ["good", "bad"]).evaluation(logits[:2]).unseen == {}


def test_a_test_split_that_is_all_in_train_has_no_second_score():
    rows = [("one", "good"), ("two", "bad")]
    evaluator = texts(rows, rows)
    assert evaluator.seen.all()
    assert evaluator.evaluation(np.eye(2)).unseen == {}


def test_a_pair_is_seen_where_both_texts_are():
    rows = {
        "train": [{"text": "a", "other": "b", "label": "x"}, {"text": "c", "other": "d", "label": "y"}],
        "test": [{"text": "a", "other": "d", "label": "x"}, {"text": "c", "other": "d", "label": "y"}],
    }
    corpus = read_texts(DataSettings(pair_column="other"), {**rows, "dev": rows["test"]})
    encoded = {name: encode(part, make_tokenizer(), 16) for name, part in corpus.splits.items()}
    assert TextEvaluator(corpus.task, make_tokenizer(), encoded).seen.tolist() == [False, True]


def test_one_answer_for_every_row_is_named():
    no_labels = np.empty(0)
    assert constant(TWO, np.array([[0.0, 1.0], [1.0, 3.0]]), no_labels) == "good"
    assert constant(TWO, np.array([[0.0, 1.0], [4.0, 3.0]]), no_labels) == ""
    assert constant(TWO, np.array([[0.0, 1.0]]), no_labels) == ""  # one row says nothing
    several = TaskInfo(kind="multilabel", labels=("a", "b"))
    assert constant(several, np.array([[-1.0, -1.0], [-3.0, -2.0]]), no_labels) == "(none)"
    labels = np.array([1.0, 3.0, 5.0])
    assert constant(NUMBER, np.array([[2.0], [2.000001], [2.0]]), labels) == "2"
    assert constant(NUMBER, np.array([[2.0], [2.01], [2.02]]), labels) == ""  # little spread, but a perfect rank


def test_the_confusion_matrix_counts_labels_by_predictions():
    gold, known = np.array([0, 0, 1, 1, 1]), np.array([True, True, True, True, False])
    logits = np.array([[1.0, 0], [0, 1], [0, 1], [0, 1], [1, 0]])
    assert confusion(TWO, logits, gold, known) == [[1, 1], [0, 2]]
    many = TaskInfo(kind="classify", labels=tuple(map(str, range(51))))
    assert confusion(many, np.eye(51), np.arange(51), np.ones(51, bool)) == []


def test_reliability_bins_are_those_of_the_calibration_error():
    draw = np.random.default_rng(0)
    logits, gold, known = draw.normal(size=(200, 2)) * 2, draw.integers(0, 2, 200), np.ones(200, bool)
    bins = reliability(TWO, logits, gold, known)
    assert sum(one.rows for one in bins) == 200
    assert all(one.low < one.confidence <= one.high and one.rows for one in bins)
    gap = sum(one.rows * abs(one.confidence - one.accuracy) for one in bins) / 200
    assert gap == pytest.approx(quality(TWO, logits, gold, known)[0]["ece"])
