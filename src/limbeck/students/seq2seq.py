"""A smaller translator cut from a larger one: fewer layers that read, fewer that write, a narrower width.

The rules are those of `shrink`. What is peculiar to models with two stacks:

- A table of sinusoids depends on the width in every number, so it is computed for the student's, never cut.
- An output projection that is not the table of embeddings in the teacher is not in the student either.
- Layers are not skipped at random in training, as M2M100 does: a student of one layer has none to spare.
- How the teacher writes (its beams, the tokens it never says) is the student's way too.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from limbeck.core.errors import KnobError
from limbeck.students.axes import laid_out
from limbeck.students.inherit import inherit
from limbeck.students.open_translator import hold_pad
from limbeck.students.shrink import Inheritance, Shrink
from limbeck.students.sizes import Sizes, resized, sizes_of

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

_SKIPPING = ("encoder_layerdrop", "decoder_layerdrop")
_TWINS = {"heads": "decoder_attention_heads", "feed_forward": "decoder_ffn_dim"}  # the writing stack's own setting


def shrink_translator(teacher: PreTrainedModel, asked: Shrink) -> tuple[PreTrainedModel, Inheritance]:
    """An untrained student, in eval mode, with the teacher's weights wherever shapes allow."""
    _check_same_family(asked)
    before = sizes_of(teacher.config)
    after, (reading, writing) = asked.sizes(before), asked.kept(before)
    _check_stacks_agree(teacher.config, before, after)
    _check_depths(teacher.config, after)
    config = resized(teacher.config, after, reading)
    for name in _SKIPPING:
        if hasattr(config, name):
            setattr(config, name, 0.0)
    student = laid_out(teacher, config, teacher.device)
    computed = [name for name, table in student.named_parameters() if not table.requires_grad]
    _untie_as(student, teacher)
    result = inherit(student, teacher, reading, writing, computed)
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


def _check_same_family(asked: Shrink) -> None:
    if asked.family not in ("auto", "same"):
        raise KnobError(
            f"a translator cannot become a student of family '{asked.family}'",
            "leave --student.family at same, and shrink its layers and widths",
        )
    for name in ("groups", "embedding"):
        if getattr(asked, name):
            raise KnobError(f"knob '{name}' says nothing of translators", "leave it at 0; shrink layers and widths")


def _check_stacks_agree(config: PretrainedConfig, before: Sizes, after: Sizes) -> None:
    """One knob speaks of both stacks, so it needs one size to start from."""
    for size, name in _TWINS.items():
        twin = getattr(config, name, None)
        narrows = (after.hidden, after.heads, after.feed_forward) != (before.hidden, before.heads, before.feed_forward)
        if narrows and twin not in (None, getattr(before, size)):
            raise KnobError(
                f"the teacher's layers that read have {size} {getattr(before, size)}, those that write {twin}, "
                "so no width fits both",
                "take only layers away (layers, decoder_layers), and leave the widths at 0",
            )


def _check_depths(config: PretrainedConfig, after: Sizes) -> None:
    """transformers counts what T5 remembers while it writes by the layers that read."""
    if hasattr(config, "num_decoder_layers") and after.decoder_layers > after.layers:
        raise KnobError(
            f"transformers cannot run a {config.model_type} with more layers that write ({after.decoder_layers}) "
            f"than read ({after.layers})",
            f"set decoder_layers to at most {after.layers}",
        )
