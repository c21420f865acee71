"""Made-up texts for the teacher to answer, written beside the run: people read them, and a resumed run does."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from limbeck.core.errors import KnobError
from limbeck.core.files import write_text
from limbeck.core.progress import Watcher
from limbeck.data.augment import augment, unlabelled
from limbeck.data.text.examples import Corpus, Examples
from limbeck.data.text.settings import AugmentSettings
from limbeck.students.open import open_language_model

if TYPE_CHECKING:
    from limbeck.data.tinybert import MaskedWords
    from limbeck.recipes.prepare import Material


def made_up(settings: AugmentSettings, material: Material, place: Path, watcher: Watcher) -> Examples:
    if settings.kind == "none":
        return Examples(np.empty(0, dtype=np.int64), [], [], np.empty(0), np.empty(0, dtype=bool))
    if not isinstance(material.corpus, Corpus):
        raise KnobError(
            "texts can be made up for labels of whole texts, not of places in them", "set --augment.kind none"
        )
    train = material.corpus.train
    name = f"{settings.model_dump_json()} {material.fingerprints['data']} {material.fingerprints['tokenizer']}"
    file = place / f"augmented-{hashlib.blake2b(name.encode(), digest_size=6).hexdigest()}.jsonl"
    if not file.exists():
        mask = material.teacher.tokenizer.mask_token or ""
        made = augment(train, settings, mask=mask, masker=_masker(settings, material), watcher=watcher)
        pairs = made.pairs or [""] * len(made)
        rows = zip(made.uids.tolist(), made.texts, pairs, strict=True)
        write_text(
            file, "".join(json.dumps(dict(zip(("uid", "text", "pair"), row, strict=True))) + "\n" for row in rows)
        )
    found = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return unlabelled({row["uid"]: (row["text"], row["pair"]) for row in found}, train)


def _masker(settings: AugmentSettings, material: Material) -> MaskedWords | None:
    from limbeck.data.tinybert import words_from

    if settings.kind != "tinybert":
        return None
    if not settings.model:
        return words_from(material.teacher.network, material.teacher.tokenizer)
    network, tokenizer = open_language_model(settings.model, "mask-fill")
    if not tokenizer.mask_token:
        raise KnobError(f"{settings.model} has no mask token", "give --augment.model a masked language model")
    return words_from(network, tokenizer)
