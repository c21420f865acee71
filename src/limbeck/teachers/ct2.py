"""Teachers run by CTranslate2: several times the speed of transformers on a CPU, with weights in int8.

Marian, BART, mBART, M2M100 (NLLB), Pegasus, T5 and MT5 folders convert, through CTranslate2's own loaders. What those
expect and transformers 5 no longer says is said here: where a layer normalises, whether T5 scales its outputs, and
which token the decoder starts from. A Marian decoder starts from the embedding of <pad>. CTranslate2 takes that for
zero, but training moves the row wherever it is tied to the output; a Marian whose row is not zero is converted with
its <pad>, like a BART.

A converted folder is complete by itself: weights, tokenizer, and `limbeck.json` with the facts that CTranslate2 has no
place for (forced tokens, banned words, the tokens that are read at most, a digest of the weights).
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from limbeck.core.count import count_parameters
from limbeck.core.errors import LimbeckError, ModelError
from limbeck.core.files import explained, write_text
from limbeck.teachers.ct2_folder import FACTS, facts_of, found_facts, import_engine, read_tokenizer
from limbeck.teachers.translate_settings import BATCH_TOKENS, TranslateSettings
from limbeck.teachers.translators import (
    EMPTY,
    Generating,
    Hypothesis,
    Translator,
    batches_by_length,
    check_widths,
    decode,
    kept_settings,
    most_tokens,
    token_ids,
    tokens_read,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Precision = Literal["int8", "float32"]
SAMPLE = 24  # sources on which engines are compared before one is trusted
ONE_OTHER_IN = 12  # float32 rounding turns a near tie now and then; more than this is another model

# normalise before each block; normalise the embeddings
_NORMS = {
    "MarianConfig": (False, False),
    "BartConfig": (False, True),
    "MBartConfig": (True, True),
    "PegasusConfig": (True, False),
    "M2M100Config": (True, False),
}


class Converted(Translator):
    """A folder that `convert` made. Batches run side by side, one thread each."""

    def __init__(
        self,
        folder: Path | str,
        tokenizer: PreTrainedTokenizerBase | None = None,
        threads: int = 0,
        length_penalty: float = 1.0,
        longest: int = 0,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        engine = import_engine()
        import torch

        facts = facts_of(folder)
        self.tokenizer = read_tokenizer(folder) if tokenizer is None else tokenizer
        self.length_penalty, self.longest, self.batch_tokens = length_penalty, longest, batch_tokens
        self.reads: int = facts["reads"]
        self.end: str = facts["end"]
        self.spare = int(facts["forced_end"])  # transformers leaves the last place to a forced eos
        self.prefix: list[str] = facts["prefix"]
        self.banned: list[list[str]] = facts["banned"]
        self.name = f"ctranslate2 {facts['precision']}"
        self._engine = engine.Translator(
            str(folder), device="cpu", inter_threads=threads or torch.get_num_threads(), intra_threads=1
        )

    def translate(self, sources: Sequence[str], beam: int = 1, nbest: int = 1) -> list[list[Hypothesis]]:
        check_widths(beam, nbest)
        ids = token_ids(self.tokenizer, sources, self.reads)
        lengths = [len(row) for row in ids]
        batches = batches_by_length(lengths, self.batch_tokens)
        pending = [self._start([ids[i] for i in batch], beam, nbest) for batch in batches]
        found: list[list[Hypothesis]] = [[EMPTY] for _ in ids]
        for batch, results in zip(batches, pending, strict=True):
            for place, result in zip(batch, results, strict=True):
                found[place] = self._hypotheses(result.result())
        return found

    def _start(self, ids: list[list[int]], beam: int, nbest: int) -> list[Any]:
        results: list[Any] = self._engine.translate_batch(
            [self.tokenizer.convert_ids_to_tokens(row) for row in ids],
            target_prefix=[self.prefix] * len(ids) if self.prefix else None,
            max_decoding_length=most_tokens(len(ids[0]), self.longest, self.reads) - self.spare,
            max_input_length=0,
            min_decoding_length=0,  # transformers too lets a translation be empty
            beam_size=beam,
            num_hypotheses=nbest,
            length_penalty=self.length_penalty,
            suppress_sequences=self.banned or None,
            return_scores=True,
            return_end_token=True,
            asynchronous=True,
        )
        return results

    def _hypotheses(self, result: Any) -> list[Hypothesis]:
        rows = [self.tokenizer.convert_tokens_to_ids(tokens) for tokens in result.hypotheses]
        texts = decode(self.tokenizer, rows)
        lengths = [len(row) for row in rows]
        cut = [tokens[-1:] != [self.end] for tokens in result.hypotheses]
        return [
            Hypothesis(text, score * length**self.length_penalty, unfinished)
            for text, score, length, unfinished in zip(texts, result.scores, lengths, cut, strict=True)
        ]


def convert(folder: Path | str, out: Path | str, precision: Precision = "int8", first_token: int | None = None) -> Path:
    """A save_pretrained folder as a CTranslate2 folder: whole, or not there.

    A `first_token` begins every translation, also where the folder's own settings do not say it."""
    import_engine()
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    with _no_bars():
        try:
            model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype="float32").eval()
            tokenizer = AutoTokenizer.from_pretrained(folder)
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise ModelError(
                f"{folder} is not a translator's folder: {reason}", "give a save_pretrained folder"
            ) from None
    if first_token is not None:
        model.generation_config.forced_bos_token_id = first_token
    facts = _noted(model, tokenizer, precision)
    specification = _specification(model, tokenizer, folder)
    specification.optimize(quantization=precision)
    with _folder_in_place(Path(out)) as part:
        specification.save(str(part))
        tokenizer.save_pretrained(part)
        write_text(part / FACTS, json.dumps(facts, indent=1) + "\n")
    return Path(out)


def fastest(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path | None,
    home: Path,
    settings: TranslateSettings,
    sample: Sequence[str],
) -> tuple[Translator, str]:
    """The engine that these settings ask for, and a sentence about it.

    CTranslate2 is used where its float32 weights write what transformers writes for the sample, greedily and with the
    same log_p. Of int8 the sentence says how many of the sample's beam translations are the same."""
    knobs: dict[str, Any] = settings.model_dump(include={"length_penalty", "longest", "batch_tokens"})
    slow = Generating(model, tokenizer, **knobs)
    if settings.engine == "transformers":
        return slow, "The teacher translates in transformers."
    sample = list(dict.fromkeys(sample))[:SAMPLE]
    try:
        with _saved(model, tokenizer, folder) as source:
            fast = Converted(_converted(source, home, settings.precision, model, tokenizer), tokenizer, **knobs)
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


def _compare_greedy(slow: Generating, fast: Converted, source: Path, sample: list[str], knobs: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as place:
        if fast.name != "ctranslate2 float32":
            first_token = kept_settings(slow.model).forced_bos_token_id
            exact = convert(source, Path(place) / "float32", "float32", first_token)
            fast = Converted(exact, slow.tokenizer, **knobs)
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


def _same(one: Translator, other: Translator, sample: list[str], beam: int) -> int:
    pairs = zip(one.translate(sample, beam), other.translate(sample, beam), strict=True)
    return sum(ours[0].text == theirs[0].text for ours, theirs in pairs)


def _converted(
    source: Path, home: Path, precision: Precision, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> Path:
    """The conversion in `home`, made anew where it is missing or of other weights or settings."""
    out = home / f"ct2-{precision}"
    if found_facts(out) == _noted(model, tokenizer, precision):
        return out
    return convert(source, out, precision, kept_settings(model).forced_bos_token_id)


@contextmanager
def _saved(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield Path(folder)
        return
    with tempfile.TemporaryDirectory() as place, _no_bars():
        model.save_pretrained(place)
        tokenizer.save_pretrained(place)
        yield Path(place)


@contextmanager
def _folder_in_place(out: Path) -> Iterator[Path]:
    """Yields an empty folder beside `out`, and puts it in place when the block ends well."""
    with explained(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        try:
            yield part
            part.chmod(0o755)
            if out.exists():
                shutil.rmtree(out)
            part.rename(out)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def _specification(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path | str) -> Any:
    """CTranslate2's description of the model and its weights."""
    import torch

    theirs = import_module("ctranslate2.converters.transformers")
    kind = type(model.config).__name__
    loader = theirs._MODEL_LOADERS.get(kind)
    if loader is None:
        raise ModelError(f"CTranslate2 cannot run {folder}: it knows no {kind}", "set engine to transformers")
    if kind == "M2M100Config" and model.config.pad_token_id != 1:
        reason = "it counts positions from <pad>, which is not token 1"
        raise ModelError(f"CTranslate2 cannot run {folder}: {reason}", "set engine to transformers")
    _say_what_loaders_ask(model.config, kind)
    if kind == "MarianConfig" and not _starts_from_zero(model, tokenizer):
        loader = theirs.BartLoader()
    try:
        with torch.no_grad():
            specification = loader(model, tokenizer)
        _name_tokens(specification.config, model, tokenizer)
        specification.validate()
    except Exception as error:  # loaders fail in many ways on a model they do not expect
        reason = f"{type(error).__name__}: {error}"
        raise ModelError(f"CTranslate2 cannot run {folder}: {reason}", "set engine to transformers") from error
    return specification


def _say_what_loaders_ask(config: Any, kind: str) -> None:
    if kind in _NORMS:
        config.normalize_before, config.normalize_embedding = _NORMS[kind]
    # their T5 loader reads from this one whether outputs are scaled; transformers 5 sets it always
    if kind in ("T5Config", "MT5Config"):
        config.tie_word_embeddings = getattr(config, "scale_decoder_outputs", False)


def _starts_from_zero(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether it is a Marian as its loader wants it: <pad> is the last token, all zeros, and the decoder's start."""
    rows = model.get_decoder().get_input_embeddings().weight
    start = kept_settings(model).decoder_start_token_id
    last = start == len(rows) - 1 == len(tokenizer) - 1 and tokenizer.convert_ids_to_tokens(start) == "<pad>"
    return bool(model.config.model_type == "marian" and last and not rows[start].any())


def _name_tokens(config: Any, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """The tokens by which a translation starts and ends, as transformers has them; CTranslate2 wants none missing."""
    settings = kept_settings(model)
    config.eos_token = _end(model, tokenizer) or config.eos_token
    if settings.decoder_start_token_id is not None and not _starts_from_zero(model, tokenizer):
        config.decoder_start_token = tokenizer.convert_ids_to_tokens(settings.decoder_start_token_id)
    config.bos_token = tokenizer.bos_token or config.eos_token
    config.unk_token = tokenizer.unk_token or config.eos_token


def _end(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> str | None:
    """The token that ends a translation; of several, the tokenizer's."""
    end = kept_settings(model).eos_token_id
    return tokenizer.convert_ids_to_tokens(end) if isinstance(end, int) else tokenizer.eos_token


def _noted(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, precision: Precision) -> dict[str, Any]:
    settings = kept_settings(model)
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
        "reads": tokens_read(model, tokenizer),
    }


def _digest(model: PreTrainedModel) -> str:
    import torch

    digest = blake2b(digest_size=16)
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().float().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


@contextmanager
def _no_bars() -> Iterator[None]:
    from transformers.utils import logging

    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if bars:
            logging.enable_progress_bar()
