"""The config of a randomly initialised encoder-decoder."""

from __future__ import annotations

from typing import Literal

from limbeck.core.knob import Settings, knob, table
from limbeck.core.task import SEQ2SEQ_KINDS


@table("seq2seq", "config of a randomly initialised model, where there is none to start from", SEQ2SEQ_KINDS)
class Seq2SeqConfig(Settings):
    encoder_layers: int = knob(4, "encoder layers", at_least=1)
    decoder_layers: int = knob(4, "decoder layers", at_least=1)
    hidden: int = knob(256, "width of the residual stream", at_least=8)
    heads: int = knob(4, "attention heads", at_least=1)
    feed_forward: int = knob(0, "neurons of each feed-forward block; 0: four times hidden", at_least=0)
    dropout: float = knob(0.1, "share of activations dropped in training", at_least=0, below=1)
    vocabulary: int = knob(8000, "pieces of words, shared by both languages", at_least=64)
    pieces: Literal["unigram", "bpe"] = knob(
        "unigram", "how words are cut: SentencePiece's unigram model, or byte-pair encoding"
    )
    positions: int = knob(512, "tokens of a text at most", at_least=16)
    vocabulary_from: str = knob(
        "", "of `limbeck train`: a model whose vocabulary is taken instead of training one", short="--vocabulary-from"
    )
    smoothing: float = knob(
        0.1,
        "of `limbeck train`: label smoothing",
        at_least=0,
        below=1,
        source="Vaswani et al. 2017",
        short="--smoothing",
    )
