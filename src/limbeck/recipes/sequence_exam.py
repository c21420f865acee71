"""How a translator is examined: what it writes, greedily and by a beam, and how probable it finds what others wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor
from transformers import PreTrainedModel

from limbeck.core.task import TaskInfo
from limbeck.data.parallel import Parallel
from limbeck.data.sequences import SequenceCollator, Sequences, encode_sequences, sequence_batches
from limbeck.measure.quality import quality
from limbeck.measure.tokens import token_statistics
from limbeck.measure.written import sentence_statistics
from limbeck.recipes.cell import Answers
from limbeck.teachers.switch import score_name
from limbeck.teachers.translate_settings import TranslateSettings
from limbeck.teachers.translators import Generating, Hypothesis, Translator

BATCH = 64  # sentences


@dataclass(frozen=True)
class SequenceExam:
    task: TaskInfo
    tokenizer: Any
    start: int  # what a decoder reads first
    held_out: Parallel  # dev
    unseen: Parallel  # test
    settings: TranslateSettings
    max_length: int
    taught: Sequence[str] = field(default_factory=list)  # the teacher's translations of test; none: unknown
    parts: Mapping[str, slice] = field(default_factory=dict)  # of several directions: the dev rows of each

    @cached_property
    def dev(self) -> Sequences:
        return self._encoded(self.held_out.sources, self.held_out.targets)

    @property
    def collator(self) -> SequenceCollator:
        return SequenceCollator(self.tokenizer.pad_token_id, self.task)

    def collate(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        return self.collator(rows)

    def watched(self) -> dict[str, Callable[[Any], dict[str, float]]]:
        return {"gauge": self._gauge}

    def _gauge(self, model: PreTrainedModel) -> dict[str, float]:
        """Greedy on dev: what early stopping watches, and quick enough to be done often."""
        texts = self.held_out
        best = [one[0] for one in self.translator(model).translate(texts.sources)]
        gold = self._nats(model, self.dev)
        nothing = np.full(len(texts), np.nan)
        rows = sentence_statistics(_texts(best), _texts(best), texts.targets, gold, None, nothing)
        found = self.scored(rows)
        shown = ("bleu", "chrf", "perplexity")
        return {
            "loss": gold[0].sum() / max(gold[1].sum(), 1),
            **{name: found[name] for name in shown if name in found},
            **{score_name(name): self.scored(rows[part])["bleu"] for name, part in self.parts.items()},
        }

    def beside(self, taught: Sequence[str]) -> SequenceExam:
        """The same, also asking how probable a model finds the teacher's translations."""
        return replace(self, taught=taught)

    def test(self, model: PreTrainedModel) -> Answers:
        return self.taken(model)[0]

    def taken(self, model: PreTrainedModel, teaches: bool = False) -> tuple[Answers, list[str]]:
        """What the test says of a model, and what it wrote there by a beam; that is a teacher's own translation."""
        texts = self.unseen
        greedy, beam = self.written(self.translator(model))
        gold = self._nats(model, self._encoded(texts.sources, texts.targets))
        said = _texts(beam) if teaches else self.taught
        taught = self._nats(model, self._encoded(texts.sources, said)) if len(said) else None
        best = np.array([one.log_p for one in beam])
        rows = sentence_statistics(_texts(greedy), _texts(beam), texts.targets, gold, taught, best)
        return Answers(texts.uids, rows, self.scored(rows)), _texts(beam)

    def of_engine(self, translator: Translator, single: bool = False) -> tuple[Answers, list[str]]:
        """The same of one that shows no probabilities of what others wrote."""
        greedy, beam = self.written(translator, single)
        unknown = np.zeros(len(self.unseen))
        best = np.array([one.log_p for one in beam])
        rows = sentence_statistics(_texts(greedy), _texts(beam), self.unseen.targets, (unknown, unknown), None, best)
        return Answers(self.unseen.uids, rows, self.scored(rows)), _texts(beam)

    def written(self, translator: Translator, single: bool = False) -> tuple[list[Hypothesis], list[Hypothesis]]:
        """Of test: greedily, and by a beam; of a `single` one, which has no beam, twice the same."""
        sources, width = self.unseen.sources, self.settings.test_beam
        greedy = [one[0] for one in translator.translate(sources)]
        return greedy, greedy if single else [one[0] for one in translator.translate(sources, width)]

    def translator(self, model: PreTrainedModel) -> Generating:
        return Generating(
            model,
            self.tokenizer,
            length_penalty=self.settings.length_penalty,
            longest=self.settings.longest,
            batch_tokens=self.settings.batch_tokens,
        )

    def _encoded(self, sources: Sequence[str], targets: Sequence[str]) -> Sequences:
        return encode_sequences(sources, targets, self.tokenizer, self.start, self.max_length)

    def _nats(self, model: PreTrainedModel, rows: Sequences) -> tuple[np.ndarray, np.ndarray]:
        """Of each sentence: how surprising the model finds it, and its tokens."""
        found = token_statistics(model, sequence_batches(rows, self.collator, BATCH), self.task.vocab_size)
        of_uid = dict(zip(found.uids.tolist(), found.sums, strict=True))
        sums = np.stack([of_uid[uid] for uid in rows.uids.tolist()])
        return sums[:, 0], sums[:, 2]

    def scored(self, rows: np.ndarray) -> dict[str, float]:
        every = np.ones(len(rows), dtype=bool)
        return quality(self.task, rows, every, every)[0]


def _texts(best: Sequence[Hypothesis]) -> list[str]:
    return [one.text for one in best]
