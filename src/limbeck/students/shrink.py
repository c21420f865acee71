"""A smaller student cut from its teacher: fewer layers, fewer or smaller heads, a narrower hidden or feed-forward size.

Which weights the student starts from:

- A student layer takes the weights of the teacher layer it is mapped to. Embeddings, pooler and classification head
  come from the teacher too.
- A narrower axis keeps a subset of the teacher's coordinates, and the same subset everywhere in the residual stream, so
  that what is kept still fits together: whole heads, evenly spaced; in a smaller head, evenly spaced places that keep
  rotary pairs; in the feed-forward, per layer, the neurons that do most: mean |activation| on training rows × norm of
  the outgoing weights; without rows to look at, the product of incoming and outgoing norms.
- Nothing is rescaled. What has the teacher's shape is copied bit for bit; what has no counterpart in the teacher is
  freshly initialised from torch's current seed and listed.

In these encoders hidden = heads × head_size, so the three move together:

- `heads` alone keeps the head size, `head_size` alone keeps the heads; hidden follows.
- `hidden` alone keeps the head size if that divides it, else the number of heads if that divides it.
- Two of the three fix the third; all three must agree. Fewer heads at the same hidden size merges neighbouring heads.

In T5 they are free of each other: each is as set, else as the teacher's.

Peculiar to encoder-decoder models:

- There are two stacks of layers; a preset and `keep` hold for both.
- A table of sinusoids depends on the width in every number, so it is computed for the student's, never cut.
- An output projection that is not the table of embeddings in the teacher is not in the student either.
- Layers are not skipped at random in training, as M2M100 does: a student of one layer has none to spare.
- The student takes over the teacher's generation config: its beams, the tokens it never writes.
"""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator

from limbeck.core.compress import NO_CALIBRATION, Calibration
from limbeck.core.errors import KnobError, ModelError
from limbeck.core.knob import Settings, knob
from limbeck.students.families import SAME, Family, check_family, families, family, find_family
from limbeck.students.seq2seq import hold_pad
from limbeck.students.sizes import Sizes, resized, sizes_of, spread, width

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

    from limbeck.students.inherit import Built

_KASAI_2021 = "Kasai et al. 2021 (deep encoder, shallow decoder)"
_SANH_2019 = "Sanh et al. 2019 (DistilBERT) keeps every other layer"
_FAMILIES = ", ".join(f"{name} ({help})" for name, help in families().items())
_SIZES = ("layers", "decoder_layers", "heads", "head_size", "hidden", "feed_forward", "groups", "embedding")
_PARTS = {"auto": 2, "half": 2, "third": 3, "quarter": 4}
SMALL = ("small", "tiny")  # presets that make more than the depth smaller
_LESS = {  # preset → the part of the teacher's size that is kept
    "small": {"layers": 2, "decoder_layers": 2, "feed_forward": 4, "embedding": 3},
    "tiny": {"layers": 3, "decoder_layers": 3, "feed_forward": 6, "embedding": 6},
}
_TINYBERT = {"layers": 4, "decoder_layers": 4, "hidden": 312, "heads": 12, "feed_forward": 1200}
_NO_DECODER = "but the teacher has no decoder layers"
_TWINS = {"heads": "decoder_attention_heads", "feed_forward": "decoder_ffn_dim"}  # the decoder's own setting
_KEEP_REMEDY = "use spread, first, last, every-2 (or another number), or layer numbers like 0,2,5"


def shrink(model: PreTrainedModel, tokenizer: Any = None, *, pairs: bool = False, **sizes: Any) -> PreTrainedModel:
    """A smaller, untrained student that starts from the weights of `model`; without sizes, half as deep.

    `sizes` are those of `Shrink`: layers, hidden, heads, feed_forward, preset, family … Some families look at
    the tokenizer, and at whether texts come in `pairs`. `Shrink.build` also says what was inherited.

    Example:

        >>> import limbeck
        >>> from transformers import BertConfig, BertForSequenceClassification
        >>> sizes = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 500}
        >>> teacher = BertForSequenceClassification(BertConfig(num_hidden_layers=6, **sizes))
        >>> limbeck.shrink(teacher, layers=3).config.num_hidden_layers
        3
        >>> limbeck.shrink(teacher, preset="third", hidden=32).config.num_hidden_layers
        2
    """
    return Shrink(**sizes).build(model, tokenizer, pairs)[0]


class Shrink(Settings):
    """The student's sizes. 0 means: as the teacher.

    Example:

        >>> from limbeck import Shrink
        >>> from transformers import BertConfig, BertModel
        >>> sizes = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 500}
        >>> student, inheritance = Shrink(layers=2).build(BertModel(BertConfig(num_hidden_layers=4, **sizes)))
        >>> inheritance.sentence()
        'The student starts from teacher layers 0, 3: 39 tensors copied whole.'
    """

    preset: Literal["auto", "small", "tiny", "half", "third", "quarter", "tinybert", "deep-shallow"] = knob(
        "auto",
        "how small; small: half the layers, a quarter of the neurons, word vectors of a third of the width; "
        "tiny: a third of the layers, two thirds of the width, a sixth of the neurons, word vectors of a sixth (both "
        "by --recipe small, as an ELECTRA where the teacher can be one, else as wide as the teacher; sizes that are "
        "set go first); half, third, quarter: of the layers alone; tinybert: 4 layers of 312; deep-shallow "
        "(encoder-decoder models): all encoder layers, one decoder layer; auto: the sizes set, else half the layers "
        "(families that are small by other means keep them all)",
        source=f"{_SANH_2019}; tinybert: TinyBERT4; {_KASAI_2021}",
        short="--preset",
    )
    layers: int = knob(
        0, "layers of the student (encoder layers); 0 leaves it to the preset", source=_SANH_2019, at_least=0
    )
    decoder_layers: int = knob(
        0,
        "decoder layers, of encoder-decoder models; 0: by the preset, or as the teacher",
        source=_KASAI_2021,
        at_least=0,
    )
    keep: str = knob(
        "spread",
        "which of the teacher's layers: spread (evenly, first and last included), first, last, every-2, or 0,2,5",
        source=_SANH_2019,
    )
    heads: int = knob(
        0, "attention heads; hidden shrinks with them unless hidden is set; 0: as the teacher", at_least=0
    )
    head_size: int = knob(0, "width of one head; hidden = heads × head_size; 0: as the teacher", at_least=0)
    hidden: int = knob(0, "width of the residual stream; drops heads if it can, else narrows them", at_least=0)
    feed_forward: int = knob(0, "neurons of each feed-forward block, the strongest are kept; 0: all", at_least=0)
    family: Annotated[str, AfterValidator(check_family)] = knob(
        "auto", f"architecture of the student: {_FAMILIES}; auto: the recipe's, else same", source=_SANH_2019
    )
    groups: int = knob(
        0,
        "distinct layers; the others share their weights, which saves memory, not time; 0: all, or one in a family "
        "that shares",
        source="ALBERT code, num_hidden_groups",
        at_least=0,
    )
    embedding: int = knob(
        0,
        "width of factorised word embeddings; 0: not factorised, or the family's own width",
        source="Lan et al. 2020 (ALBERT); Sun et al. 2020 (MobileBERT): 128 of 512",
        at_least=0,
    )
    bottleneck: int = knob(
        0,
        "width inside a layer, in a family with bottlenecks; 0: about a quarter of hidden",
        source="Sun et al. 2020 (MobileBERT): 128 of 512",
        at_least=0,
    )
    feed_forwards: int = knob(
        4,
        "feed-forward blocks in a layer, in a family with bottlenecks",
        source="Sun et al. 2020 (MobileBERT)",
        at_least=1,
    )
    filters: int = knob(
        128,
        "patterns of neighbouring pieces that a static student looks for; 0: the mean of its vectors alone, and the "
        "order of words is lost",
        at_least=0,
    )
    window: int = knob(5, "pieces that a filter of a static student sees at once", at_least=1, at_most=9)
    word_dropout: float = knob(
        0.3, "share of a text's pieces that a static student does not see in a training step", at_least=0, below=1
    )
    vectors: Literal["forward", "embeddings"] = knob(
        "forward",
        "what the vectors of a static student start from; forward: the teacher's answer to each piece alone, which "
        "takes a forward pass per piece of the vocabulary; embeddings: its table of word embeddings, at once",
        source="Model2Vec",
    )

    dropout: float = knob(
        -1.0, "dropout of the student, wherever it has any; -1: as the teacher's", at_least=-1, below=1
    )

    def settled(self, family: str) -> Self:
        """With the family decided."""
        return self.model_copy(update={"family": family}) if self.family == "auto" else self

    def settled_for(self, teacher: PreTrainedModel) -> Self:
        """The same for a teacher: a small preset is an ELECTRA where the teacher can be one, else stays as it is."""
        if self.family != "auto" or self.preset not in SMALL:
            return self.settled(SAME)
        return self.settled("electra" if find_family("electra").accepts(teacher) else SAME)

    def sized(self, teacher: Sizes) -> Self:
        """With the preset in numbers, where a person left them open."""
        if self._names_its_size:
            return self
        sizes = _preset_sizes(self.preset, teacher)
        if self.preset in SMALL:
            return self.model_copy(update={name: size for name, size in sizes.items() if self._leaves_open(name)})
        if clash := [name for name in sizes if getattr(self, name) not in (0, sizes[name])]:
            raise KnobError(
                f"--preset {self.preset} and knob 'student.{clash[0]}' both say how large the student is",
                "leave one of them out",
            )
        return self.model_copy(update=sizes)

    def _leaves_open(self, name: str) -> bool:
        """Whether a small preset may set a size: a person did not, and the family has it."""
        if getattr(self, name):
            return False
        if name in ("layers", "decoder_layers"):
            return not self.counts_layers
        if name == "hidden":  # of the other families it would cut coordinates away
            return self.family == "electra" and not self.heads and not self.head_size
        return self.family in (SAME, "electra")

    @property
    def names_depth(self) -> bool:
        """Whether a number or a preset says how many layers."""
        return bool(self.layers or self.decoder_layers or self.preset != "auto")

    @property
    def counts_layers(self) -> bool:
        """Whether `keep` says itself how many layers, as every-2 and 0,2,5 do."""
        return self.keep not in ("spread", "first", "last")

    @property
    def looks_at_rows(self) -> bool:
        """Whether training rows tell which weights a student of this shape keeps."""
        family = find_family(self.settled(SAME).family)
        narrow = self.feed_forward or self.preset in (*SMALL, "tinybert")
        return family.calibrates and (family.name != SAME or bool(narrow))

    @property
    def _names_its_size(self) -> bool:
        sized = self.counts_layers or any(getattr(self, name) for name in _SIZES)
        return self.preset == "auto" and (sized or find_family(self.settled(SAME).family).small)

    def sizes(self, teacher: Sizes) -> Sizes:
        """The student's sizes, or a KnobError that says which knob does not fit."""
        encoder, decoder = self.kept(teacher)
        heads, hidden = width(self.heads, self.head_size, self.hidden, teacher)
        head_size = (self.head_size or teacher.head_size) if teacher.free_head_size else 0
        feed_forward = self.feed_forward or teacher.feed_forward
        for name, size, most in (
            ("hidden size", hidden, teacher.hidden),
            ("number of heads", heads, teacher.heads),
            ("width of all heads", heads * head_size, teacher.all_heads),
            ("feed-forward size", feed_forward, teacher.feed_forward),
        ):
            if size > most:
                raise KnobError(
                    f"the student's {name} would be {size}, but the teacher has {most}",
                    f"Shrink only makes smaller: ask for at most {most} (hidden = heads × head_size)",
                )
        return Sizes(len(encoder), hidden, heads, feed_forward, len(decoder), head_size)

    def kept(self, teacher: Sizes) -> tuple[list[int], list[int]]:
        """The teacher's layers that the student keeps: of the encoder, or of the only stack, and of the decoder."""
        encoder = kept_layers(self.keep, teacher.layers, self.layers)
        if teacher.decoder_layers:
            return encoder, kept_layers(self.keep, teacher.decoder_layers, self.decoder_layers, "decoder_layers")
        if self.decoder_layers:
            raise KnobError(f"knob 'decoder_layers' is {self.decoder_layers}, {_NO_DECODER}", "leave it at 0")
        return encoder, []

    def build(
        self,
        teacher: PreTrainedModel,
        tokenizer: Any = None,
        pairs: bool = False,
        calibration: Calibration = NO_CALIBRATION,
    ) -> Built:
        """An untrained student, in eval mode, with the teacher's weights wherever shapes allow; and what it inherited.

        Some families look at the tokenizer, at whether texts come in pairs, and at training rows."""
        from limbeck.core.layers import dense, layers_of

        if layers_of(teacher):  # factors and integers cannot be sliced
            teacher = dense(teacher)
        shape = self.settled_for(teacher)
        family = find_family(shape.family)
        _check_knobs(shape, family)
        if teacher.config.is_encoder_decoder and family.name != SAME:
            raise KnobError(
                f"an encoder-decoder model cannot become a student of family '{family.name}'",
                "leave --student.family at same, and shrink its layers and widths",
            )
        if not shape._names_its_size:
            shape = shape.sized(sizes_of(teacher.config))
        if self.preset in SMALL and not self.embedding and family.name == SAME and not _can_factorise(teacher, shape):
            shape = shape.model_copy(update={"embedding": 0})
        options = (teacher, shape, tokenizer, pairs)
        student, result = family.build(*options, calibration) if family.calibrates else family.build(*options)
        return (student if shape.dropout < 0 else _with_dropout(student, shape.dropout)), result


def kept_at_full_width(shape: Shrink, teacher: PreTrainedModel, student: str, free: str) -> list[int]:
    """The layers kept by a family that has the teacher's width; `free` is what may be smaller."""
    before = sizes_of(teacher.config)
    if replace(shape.sizes(before), layers=before.layers) != before:
        raise KnobError(f"{student} has the teacher's width", f"shrink {free} only, or set --student.family same")
    return shape.kept(before)[0]


def _preset_sizes(preset: str, teacher: Sizes) -> dict[str, int]:
    """A size by name, in numbers."""
    if preset == "deep-shallow":
        if not teacher.decoder_layers:
            raise KnobError(f"--preset is deep-shallow, {_NO_DECODER}", "use half, third, quarter or tinybert")
        return {"layers": teacher.layers, "decoder_layers": 1}
    if preset in SMALL:
        known = {name: getattr(teacher, "hidden" if name == "embedding" else name) for name in _LESS[preset]}
        sizes = {name: max(1, known[name] // part) for name, part in _LESS[preset].items()}
        sizes["embedding"] = 0 if teacher.decoder_layers else max(2, sizes["embedding"])
        if preset == "tiny":
            sizes["hidden"] = max(1, teacher.heads * 2 // 3) * teacher.head_size  # whole heads
    elif preset == "tinybert":
        sizes = {name: min(most, getattr(teacher, name)) for name, most in _TINYBERT.items()}
    else:
        sizes = {name: getattr(teacher, name) // _PARTS[preset] or 1 for name in ("layers", "decoder_layers")}
    if not teacher.decoder_layers:
        del sizes["decoder_layers"]
    return sizes


def kept_layers(rule: str, teacher_layers: int, layers: int = 0, name: str = "layers") -> list[int]:
    """The teacher layers a student keeps, counted from 0. `layers` 0 leaves the number to the rule."""
    which = "decoder layers" if name == "decoder_layers" else "layers"
    if layers > teacher_layers:
        raise KnobError(
            f"knob '{name}' is {layers}, but the teacher has {teacher_layers} {which}",
            f"ask for 1 to {teacher_layers}; Shrink only makes smaller",
        )
    count = layers or teacher_layers
    if rule == "spread":
        return spread(teacher_layers, count)
    if rule == "first":
        return list(range(count))
    if rule == "last":
        return list(range(teacher_layers - count, teacher_layers))
    kept = _named_layers(rule, teacher_layers, which)
    if layers not in (0, len(kept)):
        raise KnobError(
            f"knob 'keep' is '{rule}', which keeps {len(kept)} {which}, but knob '{name}' is {layers}",
            f"leave {name} out, set it to {len(kept)}, or use keep = spread",
        )
    return kept


def _named_layers(rule: str, teacher_layers: int, which: str) -> list[int]:
    if every := re.fullmatch(r"every-(\d+)", rule):
        if not 1 <= int(every[1]) <= teacher_layers:
            raise KnobError(f"knob 'keep' is '{rule}', but the teacher has {teacher_layers} {which}", _KEEP_REMEDY)
        return list(range(0, teacher_layers, int(every[1])))
    if not re.fullmatch(r"\d+( *, *\d+)*", rule.strip()):
        raise KnobError(f"knob 'keep' cannot be '{rule}'", _KEEP_REMEDY)
    kept = [int(number) for number in rule.split(",")]
    if kept != sorted(set(kept)) or kept[-1] >= teacher_layers:
        raise KnobError(
            f"knob 'keep' names layers {rule}, but the teacher's {which} are 0 to {teacher_layers - 1}",
            "give each layer once, in ascending order, counted from 0",
        )
    return kept


def _check_knobs(shape: Shrink, family: Family) -> None:
    """A knob of another family would be without effect."""
    default = Shrink.model_construct()
    for other in map(find_family, families()):
        for name in other.knobs:
            if name not in family.knobs and getattr(shape, name) != getattr(default, name):
                raise KnobError(
                    f"'student.{name}' has no effect for family '{family.name}'",
                    f"leave it at {getattr(default, name)}, or set --student.family {other.name}",
                )


def _register_shared() -> None:
    from limbeck.students.shared_layers import register

    register()


def _can_factorise(teacher: PreTrainedModel, shape: Shrink) -> bool:
    from limbeck.students.shared_layers import FAMILIES

    sizes, known = sizes_of(teacher.config), teacher.config.model_type in FAMILIES
    return known and teacher.get_output_embeddings() is None and shape.sizes(sizes).hidden == sizes.hidden


def _with_dropout(student: PreTrainedModel, dropout: float) -> PreTrainedModel:
    """The same weights in a model whose every dropout is this one."""
    from limbeck.students.inherit import empty_model
    from limbeck.students.narrow import keep_stream, stream_of

    for name, value in student.config.to_dict().items():
        if "dropout" in name and isinstance(value, float | int) and not isinstance(value, bool):
            setattr(student.config, name, dropout)
    other = empty_model(student, student.config, student.device)
    other.load_state_dict(student.state_dict())
    if stream := stream_of(student):
        keep_stream(other, stream)
    return other


@family("same", "the teacher's own", knobs=("groups", "embedding"), calibrates=True, register=_register_shared)
def to_same(
    teacher: PreTrainedModel,
    shape: Shrink,
    tokenizer: Any,
    pairs: bool,
    calibration: Calibration = NO_CALIBRATION,
) -> Built:
    """An untrained student, in eval mode, with the teacher's weights wherever shapes allow."""
    from limbeck.students.inherit import empty_model, inherit

    before = sizes_of(teacher.config)
    after, (kept, decoder) = shape.sizes(before), shape.kept(before)
    _check_architecture(shape, teacher.config, before, after)
    if shape.groups or shape.embedding:
        from limbeck.students.shared_layers import share

        return share(teacher, kept, after, shape.groups, shape.embedding, calibration)
    config = resized(teacher.config, after, kept)
    if not decoder:
        student = empty_model(teacher, config, teacher.device)
        return student, inherit(student, teacher, kept, calibration=calibration)
    for name in ("encoder_layerdrop", "decoder_layerdrop"):
        if hasattr(config, name):
            setattr(config, name, 0.0)
    student = empty_model(teacher, config, teacher.device)
    computed = [name for name, table in student.named_parameters() if not table.requires_grad]
    _untie_as(student, teacher)
    result = inherit(student, teacher, kept, decoder, computed)
    student.generation_config = copy.deepcopy(teacher.generation_config)
    hold_pad(student)
    return student, result


def _untie_as(student: PreTrainedModel, teacher: PreTrainedModel) -> None:
    """T5 of version 1.1 has a projection of its own, though its config does not say so."""
    from torch import nn

    def is_tied(model: PreTrainedModel) -> bool:
        head = model.get_output_embeddings()
        return head is not None and head.weight is model.get_input_embeddings().weight

    if is_tied(student) and not is_tied(teacher):
        head = student.get_output_embeddings()
        head.weight = nn.Parameter(head.weight.detach().clone())


def _check_architecture(shape: Shrink, config: PretrainedConfig, before: Sizes, after: Sizes) -> None:
    if before.decoder_layers:
        _check_stacks(shape, config, before, after)
        return
    if getattr(config, "rope_parameters", None) and after.head_size % 2:
        raise KnobError(
            f"a head of {after.head_size} coordinates does not work with the rotary positions of {config.model_type}",
            "choose sizes that make hidden / heads an even number",
        )
    if 1 < getattr(config, "num_hidden_groups", 1) < before.layers != after.layers:
        raise ModelError(
            f"the teacher shares {config.num_hidden_groups} groups of weights among its {before.layers} layers, "
            "so layers cannot be taken out one by one",
            "leave layers at 0 and shrink the width, or use a teacher with one group",
        )


def _check_stacks(shape: Shrink, config: PretrainedConfig, before: Sizes, after: Sizes) -> None:
    """One knob holds for the widths of both stacks, so it needs one size to start from."""
    for name in ("groups", "embedding"):
        if getattr(shape, name):
            raise KnobError(
                f"'student.{name}' has no effect for encoder-decoder models", "leave it at 0; shrink layers and widths"
            )
    narrows = (after.hidden, after.heads, after.feed_forward) != (before.hidden, before.heads, before.feed_forward)
    for size, name in _TWINS.items():
        twin = getattr(config, name, None)
        if narrows and twin not in (None, getattr(before, size)):
            raise KnobError(
                f"the teacher's encoder layers have {size} {getattr(before, size)}, its decoder layers {twin}, "
                "so no width fits both",
                "take only layers away (layers, decoder_layers), and leave the widths at 0",
            )
    # transformers sizes T5's cache of decoder layers by the number of encoder layers.
    if hasattr(config, "num_decoder_layers") and after.decoder_layers > after.layers:
        raise KnobError(
            f"transformers cannot run a {config.model_type} with more decoder layers ({after.decoder_layers}) "
            f"than encoder layers ({after.layers})",
            f"set decoder_layers to at most {after.layers}",
        )
