"""Translators that are to teach one student together: a tag before every source, and one vocabulary for all."""

from __future__ import annotations

from limbeck.core.errors import KnobError
from limbeck.data.seq2seq.pairs import ParallelCorpus
from limbeck.data.seq2seq.settings import ParallelSettings
from limbeck.recipes.directions import prefix_of, tag_of
from limbeck.recipes.ground import begun
from limbeck.recipes.prepare import Model
from limbeck.recipes.run import TrainRun
from limbeck.recipes.several import check_tag
from limbeck.students.open_translator import new_translator, open_translator


def tagged(run: TrainRun) -> ParallelSettings:
    return run.parallel.but(prefix=_prefix(run) + run.parallel.prefix)


def beginning(run: TrainRun, corpus: ParallelCorpus) -> tuple[Model, list[str]]:
    """The model to train on; or a new one, with a vocabulary of its own or another's; and what to mention."""
    if run.model and run.vocabulary_from:
        raise KnobError("--vocabulary-from is given beside --model, which has its own", "leave out one of the two")
    if not run.model and not run.vocabulary_from:
        return begun(run.new, corpus, tags=[tag_of(language) for language in _languages(run)], prefix=_prefix(run))
    where = run.model or run.vocabulary_from
    network, tokenizer = open_translator(where, trust_remote_code=run.trust_remote_code)
    for language in _languages(run):
        check_tag(tokenizer, language, where)
    if run.vocabulary_from:
        tokenizer.model_max_length = run.new.positions
        network = new_translator(run.new, tokenizer)
    return Model(network, tokenizer), []


def _prefix(run: TrainRun) -> str:
    return prefix_of(run.tag) if run.tag else ""


def _languages(run: TrainRun) -> list[str]:
    """All that get a token: those named, and the one put before sources."""
    named = [language.strip() for language in run.tags.split(",")]
    return sorted({language for language in (*named, run.tag) if language})
