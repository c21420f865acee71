"""Loading a saved model for a kind of task; refusing what would fail later, with the remedy."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from limbeck.core.errors import MismatchError, ModelError
from limbeck.core.task import ENDS, LANGUAGE_KINDS, SEQ2SEQ_KINDS, WINDOW_KINDS, Kind, TaskInfo
from limbeck.students.model_folder import (
    Misfit,
    explained_opening,
    find_folder,
    quiet,
    read_config,
    read_model,
    read_tokenizer,
)
from limbeck.students.seq2seq import decoder_start, hold_pad, settle_language
from limbeck.students.vocabulary import vocab_size_of

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]

_ENCODER = "an encoder such as BERT, RoBERTa or ModernBERT"


@dataclass(frozen=True)
class _Head:
    auto: str  # class of transformers
    name: str  # in errors
    use: str = _ENCODER  # instead of an architecture without it

    @property
    def unknown(self) -> str:
        return f"this architecture has no {self.name} head; use {self.use}"


_TEXT = _Head(
    "AutoModelForSequenceClassification",
    "text-classification",
    f"{_ENCODER}, or say with --task what it is for (translate, generate, …)",
)
_HEADS = {
    "": _TEXT,
    "classify": _TEXT,
    "multilabel": _TEXT,
    "regress": _TEXT,
    "tag": _Head("AutoModelForTokenClassification", "token-classification"),
    "answer": _Head("AutoModelForQuestionAnswering", "question-answering"),
    "image": _Head(
        "AutoModelForImageClassification", "image-classification", "a model that `limbeck train --task image` made"
    ),
    "mask-fill": _Head("AutoModelForMaskedLM", "masked language-model"),
    "generate": _Head("AutoModelForCausalLM", "causal language-model", "a model such as GPT-2, Llama or Qwen"),
    "translate": _Head(
        "AutoModelForSeq2SeqLM", "sequence-to-sequence", "a model such as Marian, T5, BART, mBART or M2M100"
    ),
}
_ENDINGS: dict[Kind, tuple[str, ...]] = {  # of the names of classes
    "mask-fill": ("MaskedLM", "ForPreTraining"),
    "generate": ("CausalLM", "LMHeadModel"),
    "tag": ("ForTokenClassification",),
    "answer": ("ForQuestionAnswering",),
    "image": ("ForImageClassification",),
    "translate": ("ForConditionalGeneration", "MTModel"),
}
_PROBLEMS: dict[str, Kind] = {
    "single_label_classification": "classify",
    "multi_label_classification": "multilabel",
    "regression": "regress",
}


def load(
    source: str | Path,
    kind: str | None = None,
    info: TaskInfo | None = None,
    *,
    new_head: bool = False,
    next_sentence: bool = False,
    trust_remote_code: bool = False,
) -> Loaded:
    """The model in a folder, or on the Hub, and its tokenizer; float32, eval mode.

    Without a `kind` it is the model as it was saved: one of transformers, a student of Limbeck's own, or one with
    layers that `compress` made. A weight too few, too many or of another shape is refused.

    Example:

        import limbeck
        from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

        tokenizer = BertTokenizerFast(vocab={"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "good": 5})
        sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
        model = BertForSequenceClassification(BertConfig(vocab_size=6, **sizes))
        small = limbeck.compress(model, [limbeck.Quantize()])
        small.save_pretrained("small")
        tokenizer.save_pretrained("small")
        model, tokenizer = limbeck.load("small")

    With a `kind` it has the head of that kind of task; "" is a text classifier of whatever problem type. With `info`, a
    model of other labels is refused, and one that does not name its labels (LABEL_0, LABEL_1, …) takes those of `info`.

    With `new_head` any model of the architecture will do: the head is drawn from torch's current seed, unless the
    checkpoint has one for the same labels. Kinds with labels then need `info`. `next_sentence` asks a masked language
    model for BERT's next-sentence head too."""
    if kind is None:
        return _load_as_saved(source, trust_remote_code)
    head, labelled = _HEADS[kind], kind not in (*LANGUAGE_KINDS, *SEQ2SEQ_KINDS)
    if kind == "answer":
        info = TaskInfo(kind="answer", labels=ENDS)
    if labelled and new_head and info is None:
        raise ValueError(f"a new {head.name} head needs a TaskInfo")
    with quiet(), explained_opening(source, head.unknown):
        folder = find_folder(source)
        config = read_config(folder, trust_remote_code)
        saved, same_labels = _saved_class(config), info is not None and labels_in(config) == info.labels
        if labelled and info is not None and (new_head or kind == "answer"):
            name_outputs(config, info)
        auto = "AutoModelForPreTraining" if next_sentence else head.auto
        model, misfit = read_model(folder, config, trust_remote_code, auto)
        tokenizer = read_tokenizer(folder, trust_remote_code, None if kind in LANGUAGE_KINDS else model)
    # A text classifier's head may have the shape of a token classifier's.
    has_head = kind not in WINDOW_KINDS or saved == type(model).__name__
    _check_weights(source, kind, model, misfit, saved, new_head)
    if not new_head and (misfit.missing or not has_head):
        raise _no_head(source, kind, misfit.missing)
    if kind in SEQ2SEQ_KINDS:
        settle_language(source, model, tokenizer, decoder_start(model))
        vocab_size_of(model, tokenizer)  # or refuses
        hold_pad(model)
    elif next_sentence and not has_next_sentence_head(model):
        raise ModelError(f"{source} has no next-sentence head", "use a BERT, or leave out --blocks.pairs")
    elif labelled and new_head:
        if not (has_head and (same_labels or kind == "answer")):
            _draw_head(model)
    elif labelled and info is not None and kind != "answer":
        _check_labels(source, model.config, info)
    return model, tokenizer


def _check_weights(
    source: str | Path, kind: str, model: PreTrainedModel, misfit: Misfit, saved: str, new_head: bool
) -> None:
    """Refuses weights that do not fit, other than those of a head that may be new."""
    missing, misshapen = misfit.missing, misfit.misshapen
    if kind in SEQ2SEQ_KINDS:
        # The weights of a classifier of such an architecture fit, but it has not learnt to write.
        if saved.endswith(("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")):
            head = _HEADS[kind]
            raise ModelError(f"{source} is a {saved}: it has no {head.name} head to learn from", f"use {head.use}")
        lost = sorted(missing | misshapen)
    elif new_head and kind not in LANGUAGE_KINDS:
        lost = _of_encoder(model, missing | misshapen)
    else:
        lost = sorted(misshapen) or _of_encoder(model, missing)
    if lost:
        raise ModelError(
            f"{source} lacks {len(lost)} weights of the size its config says, such as {lost[0]}",
            "config and weights are of different models: copy or download both again",
        )


def _load_as_saved(source: str | Path, trust_remote_code: bool) -> Loaded:
    with quiet(), explained_opening(source):
        folder = find_folder(source)
        config = read_config(folder, trust_remote_code)
        model, misfit = read_model(folder, config, trust_remote_code, _class_of(config, folder))
        kind = kind_of_class(_saved_class(config))
        tokenizer = read_tokenizer(folder, trust_remote_code, None if kind in LANGUAGE_KINDS else model)
    for names, problem in (
        (misfit.misshapen, "has {} of another shape than its config says"),
        (misfit.missing, "lacks {}, which its config asks for"),
        (misfit.surplus, "has {}, which its config does not know"),
    ):
        if names:
            more = f" and {len(names) - 1} more weights" if len(names) > 1 else ""
            raise ModelError(
                f"{source} {problem.format(min(names) + more)}",
                "config and weights are of different models: copy or download both again",
            )
    return model, tokenizer


def _class_of(config: PretrainedConfig, folder: Path) -> str | type:
    """The class that a config names among those which transformers, and Limbeck, have for its model type."""
    import transformers
    from transformers.models.auto import modeling_auto

    name = _saved_class(config)
    if not name:
        raise ModelError(
            f"{folder / 'config.json'} does not name the class of its model (architectures)",
            "save the model again with save_pretrained, or say with --task what it is for",
        )
    for auto in (cls for name, cls in vars(modeling_auto).items() if name.startswith("AutoModel")):
        found = auto._model_mapping.get(type(config), None)
        if isinstance(found, type) and found.__name__ == name:
            return found
    return getattr(transformers, name, None) or _HEADS[kind_of_class(name) or ""].auto  # of a model with its own code


def load_saved(source: str | Path, *, trust_remote_code: bool = False) -> Loaded:
    """A model with whichever head the folder says it has."""
    return load(source, kind_saved(source, trust_remote_code) or "", trust_remote_code=trust_remote_code)


def kind_of(network: PreTrainedModel) -> Kind | None:
    """The kind of task a model was trained for, by its head or its problem type; None if neither says."""
    return kind_of_class(type(network).__name__) or _PROBLEMS.get(getattr(network.config, "problem_type", None) or "")


def kind_saved(source: str | Path, trust_remote_code: bool = False) -> Kind | None:
    """The kind of task that a saved model's head is for; None for a text classifier, or without a head."""
    with quiet(), explained_opening(source, _TEXT.unknown):
        config = read_config(find_folder(source), trust_remote_code)
    return kind_of_class(_saved_class(config))


def kind_of_class(name: str) -> Kind | None:
    return next((kind for kind, endings in _ENDINGS.items() if name.endswith(endings)), None)


def _saved_class(config: PretrainedConfig) -> str:
    return (config.architectures or [""])[0]


def labels_in(config: PretrainedConfig) -> tuple[str, ...]:
    return tuple(str(config.id2label[number]) for number in sorted(config.id2label))


def _of_head(model: PreTrainedModel, names: Collection[str]) -> set[str]:
    return {name for name in names if not name.startswith(f"{model.base_model_prefix}.")}


def _of_encoder(model: PreTrainedModel, names: set[str]) -> list[str]:
    """Those that belong to the encoder proper; a pooler is part of the head in all but name."""
    return sorted(name for name in names - _of_head(model, names) if ".pooler." not in name)


def _draw_head(model: PreTrainedModel) -> None:
    with quiet():
        fresh = type(model)._from_config(model.config).state_dict()
    model.load_state_dict({name: fresh[name] for name in _of_head(model, fresh)}, strict=False)


def _no_head(source: str | Path, kind: str, missing: set[str]) -> ModelError:
    lacks = f" (it lacks {min(missing)})" if missing else ""
    task = f" --task {kind}" if kind else ""
    return ModelError(
        f"{source} has no {_HEADS[kind].name} head to learn from{lacks}",
        f"train one first with `limbeck train{task} --model {source}`, then use the result as the teacher",
    )


def has_next_sentence_head(model: PreTrainedModel) -> bool:
    return any(name.endswith("seq_relationship") for name, _ in model.named_modules())


def name_outputs(config: PretrainedConfig, info: TaskInfo) -> None:
    """Writes the task's labels and problem type into a config."""
    names = info.labels or ("score",)
    config.id2label = dict(enumerate(names))
    config.label2id = {name: number for number, name in enumerate(names)}
    config.problem_type = info.problem_type or None


def _check_labels(source: str | Path, config: PretrainedConfig, info: TaskInfo) -> None:
    labels = labels_in(config)
    other_type = config.problem_type not in (None, info.problem_type)
    if info.problem_type and (other_type or len(labels) != info.outputs):
        raise MismatchError(
            f"the model {source} gives {len(labels)} outputs ({config.problem_type or 'problem type not stated'}), "
            f"but the data is {info}",
            "use a model fine-tuned on this task (`limbeck train`), or data with the model's labels",
        )
    unnamed = all(name == f"LABEL_{number}" for number, name in enumerate(labels))
    if info.labels and (len(labels) != len(info.labels) or (labels != info.labels and not unnamed)):
        raise MismatchError(
            f"the model {source} has the labels {', '.join(labels[:6])}; the data has {', '.join(info.labels[:6])}",
            "give the data the model's labels, in its order, or fine-tune one on this data with `limbeck train`",
        )
    name_outputs(config, info)
