"""A tokenizer.json with fewer pieces, edited as data: WordPiece, Unigram, BPE and whole words.

Pieces that stay keep their order, scores and merges, so a text is segmented as before unless a piece that went was part
of it:

- WordPiece takes the longest piece that fits; a longest piece that stays is still the longest.
- Unigram takes the best-scored path; a path whose pieces stay is still the best. Unknown characters are scored by the
  lowest score of all, so a piece that has it stays.
- BPE merges by rank; a piece needs the parts it is merged from, theirs, and the merges between them.

Single characters and bytes stay too, so that a dropped word is spelled and does not become unknown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from limbeck.core.errors import ModelError

Json = dict[str, Any]
MODELS = ("WordPiece", "Unigram", "BPE", "WordLevel")
_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")


def pieces_of(data: Json) -> dict[str, int]:
    """Piece → id, of the model and of the tokens added to it."""
    return _vocabulary(data["model"]) | {token["content"]: token["id"] for token in data["added_tokens"]}


def indispensable(data: Json) -> set[int]:
    """Ids of special and added tokens, single characters, bytes, and what stands for the unknown."""
    model, pieces = data["model"], pieces_of(data)
    ends = model.get("continuing_subword_prefix") or "", model.get("end_of_word_suffix") or ""
    kept = {token["id"] for token in data["added_tokens"]}
    kept |= {number for piece, number in pieces.items() if _is_character(piece, *ends) or _BYTE.fullmatch(piece)}
    kept |= {pieces[model["unk_token"]]} if model.get("unk_token") in pieces else set()
    if model["type"] == "Unigram" and model["vocab"]:
        scores = [score for _, score in model["vocab"]]
        kept |= {scores.index(min(scores))} | ({model["unk_id"]} if model.get("unk_id") is not None else set())
    if data["padding"] and data["padding"]["pad_id"] in pieces.values():
        kept.add(data["padding"]["pad_id"])
    return kept | set(_special_ids(data["post_processor"]))


def with_merge_parents(data: Json, kept: Iterable[int]) -> set[int]:
    """The same ids and, of BPE, all that they are merged from, by whichever of several ways."""
    closed = set(kept)
    if data["model"]["type"] != "BPE":
        return closed
    pieces = pieces_of(data)
    parents: dict[int, set[int]] = defaultdict(set)
    for left, right, whole in _merges(data["model"]):
        if whole in pieces:
            parents[pieces[whole]] |= {pieces[part] for part in (left, right) if part in pieces}
    ahead = list(closed)
    while ahead:
        ahead += (new := parents[ahead.pop()] - closed)
        closed |= new
    return closed


def renumbered(data: Json, new: Mapping[int, int]) -> Json:
    """The file with the pieces that have a new id, and no others. New ids are in the order of the old."""
    model = {**data["model"], "vocab": _fewer(data["model"], new)}
    if model["type"] == "BPE":
        stay = _vocabulary(model).keys()
        merges = zip(model["merges"], _merges(data["model"]), strict=True)
        model["merges"] = [merge for merge, parts in merges if stay >= {*parts}]
    if model.get("unk_id") is not None:
        model["unk_id"] = new[model["unk_id"]]
    padding = data["padding"] and {**data["padding"], "pad_id": new.get(data["padding"]["pad_id"], 0)}
    added = [{**token, "id": new[token["id"]]} for token in data["added_tokens"]]
    after = _with_new_ids(data["post_processor"], new)
    return {**data, "model": model, "added_tokens": added, "post_processor": after, "padding": padding}


def checked(data: Json) -> Json:
    """A tokenizer.json with every section this file looks at; one of another kind is refused."""
    model = data.get("model", {})
    kind = model.get("type") or ("Unigram" if isinstance(model.get("vocab"), list) else "")
    kind = kind or (
        "BPE" if "merges" in model else "WordPiece" if "continuing_subword_prefix" in model else "WordLevel"
    )
    if kind not in MODELS:
        raise ModelError(f"a vocabulary of the kind {kind} cannot be trimmed", f"use one of {', '.join(MODELS)}")
    empty: Json = {"added_tokens": [], "post_processor": None, "padding": None}
    return {**empty, **data, "model": {**model, "type": kind}}


def _vocabulary(model: Json) -> dict[str, int]:
    vocab = model["vocab"]
    return {piece: number for number, (piece, _) in enumerate(vocab)} if isinstance(vocab, list) else vocab


def _fewer(model: Json, new: Mapping[int, int]) -> Any:
    if isinstance(model["vocab"], list):
        return [entry for number, entry in enumerate(model["vocab"]) if number in new]
    stay = {piece: new[number] for piece, number in model["vocab"].items() if number in new}
    return dict(sorted(stay.items(), key=lambda entry: entry[1]))


def _is_character(piece: str, prefix: str, suffix: str) -> bool:
    return len(piece) == 1 or len(piece.removeprefix(prefix).removesuffix(suffix)) == 1


def _merges(model: Json) -> list[tuple[str, str, str]]:
    """Of each merge its two parts and what they make."""
    prefix = len(model.get("continuing_subword_prefix") or "")
    pairs = [tuple(merge.split(" ") if isinstance(merge, str) else merge) for merge in model["merges"]]
    return [(left, right, left + right[prefix:]) for left, right in pairs]


def _special_ids(part: Json | None) -> Iterable[int]:
    """Ids that a post-processor puts around a text."""
    for inner in (part or {}).get("processors", ()):
        yield from _special_ids(inner)
    for token in (part or {}).get("special_tokens", {}).values():
        yield from token["ids"]
    yield from (part[name][1] for name in ("cls", "sep") if part and name in part)


def _with_new_ids(part: Json | None, new: Mapping[int, int]) -> Json | None:
    if part is None:
        return None
    found = dict(part)
    if "processors" in part:
        found["processors"] = [_with_new_ids(inner, new) for inner in part["processors"]]
    if "special_tokens" in part:
        tokens = part["special_tokens"].items()
        found["special_tokens"] = {name: {**token, "ids": [new[n] for n in token["ids"]]} for name, token in tokens}
    return found | {name: [part[name][0], new[part[name][1]]] for name in ("cls", "sep") if name in part}
