"""The files of a Marian tokenizer with fewer pieces: source.spm and target.spm segment, vocab.json numbers the pieces.

A piece that only vocab.json lost would be unknown wherever a text is segmented into it, so it goes from the
SentencePiece models too: such a text is then spelled with shorter pieces. Pieces that vocab.json never had stay, so
that what was unknown stays so; a text may fall back on one of them, which is counted among the new unknowns.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from limbeck.core.errors import ModelError

_NORMAL, _UNIGRAM = 1, 1  # of SentencePiece: an ordinary piece, and the kind of model


def trim_marian(folder: Path, keep: set[int]) -> list[int]:
    """Edits a saved MarianTokenizer in place. Returns the old id of each new one."""
    vocab = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    models = {name: _opened(folder / name) for name in ("source.spm", "target.spm")}
    # the unknown is scored by the lowest score of all
    stay = {min(_normal(model), key=lambda piece: piece.score).piece for model in models.values()}
    stay |= {piece.piece for model in models.values() for piece in model.pieces if piece.type != _NORMAL}
    stay |= {piece for piece in vocab if len(piece) == 1 or piece.startswith(">>")}  # characters and languages
    old_ids = sorted(number for piece, number in vocab.items() if number in keep or piece in stay)
    new = {old: number for number, old in enumerate(old_ids)}
    gone = {piece for piece, number in vocab.items() if number not in new}
    for name, model in models.items():
        pieces = [piece for piece in model.pieces if piece.piece not in gone]
        del model.pieces[:]
        model.pieces.extend(pieces)
        (folder / name).write_bytes(model.SerializeToString())
    smaller = sorted((new[number], piece) for piece, number in vocab.items() if number in new)
    _write(folder / "vocab.json", {piece: number for number, piece in smaller})
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    if added := settings.get("added_tokens_decoder"):
        settings["added_tokens_decoder"] = {str(new[int(old)]): token for old, token in added.items()}
        _write(folder / "tokenizer_config.json", settings)
    return old_ids


def _normal(model: Any) -> list[Any]:
    return [piece for piece in model.pieces if piece.type == _NORMAL]


def _opened(path: Path) -> Any:
    try:
        proto: Any = import_module("sentencepiece.sentencepiece_model_pb2")
    except ImportError as error:
        raise ModelError(f"a SentencePiece model cannot be edited: {error}", "pip install protobuf") from None
    model = proto.ModelProto.FromString(path.read_bytes())
    if model.trainer_spec.model_type != _UNIGRAM:
        raise ModelError(
            f"{path.name} of this MarianTokenizer is no unigram model, so its pieces depend on one another",
            "leave its vocabulary whole",
        )
    return model


def _write(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, ensure_ascii=False, indent=1), encoding="utf-8")
