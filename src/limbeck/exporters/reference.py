"""The source of an export as a reference: its answers to real texts, in padded batches and alone, short and long, and
how near another engine's come to them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from limbeck.core.errors import ModelError
from limbeck.core.task import TEXT_KINDS, Kind, TaskInfo
from limbeck.measure.quality import quality

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

ROWS, SOLO, BATCH = 256, 12, 8  # texts compared, of which so many alone, and so many at once
LONGEST = 512  # tokens of the text that is as long as the model reads
AGREEMENT = {8: 0.98, 4: 0.95}  # share of answers that must be the source's, by the bits of weights
NOISE = {8: 0.05, 4: 0.25}  # mean squared difference of logits beside their mean square, at most
OUTPUTS: dict[str, tuple[str, ...]] = {"answer": ("start_logits", "end_logits")}
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")

Array = NDArray[Any]
Arrays = dict[str, Array]


@dataclass
class Reference:
    """Texts as the source answers them. The last batch holds one text, as long as the model reads."""

    kind: Kind
    batches: list[Arrays]
    logits: list[list[Array]]  # of each batch: of each output, what stands at real tokens [tokens, …] or [texts, …]
    labels: Array
    info: TaskInfo
    rows: int

    @classmethod
    def of(
        cls,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        info: TaskInfo,
        rows: Sequence[tuple[str, str]],
        labels: Sequence[Any] = (),
    ) -> Reference:
        chosen = np.unique(np.linspace(0, len(rows) - 1, min(ROWS, len(rows))).round().astype(int)).tolist()
        known = np.asarray(labels)[chosen] if len(labels) and info.kind in TEXT_KINDS else np.empty(0)
        some = [rows[place] for place in chosen]
        batches = [_encode(tokenizer, some[first : first + BATCH]) for first in range(0, len(some), BATCH)]
        batches.append(_encode(tokenizer, [_long(some, tokenizer)]))
        taken = inputs_of(model, tokenizer)
        batches = [{name: batch[name] for name in taken} for batch in batches]
        logits = [_as_read(_answers(model, batch, info.kind), batch, info.kind) for batch in batches]
        return cls(info.kind, batches, logits, known, info, len(chosen))

    def compare(self, session: Any, tried: int | None = None) -> dict[str, float]:
        """Figures of what runs as a session of ONNX Runtime does; with `tried`, on so many texts, without the rest."""
        count = len(self.batches) if tried is None else min(-(-tried // BATCH), len(self.batches) - 1)
        found = [_run(session, batch, self.kind) for batch in self.batches[:count]]
        pairs = list(zip(self.logits[:count], found, strict=True))
        differences = [float(np.abs(a - b).max()) for ours, theirs in pairs for a, b in zip(ours, theirs, strict=True)]
        scale = max(float(np.abs(a).max()) for ours, _ in pairs for a in ours) or 1.0
        figures = {
            "rows": float(self.rows if tried is None else min(tried, self.rows)),
            "largest_difference": max(differences),
            "relative_difference": max(differences) / scale,
            "noise": _noise(pairs),
            "agreement": self._agreement(pairs if tried is not None else pairs[:-1]),
        }
        if tried is None:
            figures |= self._alone(session, found, scale)
            if len(self.labels):
                figures |= self._quality([theirs for _, theirs in pairs[:-1]])
        return figures

    def _alone(self, session: Any, found: list[list[Array]], scale: float) -> dict[str, float]:
        """How far a text's logits move, alone, from what the source says of it in its batch."""
        worst = 0.0
        per_row = [
            (batch, row) for batch, arrays in enumerate(self.batches[:-1]) for row in range(len(arrays["input_ids"]))
        ]
        spread = np.unique(np.linspace(0, len(per_row) - 1, min(SOLO, len(per_row))).round().astype(int))
        for number, row in (per_row[place] for place in spread):
            arrays = self.batches[number]
            every = _real(arrays)
            real = every[row]
            alone = _run(session, {name: value[row : row + 1, real] for name, value in arrays.items()}, self.kind)
            for ours, theirs in zip(self.logits[number], alone, strict=True):
                counts = every.sum(1)
                start = int(counts[:row].sum())
                mine = ours[row : row + 1] if self.kind in TEXT_KINDS else ours[start : start + int(counts[row])]
                worst = max(worst, float(np.abs(mine - theirs).max()))
        return {"alone_difference": worst, "alone_relative_difference": worst / scale}

    def _agreement(self, pairs: list[tuple[list[Array], list[Array]]]) -> float:
        """Share of equal answers; of regression, the correlation."""
        ours, theirs = (
            [np.concatenate([each[side][output] for each in pairs]) for output in range(len(pairs[0][0]))]
            for side in (0, 1)
        )
        if self.kind == "regress":
            one, other = ours[0].ravel(), theirs[0].ravel()
            constant = one.std() < 1e-6 * max(1.0, float(np.abs(one).max())) or other.std() == 0
            return (
                float(not constant or np.allclose(one, other, rtol=1e-2))
                if constant
                else float(np.corrcoef(one, other)[0, 1])
            )
        if self.kind == "multilabel":
            return float(((ours[0] > 0) == (theirs[0] > 0)).mean())
        if self.kind == "answer":  # an end of an answer is a place among the tokens of one text
            return self._same_places(pairs)
        return float((ours[0].argmax(-1) == theirs[0].argmax(-1)).mean())

    def _same_places(self, pairs: list[tuple[list[Array], list[Array]]]) -> float:
        same, total = 0, 0
        for batch, (ours, theirs) in zip(self.batches, pairs, strict=False):
            ends = np.cumsum(_real(batch).sum(1))[:-1]
            for a, b in zip(ours, theirs, strict=True):
                both = zip(np.split(a, ends), np.split(b, ends), strict=True)
                same += sum(int(one.argmax() == other.argmax()) for one, other in both)
                total += len(ends) + 1
        return same / max(total, 1)

    def _quality(self, found: list[list[Array]]) -> dict[str, float]:
        known = np.ones(len(self.labels), dtype=bool)
        ours, theirs = (
            quality(self.info, np.concatenate([each[0] for each in side]), self.labels, known)[0][self.info.metric]
            for side in (self.logits[:-1], found)
        )
        return {f"source_{self.info.metric}": ours, self.info.metric: theirs}


def check_rounding(figures: dict[str, float], rows: int, tolerance: float) -> None:
    """Refuses an export whose logits differ by more than rounding, alone or in a batch."""
    worst = max(figures["relative_difference"], figures["alone_relative_difference"])
    if not worst <= tolerance:
        raise ModelError(
            f"exported, the model answers otherwise: its logits differ by up to {worst:.1e} of the largest, where "
            f"{tolerance:.0e} is rounding (on {rows} texts, in batches and alone)",
            "nothing was written; use a student of another architecture, and please report this one",
        )


def keeps_answers(figures: dict[str, float], bits: int) -> bool:
    """Whether answers are the source's: a model that says the same of every text agrees whatever its logits are."""
    return figures["agreement"] >= AGREEMENT[bits] and figures["noise"] <= NOISE[bits]


def inputs_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """What the model takes of what its tokenizer gives."""
    taken = set(inspect.signature(model.forward).parameters)
    if getattr(model.config, "type_vocab_size", 2) < 2:  # RoBERTa's: a table of one row
        taken.discard("token_type_ids")
    return [name for name in _INPUTS if name in taken and (name in tokenizer.model_input_names or name == _INPUTS[0])]


def _run(session: Any, batch: Arrays, kind: Kind) -> list[Array]:
    names = {each.name for each in session.get_inputs()}
    found = session.run(list(OUTPUTS.get(kind, ("logits",))), {name: batch[name] for name in batch if name in names})
    return _as_read(found, batch, kind)


def _answers(model: PreTrainedModel, batch: Arrays, kind: Kind) -> list[Array]:
    import torch

    with torch.no_grad():
        found = model(**{name: torch.from_numpy(value) for name, value in batch.items()})
    return [found[name].float().numpy() for name in OUTPUTS.get(kind, ("logits",))]


def _as_read(outputs: Sequence[Array], batch: Arrays, kind: Kind) -> list[Array]:
    """Of models that answer for every token, without padding."""
    if kind in TEXT_KINDS:
        return list(outputs)
    return [output[_real(batch)] for output in outputs]


def _real(batch: Arrays) -> Array:
    """[texts, length] bool: where no padding stands; a model that takes no mask (FNet) reads padding as it comes."""
    found: Array = batch.get("attention_mask", np.ones_like(batch["input_ids"])).astype(bool)
    return found


def _encode(tokenizer: PreTrainedTokenizerBase, rows: Sequence[tuple[str, str]]) -> Arrays:
    """As the model is used: with padding to the longest."""
    pairs = [pair for _, pair in rows] if any(pair for _, pair in rows) else None
    how = {"padding": True, "truncation": True, "max_length": min(LONGEST, tokenizer.model_max_length)}
    found = tokenizer([text for text, _ in rows], pairs, return_tensors="np", return_attention_mask=True, **how)
    return {name: np.asarray(value, dtype=np.int64) for name, value in found.items()}


def _long(rows: Sequence[tuple[str, str]], tokenizer: PreTrainedTokenizerBase) -> tuple[str, str]:
    words = " ".join(text for text, _ in rows).split() or ["a"]
    count = min(LONGEST, tokenizer.model_max_length)
    return " ".join((words * (count // len(words) + 1))[:count]), "" if not rows[0][1] else rows[0][1]


def _noise(pairs: list[tuple[list[Array], list[Array]]]) -> float:
    """Mean squared difference of logits, beside their mean square."""
    error = sum(float(np.square(a - b).sum()) for ours, theirs in pairs for a, b in zip(ours, theirs, strict=True))
    return error / max(sum(float(np.square(a).sum()) for ours, _ in pairs for a in ours), 1e-12)
