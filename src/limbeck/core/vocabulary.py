"""A smaller vocabulary, in two halves that share one list: new id n was old id old_ids[n].

`trimmed` makes the tokenizer, `take_rows` brings the model along: embeddings, output projections, their biases, and
every setting that names a token.
"""

from __future__ import annotations

import atexit
import copy
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limbeck.core.errors import MismatchError, ModelError
from limbeck.core.marian_vocabulary import trim_marian
from limbeck.core.tokenizer_json import checked, indispensable, pieces_of, renumbered, with_merge_parents

if TYPE_CHECKING:
    from torch import Tensor, nn

_ONE_ID = ("token_id", "separator_id")  # how settings end that name a token, or several
_SOME_IDS = ("token_ids", "unread_ids", "suppress_tokens")


def trimmed(tokenizer: Any, keep_ids: Iterable[int]) -> tuple[Any, list[int]]:
    """A tokenizer with these pieces and those it cannot do without, and the old id of each new one.

    It is of the same class with the same settings; the one passed in stays as it is."""
    folder = Path(tempfile.mkdtemp(prefix="limbeck-tokenizer-"))
    # One made from SentencePiece files opens them again whenever it is copied.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    tokenizer.save_pretrained(folder)
    old_ids = _trim_files(folder, tokenizer, {*keep_ids, *tokenizer.all_special_ids})
    small = type(tokenizer).from_pretrained(folder)
    small.name_or_path = tokenizer.name_or_path
    new = {old: number for number, old in enumerate(old_ids)}
    if small.get_vocab() != {piece: new[old] for piece, old in tokenizer.get_vocab().items() if old in new}:
        raise ModelError(
            f"a {type(tokenizer).__name__} adds pieces of its own to a vocabulary, so it cannot be trimmed",
            "save its backend_tokenizer as a PreTrainedTokenizerFast with the same special tokens",
        )
    return small, old_ids


def _trim_files(folder: Path, tokenizer: Any, keep: set[int]) -> list[int]:
    """Edits a saved tokenizer in place."""
    if (folder / "tokenizer.json").exists():
        return _trim_json(folder / "tokenizer.json", keep)
    if (folder / "source.spm").exists() and not tokenizer.separate_vocabs:
        return trim_marian(folder, keep)
    raise ModelError(
        f"the vocabulary of a {type(tokenizer).__name__} cannot be trimmed: it is not one tokenizer.json",
        "convert it to a fast tokenizer, and save that beside the model; or leave the vocabulary whole",
    )


def _trim_json(path: Path, keep: set[int]) -> list[int]:
    data = checked(json.loads(path.read_text(encoding="utf-8")))
    known = {*pieces_of(data).values()}
    old_ids = sorted(with_merge_parents(data, (keep & known) | indispensable(data)))
    small = renumbered(data, {old: number for number, old in enumerate(old_ids)})
    path.write_text(json.dumps(small, ensure_ascii=False), encoding="utf-8")
    return old_ids


def named_ids(model: Any) -> set[int]:
    """Tokens that the model's settings name, and those it cannot lose without its positions changing."""
    rows, found = _rows(model), set[int]()
    for settings in _settings(model):
        for name, value in settings.to_dict().items():
            if name.endswith((*_ONE_ID, "unread_ids")) and value is not None:
                found |= {*value} if isinstance(value, list) else {value}
    found |= {part.padding_idx for part in model.modules() if getattr(part, "padding_idx", None) is not None}
    found |= {*range(_first_position(model))}
    return {number for number in found if 0 <= number < rows}


def take_rows(model: Any, old_ids: Sequence[int]) -> dict[str, int]:
    """Leaves the model the tokens `old_ids`, in that order. Returns which tensors changed, each along which dimension.

    Tied tensors stay tied; what learns goes on learning. Settings that name a token get its new id."""
    rows, dimensions = _rows(model), _vocabulary_dimensions(model)
    new = {old: number for number, old in enumerate(old_ids)}
    if max(old_ids) >= rows:
        raise MismatchError(
            f"the tokenizer has a token {max(old_ids)}, but the model has embeddings for only {rows:,}",
            "resize its embeddings to the tokenizer, or use the tokenizer it was trained with",
        )
    if (first := _first_position(model)) and new.get(first - 1) != first - 1:
        raise ModelError(
            f"a {model.config.model_type} counts positions from the id of its padding token, which would change",
            f"keep all {first} tokens up to it",
        )
    before = dict(_tensors(model))  # held, so that no id of theirs is used again
    taken: dict[int, Tensor] = {}
    for name, dimension in dimensions.items():
        _take(model, name, dimension, new, taken)
    del before
    _renumber_modules(model, rows, new)
    for settings in _settings(model):
        for name, value in settings.to_dict().items():
            if (changed := _renumbered(name, value, new, rows)) != value:
                setattr(settings, name, changed)
        for name in ("vocab_size", "decoder_vocab_size"):
            if getattr(settings, name, None) == rows:
                setattr(settings, name, len(old_ids))
    return dimensions


def _vocabulary_dimensions(model: Any) -> dict[str, int]:
    """Parameters and buffers with an entry per token, and along which dimension.

    Two empty models of this class tell, one of which has a token more: whatever differs depends on the vocabulary."""
    rows = _rows(model)
    one, more = (dict(_tensors(_empty(model, rows + extra))) for extra in (0, 1))
    found = {
        name: dimension
        for name, tensor in one.items()
        for dimension, size in enumerate(tensor.shape)
        if size != more[name].shape[dimension]
    }
    own = dict(_tensors(model))
    whole = all(name in own and own[name].shape[dimension] == rows for name, dimension in found.items())
    ends = [part for part in (model.get_input_embeddings(), model.get_output_embeddings()) if part is not None]
    taken = {id(own[name]) for name in found if name in own}
    if not whole or not all(taken & {id(x) for _, x in _tensors(part)} for part in ends):
        raise ModelError(
            f"embeddings or output projection of this {type(model).__name__} are not those its config speaks of",
            "trim the vocabulary before passes that change them (lowrank, quantize)",
        )
    return found


def _rows(model: Any) -> int:
    """The size of the model's vocabulary, padding included."""
    rows = getattr(getattr(model, "config", None), "vocab_size", None)
    if rows is None or getattr(model.config, "decoder_vocab_size", rows) != rows:
        raise ModelError(
            f"a {type(model).__name__} has no vocabulary, or more than one",
            "trim a transformers model with one vocab_size in its config",
        )
    return int(rows)


def _empty(model: Any, rows: int) -> Any:
    """A model of this class with so many tokens, without memory for its weights."""
    import torch

    config = copy.deepcopy(model.config)
    for name, value in {"vocab_size": rows, "decoder_vocab_size": rows, "compressed_layers": None}.items():
        if hasattr(config, name):
            setattr(config, name, value)
    with torch.device("meta"):
        return type(model)(config)


def _tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters(remove_duplicate=False)
    yield from model.named_buffers(remove_duplicate=False)


def _take(model: nn.Module, name: str, dimension: int, new: Mapping[int, int], taken: dict[int, Tensor]) -> None:
    """Puts the chosen entries of a tensor in its place; a tensor that stands in several places is taken once."""
    import torch
    from torch import nn

    path, _, attribute = name.rpartition(".")
    module = model.get_submodule(path)
    whole = getattr(module, attribute)
    if any(whole is part for part in taken.values()):
        return  # the same module under another name
    if id(whole) not in taken:
        part = whole.detach().index_select(dimension, torch.tensor(list(new), device=whole.device)).contiguous()
        learns = whole.requires_grad
        taken[id(whole)] = nn.Parameter(part, requires_grad=learns) if isinstance(whole, nn.Parameter) else part
    setattr(module, attribute, taken[id(whole)])
    if isinstance(module, nn.Linear):
        module.out_features, module.in_features = module.weight.shape
    if isinstance(module, nn.Embedding):
        module.num_embeddings = len(new)
        module.padding_idx = None if module.padding_idx is None else new.get(module.padding_idx)


def _settings(model: nn.Module) -> list[Any]:
    """Configs of the model and its parts, which may be copies, and the generation settings; each once."""
    found = [part.config for part in model.modules() if hasattr(part, "config")]
    found += [model.generation_config] if getattr(model, "generation_config", None) is not None else []
    return list({id(settings): settings for settings in found}.values())


def _first_position(model: nn.Module) -> int:
    """0, or the number that RoBERTa's and M2M100's kind counts positions from: the one behind the id of padding."""
    pads = (getattr(part, "padding_idx", None) for name, part in model.named_modules() if "position" in name)
    return next((pad + 1 for pad in pads if pad is not None), 0)


def _renumber_modules(model: Any, rows: int, new: Mapping[int, int]) -> None:
    """What modules other than tables noted of the config."""
    from torch import nn

    for part in model.modules():
        if isinstance(getattr(part, "padding_idx", None), int) and not isinstance(part, nn.Embedding):
            part.padding_idx = new.get(part.padding_idx)
        if getattr(part, "vocab_size", None) == rows:
            part.vocab_size = len(new)


def _renumbered(name: str, value: Any, new: Mapping[int, int], rows: int) -> Any:
    """A setting with new ids where it names tokens. Ids outside the vocabulary, such as −1, stay what they are."""

    def one(number: int) -> int | None:
        return new.get(number) if 0 <= number < rows else number

    def known(numbers: Iterable[int]) -> bool:
        return all(one(number) is not None for number in numbers)

    if value is None:
        return None
    if name.endswith(_ONE_ID) and isinstance(value, int):
        return one(value)
    if name.endswith((*_ONE_ID, *_SOME_IDS)):
        return [one(number) for number in value if known([number])]
    if name == "bad_words_ids":  # a sequence with a token that is gone cannot be written any more
        return [[one(number) for number in numbers] for numbers in value if known(numbers)]
    if name == "forced_decoder_ids":
        return [[place, one(number)] for place, number in value if known([number])]
    return value
