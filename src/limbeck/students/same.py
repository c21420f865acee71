"""A smaller model of the teacher's own architecture, by the rules that `shrink` states.

Peculiar to encoder-decoder models:

- A table of sinusoids depends on the width in every number, so it is computed for the student's, never cut.
- An output projection that is not the table of embeddings in the teacher is not in the student either.
- Layers are not skipped at random in training, as M2M100 does: a student of one layer has none to spare.
- The student takes over the teacher's generation config: its beams, the tokens it never writes.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from limbeck.core.errors import KnobError, ModelError
from limbeck.students.axes import empty_model
from limbeck.students.families import family
from limbeck.students.inherit import Inheritance, inherit
from limbeck.students.seq2seq import hold_pad
from limbeck.students.shared import register, share
from limbeck.students.shrink import Shrink
from limbeck.students.sizes import Sizes, resized, sizes_of

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

_SKIPPING = ("encoder_layerdrop", "decoder_layerdrop")
_TWINS = {"heads": "decoder_attention_heads", "feed_forward": "decoder_ffn_dim"}  # the decoder's own setting


@family("same", "the teacher's own", knobs=("groups", "embedding"), register=register)
def to_same(
    teacher: PreTrainedModel, shape: Shrink, tokenizer: Any = None, pairs: bool = False
) -> tuple[PreTrainedModel, Inheritance]:
    """An untrained student, in eval mode, with the teacher's weights wherever shapes allow."""
    before = sizes_of(teacher.config)
    after, (kept, decoder) = shape.sizes(before), shape.kept(before)
    if before.decoder_layers:
        return _seq2seq(teacher, shape, kept, decoder)
    _check_architecture(teacher.config, before, after)
    if shape.groups or shape.embedding:
        return share(teacher, kept, after, shape.groups, shape.embedding)
    student = empty_model(teacher, resized(teacher.config, after, kept), teacher.device)
    return student, inherit(student, teacher, kept)


def _seq2seq(
    teacher: PreTrainedModel, shape: Shrink, encoder: list[int], decoder: list[int]
) -> tuple[PreTrainedModel, Inheritance]:
    for name in ("groups", "embedding"):
        if getattr(shape, name):
            raise KnobError(
                f"'student.{name}' has no effect for encoder-decoder models", "leave it at 0; shrink layers and widths"
            )
    before = sizes_of(teacher.config)
    after = shape.sizes(before)
    _check_stacks_agree(teacher.config, before, after)
    _check_depths(teacher.config, after)
    config = resized(teacher.config, after, encoder)
    for name in _SKIPPING:
        if hasattr(config, name):
            setattr(config, name, 0.0)
    student = empty_model(teacher, config, teacher.device)
    computed = [name for name, table in student.named_parameters() if not table.requires_grad]
    _untie_as(student, teacher)
    result = inherit(student, teacher, encoder, decoder, computed)
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


def _check_stacks_agree(config: PretrainedConfig, before: Sizes, after: Sizes) -> None:
    """One knob holds for both stacks, so it needs one size to start from."""
    for size, name in _TWINS.items():
        twin = getattr(config, name, None)
        narrows = (after.hidden, after.heads, after.feed_forward) != (before.hidden, before.heads, before.feed_forward)
        if narrows and twin not in (None, getattr(before, size)):
            raise KnobError(
                f"the teacher's encoder layers have {size} {getattr(before, size)}, its decoder layers {twin}, "
                "so no width fits both",
                "take only layers away (layers, decoder_layers), and leave the widths at 0",
            )


def _check_depths(config: PretrainedConfig, after: Sizes) -> None:
    """transformers sizes T5's cache of decoder layers by the number of encoder layers."""
    if hasattr(config, "num_decoder_layers") and after.decoder_layers > after.layers:
        raise KnobError(
            f"transformers cannot run a {config.model_type} with more decoder layers ({after.decoder_layers}) "
            f"than encoder layers ({after.layers})",
            f"set decoder_layers to at most {after.layers}",
        )
