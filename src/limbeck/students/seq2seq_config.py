"""The shape of a translator that starts from nothing but its vocabulary."""

from __future__ import annotations

from typing import Literal

from limbeck.core.knob import Settings, knob


class Seq2SeqConfig(Settings):
    encoder_layers: int = knob(4, "layers that read", at_least=1)
    decoder_layers: int = knob(4, "layers that write", at_least=1)
    hidden: int = knob(256, "width of the residual stream", at_least=8)
    heads: int = knob(4, "attention heads", at_least=1)
    feed_forward: int = knob(0, "neurons of each feed-forward block; 0: four times hidden", at_least=0)
    dropout: float = knob(0.1, "share of activations dropped in training", at_least=0, below=1)
    vocabulary: int = knob(8000, "pieces of words, shared by both languages", at_least=64)
    pieces: Literal["unigram", "bpe"] = knob(
        "unigram", "how words are cut: SentencePiece's unigram model, or byte-pair encoding"
    )
    positions: int = knob(512, "tokens of a text at most", at_least=16)
