"""Every option of the data: which examples, how they are read, and the tables of each task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import field_validator, model_validator

from limbeck.core.errors import KnobError
from limbeck.core.knob import Knobs, Settings, knob, table
from limbeck.core.plugins import HELP, Plugins
from limbeck.core.task import IMAGE_KINDS, LANGUAGE_KINDS, SEQ2SEQ_KINDS, TEXT_KINDS, WINDOW_KINDS

HUB_TAGS = {  # what the Hub calls a task → what --task calls it
    "text-classification": "classify",
    "token-classification": "tag",
    "question-answering": "answer",
    "fill-mask": "mask-fill",
    "text-generation": "generate",
    "translation": "translate",
    "image-classification": "image",
    "summarization": "translate",
    "text2text-generation": "translate",
}
BY_TIME = -1  # copies of a row: auto
_TANG, _JIAO = "Tang et al. 2019", "TinyBERT code"


class DataSettings(Settings):
    train: str = knob(
        "",
        "the data: a file (CSV, TSV, JSON, Parquet), a folder or a Hub id; for tag also CoNLL, for answer also SQuAD's "
        "JSON, for language models plain text, gzipped or not, for images IDX files (MNIST's), or digits (5,000 of "
        "them); a folder has train, dev and test files, or is a saved dataset",
        short="--data",
    )
    dev: str = knob("", "a file that chooses the best checkpoint; without one, a part of train is cut off for it")
    test: str = knob("", "a file that is only measured on; without one, a part of train is cut off for it")
    unlabelled: str = knob(
        "",
        "texts, pairs, sentences to tag, questions or sources to translate, without labels, that join train for the "
        "teacher to answer: files of any known format, plain text (one per line), folders of text files (a text per "
        "file) or saved datasets, separated by commas; without --data, dev and test are cut from them too, but for "
        "translation",
        short="--unlabelled",
    )
    text_column: str = knob("", "the column with the text; by default found by its name", short="--text-column")
    pair_column: str = knob("", "the column with the second text of a pair; by default found by its name")
    label_column: str = knob(
        "",
        "the column with the label, or none; several 0/1 columns, separated by commas, make a multi-label task",
        short="--label-column",
    )
    teacher_column: str = knob(
        "",
        "the column with a teacher's answers, in place of --teacher; class names or ids, or one list of probabilities; "
        "several columns of probabilities, one per class, separated by commas; cells may be empty",
        short="--teacher-column",
    )
    teacher_smoothing: float = knob(
        0.1,
        "of a teacher column with one class per text: part of the probability that is spread over all classes",
        above=0,
        below=1,
        source="Szegedy et al. 2016, 0.1",
    )
    task: Literal[
        "auto", "classify", "multilabel", "regress", "tag", "answer", "mask-fill", "generate", "translate", "image"
    ] = knob(
        "auto",
        "kind of task; classify, multilabel, regress: whole texts; tag: token classification (NER); answer: extractive "
        "QA; mask-fill: masked LM; generate: causal LM; translate: seq2seq; image: classes of images; auto: by the "
        "model's head or the labels. "
        "The Hub's tags, such as token-classification and fill-mask, are accepted too",
        short="--task",
    )
    classes: str = knob(
        "", "class names in the teacher's order, separated by commas; needed when it only knows LABEL_0 and LABEL_1"
    )
    separator: str = knob("|", "what stands between the labels in one cell of a multi-label column")
    quoting: Literal["auto", "csv", "none"] = knob(
        "auto", "whether double quotes wrap a field (csv) or are part of the text (none); auto decides by looking"
    )
    header: Literal["auto", "yes", "no"] = knob(
        "auto", "whether the first line names the columns; without names they are called 1, 2, 3"
    )
    encoding: str = knob(
        "auto", "text encoding of the file; auto is UTF-8 (UTF-16 if it has a BOM) and refuses any other"
    )
    max_length: int = knob(128, "tokens kept of a text; longer ones are truncated and counted", at_least=8)
    limit: int = knob(
        0,
        "train on this many rows of --data at most; language models: blocks; drawn by hash and so always the same; "
        "0 is all",
        at_least=0,
    )
    limit_unlabelled: int = knob(0, "take this many rows of --unlabelled, drawn as for `limit`; 0 is all", at_least=0)
    limit_dev: int = knob(0, "measure on this many rows of dev, drawn as for `limit`; 0 is all", at_least=0)
    limit_test: int = knob(0, "test on this many rows, drawn as for `limit`; 0 is all", at_least=0)
    dev_share: float = knob(0.1, "the part of train cut off for dev when there is no dev file", above=0, below=1)
    dev_rows: int = knob(
        0, "cut off exactly so many rows of train for dev; drawn by hash; 0: a share, dev_share", at_least=0
    )
    test_share: float = knob(0.1, "the part of train cut off for test when there is no test file", above=0, below=1)

    @property
    def unlabelled_sources(self) -> list[str]:
        return [name.strip() for name in self.unlabelled.split(",") if name.strip()]

    @property
    def source(self) -> str:
        """What train is read from, for people."""
        return " and ".join(filter(None, [self.train, ", ".join(self.unlabelled_sources)]))

    @classmethod
    def task_in(cls, values: object) -> str:
        """What a table of these settings, not checked yet, says of the task."""
        task = values.get("task") if isinstance(values, Mapping) else getattr(values, "task", None)
        return HUB_TAGS.get(str(task), str(task or "auto"))

    @field_validator("task", mode="before")
    @classmethod
    def _by_hub_tag(cls, value: Any) -> Any:
        return HUB_TAGS.get(value, value) if isinstance(value, str) else value


class TaskKnobs(Knobs):
    """What every verb has: the data, and the tables of its task."""

    distils: ClassVar[bool] = False  # the verb may learn from a teacher's answers that stand in the data

    data: DataSettings = knob(DataSettings(), "the data")
    trust_remote_code: bool = knob(False, "run Python code that comes with a model; only for code you have read")
    plugin: Plugins = knob("", HELP, short="--plugin")

    @property
    def metric(self) -> str:
        """What a person chose to lead with; only a verb that measures has a knob for it."""
        return ""

    @model_validator(mode="after")
    def _check_teacher_column(self) -> Self:
        if self.data.teacher_column and not self.distils:
            raise KnobError(
                "a teacher's column is for `limbeck distill` and `limbeck compare`", "leave --teacher-column out"
            )
        return self


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


@table("blocks", "how running text is cut into blocks of tokens", LANGUAGE_KINDS)
class BlockSettings(Settings):
    """Plain text, or chats, cut into blocks of tokens."""

    length: int = knob(128, "tokens of a block, special ones included", at_least=8)
    pack: bool = knob(True, "fill a block from several documents; without, no block crosses from one into the next")
    held_out: int = knob(500, "blocks of dev and of test at most, drawn by hash; 0 keeps all", at_least=0)
    documents: Literal["auto", "blank-line", "line", "file"] = knob(
        "auto", "what ends a document in a plain text file; auto: blank lines if there are any, else every line"
    )
    messages_column: str = knob("", "the column with chat messages (role and content); by default found by its name")
    learn: Literal["answers", "all"] = knob("answers", "loss on the assistant's messages only, or on the whole chat")
    pairs: bool = knob(
        False, "sentence pairs for next-sentence prediction: one sentence per line, blank lines between documents"
    )


@table("mask", "which tokens are masked, for masked language models", LANGUAGE_KINDS)
class MaskSettings(Settings):
    """Which tokens are masked, and on which the student imitates the teacher."""

    kind: Literal["auto", "token", "whole-word", "rare"] = knob(
        "auto",
        "which tokens are masked; token: any; whole-word: all pieces of a word; rare: rare ones more often; "
        "auto: as the recipe has it, else token",
        source="BERT; BERT's later release; DistilBERT code, count^-0.7",
    )
    share: float = knob(0.15, "part of the tokens that is predicted", above=0, below=1, source="BERT")
    hidden: float = knob(0.8, "of those, the part replaced by the mask token", at_least=0, at_most=1, source="BERT")
    random: float = knob(0.1, "of those, the part replaced by a random token", at_least=0, at_most=1, source="BERT")
    rounds: int = knob(
        0,
        "different masks per block, used by turns; 0 draws a new one every epoch (a cache: as many as it holds)",
        at_least=0,
        source="BERT's data has 10",
    )
    ask: Literal["auto", "masked", "all"] = knob(
        "auto",
        "tokens on which logits are compared; the masked ones, or all; auto: as the recipe has it, else masked",
        source="DistilBERT code: all",
    )
    seed: int = knob(0, "of the masks; the same for every student, so that one cache serves all", at_least=0)

    def settled(self, kind: str = "token", ask: str = "masked") -> Self:
        """With `auto` decided."""
        chosen = {"kind": kind if self.kind == "auto" else self.kind, "ask": ask if self.ask == "auto" else self.ask}
        return self.model_copy(update=chosen)


@table("directions", "several teachers of one student, by direction", SEQ2SEQ_KINDS, by_name=True)
class DirectionSettings(Settings):
    """One direction of several; in run files [directions.en-de]."""

    teacher: str = knob("", "the model that teaches this direction: a folder or a hub id")
    train: str = knob("", "its texts, as --data")
    target: str = knob("", "a file with the target of each line of them, as --target")
    dev: str = knob("", "as --data.dev")
    dev_target: str = knob("", "as --parallel.dev-target")
    test: str = knob("", "as --data.test")
    test_target: str = knob("", "as --parallel.test-target")
    repeat: int = knob(
        1, "how often its training rows are seen in an epoch: more than once for a small one", at_least=1
    )


@table("parallel", "sources and targets", SEQ2SEQ_KINDS)
class ParallelSettings(Settings):
    target: str = knob(
        "",
        "a file with the target of each line of --data; without one, --data holds both. Files of dev and test are "
        "found by its ending",
        short="--target",
    )
    dev_target: str = knob("", "the same for --data.dev")
    test_target: str = knob("", "the same for --data.test")
    source_column: str = knob("", "the column to translate from; by default found by its name, or the first")
    target_column: str = knob("", "the column to translate to; by default found by its name, or the second")
    prefix: str = knob("", "words put before every source, as T5 wants them: 'translate English to German: '")
    tag: str = knob(
        "",
        "the target language as a token before every source, <2de>, for a student of several teachers",
        short="--tag",
    )
    tags: str = knob("", "target languages, comma-separated, that get such a token in a new vocabulary", short="--tags")


@table("image", "which images train, and how they are shifted", IMAGE_KINDS)
class ImageSettings(Settings):
    """Training images; those of dev and test, and those that a teacher answers, stay as they are."""

    jitter: int = knob(
        0,
        "shift training images by up to so many pixels each way; another shift in every epoch; 0: never",
        at_least=0,
        source="Hinton et al. 2015, 2 for the teacher",
    )
    train_labels: str = knob(
        "", "train on images of these labels only, separated by commas; dev and test keep all; empty: all"
    )
    seed: int = knob(0, "of the shifts; the same for every student", at_least=0)


@table("augment", "augmented texts for the teacher to label", TEXT_KINDS)
class AugmentSettings(Settings):
    """New training texts, made from the old ones."""

    kind: Literal["auto", "none", "joins", "bilstm", "tinybert"] = knob(
        "auto",
        "how texts are augmented; joins: two rows in one, as long as dev's; bilstm: masks, words of like part of "
        "speech, n-grams; tinybert: a masked LM's words; auto: as the recipe has it, else none",
    )
    copies: int = knob(
        0,
        "new texts per row; 0: one join, or as published (bilstm 20, pairs 10; tinybert 30, from 10,000 rows 20, from "
        "200,000 10); auto (-1): as many as the teacher answers in `minutes`, at most as published (joins 10)",
        at_least=-1,
        source=f"{_TANG}; {_JIAO}",
    )
    minutes: float = knob(10.0, "time for the teacher to answer new texts, with --augment.copies auto", above=0)
    mask: float = knob(0.1, "bilstm: part of the words that is masked", at_least=0, at_most=1, source=_TANG)
    pos: float = knob(
        0.1,
        "bilstm: part replaced by words of the same part of speech; in other languages than English set 0",
        at_least=0,
        at_most=1,
        source=_TANG,
    )
    ngram: float = knob(0.25, "bilstm: part of the texts cut to a few words", at_least=0, at_most=1, source=_TANG)
    longest_ngram: int = knob(5, "bilstm: most words of a text so cut", at_least=1, source=_TANG)
    replace: float = knob(0.4, "tinybert: part of the words that is replaced", at_least=0, at_most=1, source=_JIAO)
    candidates: int = knob(15, "tinybert: candidates for each word", at_least=1, source=_JIAO)
    model: str = knob(
        "",
        "tinybert: a masked LM that predicts the words, a folder or a Hub id; else the nearest ones in the "
        "teacher's embeddings",
    )
    limit: int = knob(0, "new texts at most, drawn by hash; 0 keeps all", at_least=0)
    seed: int = knob(0, "of the new texts; the same for every student, so that one cache serves all", at_least=0)

    @field_validator("copies", mode="before")
    @classmethod
    def _by_time(cls, value: Any) -> Any:
        return BY_TIME if value == "auto" else value

    def settled(self, kind: str = "none") -> Self:
        """With the kind decided."""
        return self.model_copy(update={"kind": kind}) if self.kind == "auto" else self

    def copies_or(self, otherwise: int) -> int:
        """New texts per row, where `otherwise` are usual. What time allows must be decided before."""
        assert self.copies != BY_TIME
        return self.copies or otherwise
