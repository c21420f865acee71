"""Which engine runs a teacher that translates: the fastest that writes what transformers writes."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limbeck.core.checksum import FILES, DamagedError, check_files, read_sealed
from limbeck.core.errors import LimbeckError, ModelError
from limbeck.core.process import main_first
from limbeck.core.progress import no_progress_bars
from limbeck.engines.base import Engine, Hypothesis
from limbeck.engines.ctranslate2 import FACTS, CTranslate2Engine
from limbeck.engines.transformers import TransformersEngine, generation_config
from limbeck.exporters.ctranslate2 import Precision, convert, facts_about
from limbeck.students.load import load_saved
from limbeck.teachers.settings import TranslateSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

SAMPLE = 24  # sources on which engines are compared before one is trusted
ONE_OTHER_IN = 12  # float32 rounding turns a near tie now and then; more than this is another model


def choose_engine(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path | None,
    home: Path,
    settings: TranslateSettings,
    sample: Sequence[str],
) -> tuple[Engine, str]:
    """The engine that these settings ask for, and a sentence about it.

    CTranslate2 is used where its float32 weights write what transformers writes for the sample, greedily and with the
    same log_p. Of int8 the sentence says how many of the sample's beam translations are the same."""
    knobs: dict[str, Any] = settings.model_dump(include={"length_penalty", "longest", "batch_tokens"})
    slow = TransformersEngine(model, tokenizer, **knobs)
    if settings.engine == "transformers":
        return slow, "The teacher translates in transformers."
    sample = list(dict.fromkeys(sample))[:SAMPLE]
    try:
        with main_first(), _saved(model, tokenizer, folder) as source:
            fast = CTranslate2Engine(_converted(source, home, settings.precision, model, tokenizer), tokenizer, **knobs)
            _compare_greedy(slow, fast, source, sample, knobs)
    except LimbeckError as error:
        if settings.engine == "ctranslate2":
            raise
        return slow, f"The teacher translates in transformers, not in CTranslate2: {error.problem}."
    same = _same(slow, fast, sample, settings.beam)
    return fast, (
        f"The teacher translates in CTranslate2 ({settings.precision}): {same} of {len(sample)} sample texts come out "
        "as in transformers."
    )


def checked_translator(source: Path, converted: Path, texts: Sequence[str]) -> dict[str, float]:
    """How many texts an int8 conversion translates as its source does; refuses one whose float32 does not."""
    model, tokenizer = load_saved(source)
    slow, fast = TransformersEngine(model, tokenizer), CTranslate2Engine(converted, tokenizer)
    sample = list(dict.fromkeys(texts))[:SAMPLE]
    _compare_greedy(slow, fast, source, sample, {})
    return {"rows": float(len(sample)), "agreement": _same(slow, fast, sample, 1) / len(sample)}


def _compare_greedy(
    slow: TransformersEngine, fast: CTranslate2Engine, source: Path, sample: list[str], knobs: dict[str, Any]
) -> None:
    with tempfile.TemporaryDirectory() as place:
        if fast.name != "ctranslate2 float32":
            first_token = generation_config(slow.model).forced_bos_token_id
            exact = convert(source, Path(place) / "float32", "float32", first_token)
            fast = CTranslate2Engine(exact, slow.tokenizer, **knobs)
        pairs = zip(slow.translate(sample), fast.translate(sample), strict=True)
        same = sum(_agree(ours[0], theirs[0]) for ours, theirs in pairs)
    if (len(sample) - same) * ONE_OTHER_IN > len(sample):
        raise ModelError(
            f"converted, the model writes only {same} of {len(sample)} sample texts as transformers does",
            "set engine to transformers",
        )


def _agree(one: Hypothesis, other: Hypothesis) -> bool:
    """The log_p tells a model whose logits are scaled, which greedy texts do not."""
    return one.text == other.text and math.isclose(one.log_p, other.log_p, rel_tol=0.02, abs_tol=0.05)


def _same(one: Engine, other: Engine, sample: list[str], beam: int) -> int:
    pairs = zip(one.translate(sample, beam), other.translate(sample, beam), strict=True)
    return sum(ours[0].text == theirs[0].text for ours, theirs in pairs)


def _converted(
    source: Path, home: Path, precision: Precision, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> Path:
    """The conversion in `home`, made anew where it is missing, damaged, or of other weights or settings."""
    out = home / f"ct2-{precision}"
    with suppress(DamagedError):
        facts = read_sealed(out / FACTS)
        check_files(out, facts.pop(FILES, {FACTS: ""}))  # one without checksums is made anew
        if facts == facts_about(model, tokenizer, precision):
            return out
    return convert(source, out, precision, generation_config(model).forced_bos_token_id)


@contextmanager
def _saved(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield Path(folder)
        return
    with tempfile.TemporaryDirectory() as place, no_progress_bars():
        model.save_pretrained(place)
        tokenizer.save_pretrained(place)
        yield Path(place)
