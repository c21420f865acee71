"""Metrics: what each is called, what it means, how it is written and which way it is better.

One table for all rooms, keyed by kind of task, since a name may mean several things: F1 is of class 1 for a classifier,
of entities for a tagger, of the words of an answer for extractive QA. How a metric is computed is in `measure`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, Protocol

from limbeck.core.errors import KnobError

Unit = Literal["share", "hundred", "perplexity", "plain"]  # 0 to 1, told in per cent; 0 to 100; from 1 up; a number


@dataclass(frozen=True)
class Metric:
    name: str  # in Records
    title: str  # inside a sentence
    meaning: str
    unit: Unit = "plain"
    higher_is_better: bool = True
    hub: str = ""  # the Hugging Face Hub's id
    column: str = ""  # title of its own column in a table of models; the primary metric needs none
    chooses: bool = True  # models may be chosen by it (--metric); one that a useless model can win may not

    @property
    def is_share(self) -> bool:
        return self.unit == "share"


class _Task(Protocol):
    @property
    def kind(self) -> str: ...

    @property
    def labels(self) -> tuple[str, ...]: ...

    @property
    def metric(self) -> str: ...


def _share(name: str, title: str, meaning: str, hub: str = "") -> Metric:
    return Metric(name, title, meaning, "share", hub=hub)


def _error(name: str, title: str, meaning: str) -> Metric:
    return Metric(name, title, meaning, higher_is_better=False)


def _calibration(name: str, decisions: str) -> Metric:
    meaning = f"how far stated confidence lies from the share of right {decisions}; lower is better"
    return Metric(name, "calibration error", meaning, "share", higher_is_better=False, chooses=False)


_F1_MACRO = _share("f1_macro", "macro F1", "mean F1 of the classes that occur or are predicted", "f1")
_F1_WEIGHTED = _share("f1_weighted", "weighted F1", "F1 of each class, weighted by its rows")
_MATTHEWS = Metric("matthews", "Matthews correlation", "of class and label; 0 is chance", hub="matthews_correlation")
_NLL = _error("nll", "negative log-likelihood", "mean −log probability of the label, in nats; lower is better")
_PERPLEXITY = (
    "exp of the cross-entropy: the model is as unsure of a {} as if it chose blindly between so many; lower is better, "
    "and only models with the same tokenizer compare"
)
_TAG_F1 = "of whole entities: type, first and last word must be right; of words where tags mark no beginnings"
_ANSWER_F1 = (
    "of the words of an answer and the gold answer nearest to it, as SQuAD's script has it; mean over questions"
)
_EXACT_MATCH = "share of answers that are a gold answer, but for case, articles and punctuation"
_BLEU = "corpus BLEU of greedy translations, 0 to 100, as sacrebleu has it (words by 13a, smoothed by exp)"
_CHRF = "corpus chrF of greedy translations, 0 to 100, as sacrebleu has it: characters and not words"
_BEAM_GAIN = "BLEU of beam search minus greedy BLEU; near 0 where greedy translations are as good"
_OF_GOLD = (
    "of a token of the references; only models with the same tokenizer compare, and a student that learns from "
    "translations may translate better while this rises"
)
_OF_TEACHER = ("perplexity of the teacher’s translations", "of a token of the teacher’s translations")
_P_BEST = "mean probability that a model gives to its own best translation, a whole text; high where it is sure"


def _of_tests(name: str, title: str, meaning: str, column: str = "") -> Metric:
    """Dev is decoded greedily, so that what takes a beam is measured on test alone."""
    return Metric(name, title, meaning, "hundred", column=column, chooses=False)


def _language(token: str) -> tuple[Metric, ...]:
    return (
        Metric("perplexity", "perplexity", _PERPLEXITY.format(token), "perplexity", False, "perplexity"),
        _error("token_nll", "cross-entropy", f"mean −log probability of the right {token}, in nats; lower is better"),
        _share("token_accuracy", "token accuracy", f"how often the most probable token is the right {token}"),
        _calibration("token_ece", "tokens"),
    )


# Kind of task → its metrics, the primary one first.
METRICS: dict[str, tuple[Metric, ...]] = {
    "classify": (
        _share("accuracy", "accuracy", "share of rows with the right class", "accuracy"),
        _share("f1", "F1", "F1 of class 1, of two", "f1"),
        _F1_MACRO,
        _F1_WEIGHTED,
        _MATTHEWS,
        _calibration("ece", "classes"),
        _NLL,
    ),
    "image": (
        _share("accuracy", "accuracy", "share of images with the right class", "accuracy"),
        _F1_MACRO,
        _F1_WEIGHTED,
        _MATTHEWS,
        _calibration("ece", "classes"),
        _NLL,
    ),
    "multilabel": (
        _share("f1_micro", "micro F1", "F1 of all decisions pooled", "f1"),
        _F1_MACRO,
        _share("accuracy", "accuracy", "share of rows with every label right", "accuracy"),
        _error("hamming", "Hamming loss", "share of single label decisions that are wrong; lower is better"),
        _calibration("ece", "decisions"),
    ),
    "regress": (
        Metric("pearson", "Pearson correlation", "linear correlation; constant predictions give 0", hub="pearsonr"),
        Metric("spearman", "Spearman correlation", "of the ranks; constant predictions give 0", hub="spearmanr"),
        _error("mse", "mean squared error", "lower is better"),
        _error("rmse", "root mean squared error", "in the units of the labels; lower is better"),
        _error("mae", "mean absolute error", "lower is better"),
    ),
    "tag": (
        _share("f1", "F1", _TAG_F1, "f1"),
        _share("precision", "precision", "share of the predicted entities that are true"),
        _share("recall", "recall", "share of the true entities that are predicted"),
        _share("accuracy", "accuracy", "share of words with the right tag", "accuracy"),
    ),
    "answer": (
        _share("f1", "F1", _ANSWER_F1, "f1"),
        _share("exact_match", "exact match", _EXACT_MATCH, "exact_match"),
    ),
    "mask-fill": _language("masked token"),
    "generate": _language("token"),
    "translate": (
        Metric("bleu", "BLEU", _BLEU, "hundred", hub="sacrebleu"),
        Metric("chrf", "chrF", _CHRF, "hundred", hub="chrf", column="chrF"),
        _of_tests("bleu_beam", "BLEU with a beam", "BLEU of beam search", "BLEU beam"),
        _of_tests("chrf_beam", "chrF with a beam", "chrF of beam search"),
        replace(_of_tests("beam_gain", "BLEU that a beam adds", _BEAM_GAIN, "beam adds"), higher_is_better=False),
        Metric("perplexity", "perplexity", _OF_GOLD, "perplexity", False, "perplexity", "perplexity, gold"),
        Metric("perplexity_of_teacher", *_OF_TEACHER, "perplexity", False, "", "perplexity, teacher’s", chooses=False),
        Metric("p_best", "p(ŷ)", _P_BEST, "share", column="p(ŷ)", chooses=False),
    ),
}

_KL = _error("divergence", "KL, nats", "mean KL(teacher ‖ student) per {}; 0 is a copy of the teacher")


def _closeness(row: str, same: str) -> dict[str, Metric]:
    agreement = _share("agreement", "agreement", f"share of {row}s with the teacher’s {same}")
    divergence = replace(_KL, meaning=_KL.meaning.format(row))
    return {"agreement": agreement, "divergence": divergence}


# Kind of task → what a Fidelity holds.
CLOSENESS: dict[str, dict[str, Metric]] = {
    "classify": _closeness("row", "class"),
    "multilabel": _closeness("row", "labels"),
    "regress": {
        "agreement": Metric("agreement", "agreement", "correlation with the teacher"),
        "divergence": _error("divergence", "squared distance", "mean squared difference from the teacher"),
    },
    "tag": _closeness("word", "tag"),
    "answer": _closeness("answer end", "position"),
    "mask-fill": _closeness("token", "prediction"),
    "generate": _closeness("token", "prediction"),
    "image": _closeness("image", "class"),
    "translate": {
        "agreement": _share("agreement", "agreement", "share of sentences with the teacher’s translation"),
        "divergence": _error(
            "divergence",
            "KL at the teacher’s mode, nats",
            "how much less probable a token of the teacher’s translations is to the student than to the teacher, mean "
            "difference in nats; an estimate of KL(teacher ‖ student)",
        ),
    },
}


def metrics_of(task: _Task) -> dict[str, Metric]:
    """What quality is measured in, the primary metric first. F1 of class 1 means something beside one other class."""
    two = task.kind != "classify" or len(task.labels) == 2
    found = [metric for metric in METRICS[task.kind] if metric.name != "f1" or two]
    return {metric.name: metric for metric in sorted(found, key=lambda metric: metric.name != task.metric)}


def check_metric(name: str, kinds: Iterable[str], labels: int = 2) -> None:
    """Refuses a name by which models of these kinds of task cannot be chosen; "" is each task's own.

    `labels` is how many classes there are, where that is known."""
    kinds = list(kinds)
    known = {metric.name: metric for kind in kinds for metric in METRICS[kind] if metric.chooses}
    if kinds == ["classify"] and labels != 2:
        known.pop("f1")
    if not name or name in known:
        return
    likely = {alias: metric.name for metric in known.values() for alias in (metric.title, metric.hub, metric.name)}
    close = difflib.get_close_matches(name.lower(), likely, n=1)
    hint = f"did you mean '{likely[close[0]]}'? " if close else ""
    what = f" for --task {kinds[0]}" if len(kinds) == 1 else ""
    classes = f" of {labels} classes" if kinds == ["classify"] and labels != 2 else ""
    raise KnobError(f"--metric cannot be '{name}'{what}{classes}", f"{hint}choose one of {', '.join(known)}")


def metric_of(task: _Task, name: str) -> Metric:
    """The metric as this kind of task has it. A foreign name is written as another kind writes it, without a meaning,
    or as a plain number."""
    own = (*METRICS[task.kind], *CLOSENESS[task.kind].values())
    foreign = (replace(metric, meaning="") for of_kind in METRICS.values() for metric in of_kind)
    every = chain(own, foreign, [Metric(name, name.replace("_", " "), "")])
    return next(metric for metric in every if metric.name == name)
