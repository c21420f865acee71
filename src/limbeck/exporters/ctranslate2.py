"""Conversion for CTranslate2: Marian, BART, mBART, M2M100 (NLLB), Pegasus, T5 and MT5, through its own loaders.

What those expect and transformers 5 no longer says is said here: where a layer normalises, whether T5 scales its
outputs, and which token the decoder starts from. A Marian decoder starts from the embedding of <pad>. CTranslate2 takes
that for zero, but training moves the row wherever it is tied to the output; a Marian whose row is not zero is converted
with its <pad>, like a BART.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from limbeck.core.checksum import FILES, checksums, sealed
from limbeck.core.errors import ModelError
from limbeck.core.files import atomic_folder
from limbeck.core.progress import no_progress_bars
from limbeck.engines.ctranslate2 import FACTS, import_ctranslate2
from limbeck.engines.transformers import generation_config, max_length
from limbeck.measure.size import count_parameters
from limbeck.students.families import OURS, model_type

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Precision = Literal["int8", "float32"]

# normalise before each block; normalise the embeddings
_NORMS = {
    "MarianConfig": (False, False),
    "BartConfig": (False, True),
    "MBartConfig": (True, True),
    "PegasusConfig": (True, False),
    "M2M100Config": (True, False),
}


def convert(folder: Path | str, out: Path | str, precision: Precision = "int8", first_token: int | None = None) -> Path:
    """A save_pretrained folder as a CTranslate2 folder: whole, or not there.

    A `first_token` begins every translation, also where the folder's own settings do not say it."""
    import_ctranslate2()
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    if model_type(Path(folder)).startswith(OURS):
        raise ModelError(
            f"{folder} has shapes or integers of its own, which CTranslate2 does not know",
            "export the model from before such passes: it is rounded to int8 anyway",
        )
    with no_progress_bars():
        try:
            model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype="float32").eval()
            tokenizer = AutoTokenizer.from_pretrained(folder)
        except (OSError, ValueError) as error:
            what = f"{folder} is not a translator's folder: {str(error).splitlines()[0]}"
            raise ModelError(what, "give a save_pretrained folder") from None
    if first_token is not None:
        model.generation_config.forced_bos_token_id = first_token
    facts = facts_about(model, tokenizer, precision)
    specification = _specification(model, tokenizer, folder)
    specification.optimize(quantization=precision)
    with atomic_folder(Path(out)) as part:
        specification.save(str(part))
        tokenizer.save_pretrained(part)
        text = json.dumps(sealed({**facts, FILES: checksums(part)}), indent=1)
        (part / FACTS).write_text(text + "\n", encoding="utf-8")
    return Path(out)


def _specification(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path | str) -> Any:
    """CTranslate2's description of the model and its weights."""
    import torch

    def refusal(reason: str) -> ModelError:
        return ModelError(f"CTranslate2 cannot run {folder}: {reason}", "set engine to transformers")

    theirs = import_module("ctranslate2.converters.transformers")
    config, kind = model.config, type(model.config).__name__
    loader = theirs._MODEL_LOADERS.get(kind)
    if loader is None:
        raise refusal(f"it knows no {kind}")
    if kind == "M2M100Config" and config.pad_token_id != 1:
        raise refusal("it counts positions from <pad>, which is not token 1")
    if kind in _NORMS:
        config.normalize_before, config.normalize_embedding = _NORMS[kind]
    # their T5 loader reads from this one whether outputs are scaled; transformers 5 sets it always
    if kind in ("T5Config", "MT5Config"):
        config.tie_word_embeddings = getattr(config, "scale_decoder_outputs", False)
    if kind == "MarianConfig" and not _starts_from_zero(model, tokenizer):
        loader = theirs.BartLoader()
    try:
        with torch.no_grad():
            specification = loader(model, tokenizer)
        _name_tokens(specification.config, model, tokenizer)
        specification.validate()
    except Exception as error:  # loaders fail in many ways on a model they do not expect
        raise refusal(f"{type(error).__name__}: {error}") from error
    return specification


def _starts_from_zero(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether it is a Marian as its loader wants it: <pad> is the last token, all zeros, and the decoder's start."""
    rows = model.get_decoder().get_input_embeddings().weight
    start = generation_config(model).decoder_start_token_id
    last = start == len(rows) - 1 == len(tokenizer) - 1 and tokenizer.convert_ids_to_tokens(start) == "<pad>"
    return bool(model.config.model_type == "marian" and last and not rows[start].any())


def _name_tokens(config: Any, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """The tokens by which a translation starts and ends, as transformers has them; CTranslate2 wants none missing."""
    settings = generation_config(model)
    config.eos_token = _end(model, tokenizer) or config.eos_token
    if settings.decoder_start_token_id is not None and not _starts_from_zero(model, tokenizer):
        config.decoder_start_token = tokenizer.convert_ids_to_tokens(settings.decoder_start_token_id)
    config.bos_token = tokenizer.bos_token or config.eos_token
    config.unk_token = tokenizer.unk_token or config.eos_token


def _end(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> str | None:
    """The token that ends a translation; of several, the tokenizer's."""
    end = generation_config(model).eos_token_id
    return tokenizer.convert_ids_to_tokens(end) if isinstance(end, int) else tokenizer.eos_token


def facts_about(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, precision: Precision) -> dict[str, Any]:
    settings = generation_config(model)
    forced, banned = settings.forced_bos_token_id, settings.bad_words_ids or []
    if _starts_from_zero(model, tokenizer):  # its loader leaves <pad> out of the vocabulary
        banned = [row for row in banned if settings.pad_token_id not in row]
    return {
        "precision": precision,
        "parameters": list(count_parameters(model)),
        "weights": _digest(model),
        "prefix": [] if forced is None else tokenizer.convert_ids_to_tokens([forced]),
        "end": _end(model, tokenizer),
        "forced_end": settings.forced_eos_token_id is not None,
        "banned": [tokenizer.convert_ids_to_tokens(row) for row in banned],
        "reads": max_length(model, tokenizer),
    }


def _digest(model: PreTrainedModel) -> str:
    import torch

    digest = blake2b(digest_size=16)
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().float().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
