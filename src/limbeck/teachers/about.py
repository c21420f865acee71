"""What the answers in a store are of, and the file that says so."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

from limbeck.core.errors import MismatchError
from limbeck.core.files import write_text
from limbeck.core.knob import Settings, knob
from limbeck.teachers.shard import VERSION


class About(Settings):
    """What the answers of a store are of. All of it but the notes must be the same to use the store again."""

    kind: Literal["top", "sampled"] = knob("top", "the most probable words, or words drawn at random")
    k: int = knob(50, "words kept, or draws, per token", at_least=1)
    vocabulary: int = knob(30522, "words to choose from", at_least=1)
    temperature: float = knob(1.0, "temperature of the draws, or the one the top's softened sum is for", above=0)
    fingerprints: dict[str, str] = knob({}, "of teacher, tokenizer, data and mask")
    notes: dict[str, Any] = knob({}, "knobs, for people to read; not compared")


class Info(Settings):
    """What `limbeck cache --info` shows."""

    version: int
    created: str
    about: About
    examples: int
    tokens: int
    shards: int
    bytes: int
    bytes_per_token: float
    damaged: list[str]


def identity(about: About) -> str:
    return json.dumps(about.model_dump(exclude={"notes"}), sort_keys=True)


def write_index(path: Path, about: About) -> None:
    content = {
        "version": VERSION,
        "about": about.model_dump(mode="json"),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    write_text(path, json.dumps({**content, "checksum": _digest(content)}, indent=1) + "\n")


def read_index(path: Path) -> tuple[About, str]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        checksum = content.pop("checksum")
        version = int(content["version"])
    except (FileNotFoundError, NotADirectoryError):
        raise MismatchError(
            f"{path.parent} is not a store: it has no {path.name}", "fill one with limbeck cache"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        checksum, version, content = "", VERSION, {}
    if version > VERSION:
        raise MismatchError(
            f"{path.parent} was written in format {version}, this version reads up to {VERSION}",
            "update Limbeck, or give another folder",
        )
    if checksum != _digest(content):
        raise MismatchError(
            f"{path} is damaged",
            "delete this one file and fill the store again with the same settings; its answers are kept",
        )
    return About(**content["about"]), str(content["created"])


def _digest(content: dict[str, Any]) -> str:
    return blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


def refuse_other(where: Path, wanted: About, found: About) -> None:
    """Says in which respects the answers that were found are not those that are wanted."""
    other = [
        f"{name} ({getattr(found, name)}, not {getattr(wanted, name)})"
        for name in ("kind", "k", "vocabulary", "temperature")
        if getattr(found, name) != getattr(wanted, name)
    ]
    prints = sorted({*found.fingerprints, *wanted.fingerprints})
    other += [name for name in prints if found.fingerprints.get(name) != wanted.fingerprints.get(name)]
    if other:
        raise MismatchError(
            f"the answers in {where} were made with another {' and another '.join(other)}",
            f"give another folder, or delete {where}",
        )
