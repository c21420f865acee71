"""A smaller student cut from its teacher: fewer layers, fewer or smaller heads, a narrower hidden or feed-forward size.

Which weights the student starts from:

- A student layer takes the weights of the teacher layer it is mapped to. Embeddings, pooler and classification head
  come from the teacher too.
- A narrower axis keeps a subset of the teacher's coordinates, and the same subset everywhere in the residual stream, so
  that what is kept still fits together: whole heads, evenly spaced; in a smaller head, evenly spaced places that keep
  rotary pairs; in the feed-forward, per layer, the neurons with the largest product of incoming and outgoing norms.
- Nothing is rescaled. What has the teacher's shape is copied bit for bit; what has no counterpart in the teacher is
  freshly initialised from torch's current seed and listed.

In these encoders hidden = heads × head_size, so the three move together:

- `heads` alone keeps the head size, `head_size` alone keeps the heads; hidden follows.
- `hidden` alone keeps the head size if that divides it, else the number of heads if that divides it.
- Two of the three fix the third; all three must agree. Fewer heads at the same hidden size merges neighbouring heads.

In T5 they are free of each other: each is as given, else as the teacher's. A translator has two stacks of layers, one
that reads and one that writes; a preset and `keep` speak of both (`seq2seq`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self

from limbeck.core.errors import KnobError, ModelError
from limbeck.core.knob import Settings, knob
from limbeck.students.places import spread
from limbeck.students.sizes import Sizes, resized, sizes_of
from limbeck.students.widths import width

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

_KASAI_2021 = "Kasai et al. 2021 (deep encoder, shallow decoder)"
_SANH_2019 = "Sanh et al. 2019 (DistilBERT) keeps every other layer"
_KNOBS_OF = {
    "groups": ("auto", "same", "albert"),
    "embedding": ("auto", "same", "bilstm", "albert", "mobilebert"),
    "bottleneck": ("mobilebert",),
    "feed_forwards": ("mobilebert",),
}
_SIZES = ("layers", "decoder_layers", "heads", "head_size", "hidden", "feed_forward", "groups", "embedding")
_SMALL_BY_OTHER_MEANS = ("albert", "mobilebert", "bilstm")
_PARTS = {"auto": 2, "half": 2, "third": 3, "quarter": 4}
_TINY = {"layers": 4, "decoder_layers": 4, "hidden": 312, "heads": 12, "feed_forward": 1200}
_NO_DECODER = "but the teacher is no translator: it has no layers that write"
_KEEP_REMEDY = "use spread, first, last, every-2 (or another number), or layer numbers like 0,2,5"


class Shrink(Settings):
    """The student's sizes. 0 means: as the teacher."""

    preset: Literal["auto", "half", "third", "quarter", "tiny", "deep-shallow"] = knob(
        "auto",
        "a size by name: half, a third or a quarter of the layers; tiny: 4 layers of 312; deep-shallow, of "
        "translators: all layers that read, one that writes; auto: the sizes given, else half the layers (albert, "
        "mobilebert and bilstm are small by other means)",
        source=f"{_SANH_2019}; tiny: TinyBERT4; {_KASAI_2021}",
        short="--student",
    )
    layers: int = knob(0, "layers of the student; 0 leaves it to the preset", source=_SANH_2019, at_least=0)
    decoder_layers: int = knob(
        0,
        "of translators: layers that write; 0: by the preset, or as the teacher",
        source=_KASAI_2021,
        at_least=0,
    )
    keep: str = knob(
        "spread",
        "which of the teacher's layers: spread (evenly, first and last included), first, last, every-2, or 0,2,5",
        source=_SANH_2019,
    )
    heads: int = knob(
        0, "attention heads; hidden shrinks with them unless hidden is given; 0: as the teacher", at_least=0
    )
    head_size: int = knob(0, "width of one head; hidden = heads × head_size; 0: as the teacher", at_least=0)
    hidden: int = knob(0, "width of the residual stream; drops heads if it can, else narrows them", at_least=0)
    feed_forward: int = knob(0, "neurons of each feed-forward block, the strongest are kept; 0: all", at_least=0)
    family: Literal["auto", "same", "distilbert", "albert", "mobilebert", "bilstm"] = knob(
        "auto",
        "architecture of the student: the teacher's, or from BERT: DistilBERT (no segments, no pooler), ALBERT "
        "(layers share weights), MobileBERT (bottlenecks); from any: BiLSTM (one recurrent layer); auto: as the recipe "
        "has it, else the same",
        source=_SANH_2019,
    )
    groups: int = knob(
        0,
        "distinct layers; the others share their weights, which saves memory, not time; 0: all (albert: 1)",
        source="ALBERT code, num_hidden_groups",
        at_least=0,
    )
    embedding: int = knob(
        0,
        "width of factorised word embeddings; 0: not factorised (albert: 128, mobilebert: a quarter of hidden); of "
        "bilstm: of its word embeddings (300, or the teacher's)",
        source="Lan et al. 2020 (ALBERT); Sun et al. 2020 (MobileBERT): 128 of 512",
        at_least=0,
    )
    bottleneck: int = knob(
        0,
        "of mobilebert: width inside a layer; 0: about a quarter of hidden",
        source="Sun et al. 2020 (MobileBERT): 128 of 512",
        at_least=0,
    )
    feed_forwards: int = knob(
        4, "of mobilebert: feed-forward blocks in a layer", source="Sun et al. 2020 (MobileBERT)", at_least=1
    )

    def settled(self, family: str) -> Self:
        """With the family decided."""
        return self.but(family=family) if self.family == "auto" else self

    def sized(self, teacher: Sizes) -> Self:
        """With the preset in numbers, where a person left them open."""
        if self.preset == "auto" and (self._has_sizes or self.family in _SMALL_BY_OTHER_MEANS):
            return self
        sizes = _preset_sizes(self.preset, teacher)
        if clash := [name for name in sizes if getattr(self, name) not in (0, sizes[name])]:
            raise KnobError(
                f"--student {self.preset} and knob 'student.{clash[0]}' both say how large the student is",
                "leave one of them out",
            )
        return self.but(**sizes)

    @property
    def _has_sizes(self) -> bool:
        named = self.keep not in ("spread", "first", "last")  # it says itself how many layers
        return named or any(getattr(self, name) for name in _SIZES)

    def sizes(self, teacher: Sizes) -> Sizes:
        """The student's sizes, or a KnobError that says which knob does not fit."""
        reading, writing = self.kept(teacher)
        heads, hidden = width(self, teacher)
        head_size = (self.head_size or teacher.head_size) if teacher.free_head_size else 0
        feed_forward = self.feed_forward or teacher.feed_forward
        for name, asked, most in (
            ("hidden size", hidden, teacher.hidden),
            ("number of heads", heads, teacher.heads),
            ("width of all heads", heads * head_size, teacher.all_heads),
            ("feed-forward size", feed_forward, teacher.feed_forward),
        ):
            if asked > most:
                raise KnobError(
                    f"the student's {name} would be {asked}, but the teacher has {most}",
                    f"Shrink only makes smaller: ask for at most {most} (hidden = heads × head_size)",
                )
        return Sizes(len(reading), hidden, heads, feed_forward, len(writing), head_size)

    def kept(self, teacher: Sizes) -> tuple[list[int], list[int]]:
        """The teacher's layers that the student keeps: those that read, or all there are, and those that write."""
        reading = kept_layers(self.keep, teacher.layers, self.layers)
        if teacher.decoder_layers:
            return reading, kept_layers(self.keep, teacher.decoder_layers, self.decoder_layers, "decoder_layers")
        if self.decoder_layers:
            raise KnobError(f"knob 'decoder_layers' is {self.decoder_layers}, {_NO_DECODER}", "leave it at 0")
        return reading, []

    def build(
        self, teacher: PreTrainedModel, tokenizer: Any = None, pairs: bool = False
    ) -> tuple[PreTrainedModel, Inheritance]:
        """An untrained student, in eval mode, with the teacher's weights wherever shapes allow.

        Of the families only bilstm needs to know the tokenizer, and whether texts come in pairs."""
        from limbeck.students.axes import laid_out
        from limbeck.students.inherit import inherit

        before = sizes_of(teacher.config)
        _check_family(self)
        if before.decoder_layers:
            from limbeck.students.seq2seq import shrink_translator

            return shrink_translator(teacher, self)
        if self.family == "bilstm":
            from limbeck.students.bilstm_from import to_bilstm

            return to_bilstm(
                teacher,
                tokenizer,
                pairs=pairs,
                embedding=self.embedding,
                hidden=self.hidden,
                feed_forward=self.feed_forward,
            )
        if self.family == "mobilebert":
            from limbeck.students.mobilebert import to_mobilebert

            return to_mobilebert(teacher, self)
        after = self.sizes(before)
        kept, _ = self.kept(before)
        _check_architecture(teacher.config, before, after)
        if self.family in ("distilbert", "albert"):
            return self._of_other_family(teacher, kept, narrow=replace(after, layers=before.layers) != before)
        if self.groups or self.embedding:
            from limbeck.students.shared import share

            return share(teacher, kept, after, self.groups, self.embedding)
        student = laid_out(teacher, resized(teacher.config, after, kept), teacher.device)
        return student, inherit(student, teacher, kept)

    def _of_other_family(
        self, teacher: PreTrainedModel, kept: list[int], narrow: bool
    ) -> tuple[PreTrainedModel, Inheritance]:
        from limbeck.students.albert import to_albert
        from limbeck.students.distilbert import to_distilbert

        if self.family == "distilbert":
            return to_distilbert(teacher, kept, narrow)
        if narrow:
            raise KnobError(
                "an ALBERT has the teacher's width",
                "shrink layers, groups and embedding only, or set --student.family same",
            )
        return to_albert(teacher, kept, self.groups or 1, self.embedding)


@dataclass
class Inheritance:
    """Where the student's weights came from. Counts are of named tensors."""

    layers: list[int]  # the teacher layer of each student layer
    writing: list[int] = field(default_factory=list)  # of a translator: of each layer that writes
    whole: int = 0  # copied bit for bit
    sliced: int = 0  # cut to the kept coordinates
    fresh: list[str] = field(default_factory=list)  # newly initialised
    dropped: list[str] = field(default_factory=list)  # of kept parts of the teacher, without a place in the student

    def sentence(self) -> str:
        parts = [f"{self.whole} tensors copied whole"]
        parts += [f"{self.sliced} cut narrower"] if self.sliced else []
        parts += [f"{len(self.fresh)} new ({_few(self.fresh)})"] if self.fresh else []
        parts += [f"{len(self.dropped)} of the teacher's left out ({_few(self.dropped)})"] if self.dropped else []
        origin = f"starts from teacher layers {_listed(self.layers)}" if self.layers else "has layers of its own"
        if self.writing:
            origin = f"reads with teacher layers {_listed(self.layers)} and writes with {_listed(self.writing)}"
        return f"The student {origin}: {', '.join(parts)}."


def again(student: PreTrainedModel, fresh: list[str]) -> PreTrainedModel:
    """A copy of an untrained student whose `fresh` tensors are drawn anew from torch's current seed."""
    from copy import deepcopy

    from limbeck.students.axes import laid_out

    other = deepcopy(student)
    if fresh:
        drawn = laid_out(student, student.config, student.device).state_dict()
        other.load_state_dict({name: drawn[name] for name in fresh}, strict=False)
    return other


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


def _preset_sizes(preset: str, teacher: Sizes) -> dict[str, int]:
    """A size by name, in numbers."""
    if preset == "deep-shallow":
        if not teacher.decoder_layers:
            raise KnobError(f"--student is deep-shallow, {_NO_DECODER}", "use half, third, quarter or tiny")
        return {"layers": teacher.layers, "decoder_layers": 1}
    if preset == "tiny":
        sizes = {name: min(most, getattr(teacher, name)) for name, most in _TINY.items()}
    else:
        sizes = {name: getattr(teacher, name) // _PARTS[preset] or 1 for name in ("layers", "decoder_layers")}
    if not teacher.decoder_layers:
        del sizes["decoder_layers"]
    return sizes


def kept_layers(rule: str, teacher_layers: int, layers: int = 0, name: str = "layers") -> list[int]:
    """The teacher layers a student keeps, counted from 0. `layers` 0 leaves the number to the rule."""
    which = "layers that write" if name == "decoder_layers" else "layers"
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


def _check_family(asked: Shrink) -> None:
    """A knob of another family would be without effect."""
    default = Shrink()
    for name, families in _KNOBS_OF.items():
        if getattr(asked, name) != getattr(default, name) and asked.family not in families:
            raise KnobError(
                f"knob '{name}' says nothing of a student of family '{asked.family}'",
                f"leave it at {getattr(default, name)}, or set --student.family {families[-1]}",
            )


def _check_architecture(config: PretrainedConfig, before: Sizes, after: Sizes) -> None:
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
