"""A vocabulary of word pieces, learnt from the texts that a new translator is to read and write.

`</s>` is 0, `<unk>` is 1, then come tags, then pieces. `<pad>`, with which a Marian decoder starts, is the last id.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

END, UNKNOWN, PADDING = "</s>", "<unk>", "<pad>"
_STEP = 1e-4  # between the scores that the unigram trainer deals out, in no fixed order, to characters without one
_BREAK = "\uffff"  # by Unicode no character of any text
_DIGITS = 3  # kept of a score: those beyond depend on the order of a sum, which is another one every time


def train_subwords(
    texts: Iterable[str], size: int, pieces: Literal["unigram", "bpe"] = "unigram", tags: Sequence[str] = ()
) -> PreTrainedTokenizerFast:
    """A tokenizer of `size` ids: fewer if the texts do not hold as many pieces, more if they hold more characters.

    The same texts give the same file. Every character of theirs is a piece, so whatever is written with them comes
    back as it was, in NFC: but of several spaces one is left, at the ends none, and ▁ is a space too."""
    from tokenizers import decoders, models, processors
    from transformers import PreTrainedTokenizerFast

    special = list(dict.fromkeys((END, UNKNOWN, *tags, PADDING)))
    made = _trained(list(texts), size, pieces, special)
    learnt = json.loads(made.to_str())["model"]
    if pieces == "unigram":
        made.model = models.Unigram(_settled(learnt["vocab"], special), unk_id=1)
    else:
        vocabulary = [*sorted(learnt["vocab"].keys() - {PADDING}, key=learnt["vocab"].get), PADDING]
        ids = {piece: place for place, piece in enumerate(vocabulary)}
        made.model = models.BPE(ids, [tuple(merge) for merge in learnt["merges"]], unk_token=UNKNOWN, fuse_unk=True)
    made.decoder = decoders.Metaspace()
    made.post_processor = processors.TemplateProcessing(single=f"$A {END}", special_tokens=[(END, 0)])
    return PreTrainedTokenizerFast(
        tokenizer_object=_fresh(made),
        eos_token=END,
        unk_token=UNKNOWN,
        pad_token=PADDING,
        extra_special_tokens=special[2:-1],
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )


def _trained(texts: Sequence[str], size: int, pieces: str, special: list[str]) -> Tokenizer:
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

    made = Tokenizer(models.Unigram() if pieces == "unigram" else models.BPE(unk_token=UNKNOWN))
    made.normalizer = normalizers.Sequence(
        [
            normalizers.NFC(),
            normalizers.Replace("▁", " "),
            normalizers.Replace(Regex(" {2,}"), " "),
            normalizers.Replace(Regex(r"\A | \z"), ""),
        ]
    )
    # a word keeps the space before it and leaves its punctuation alone
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Split(Regex(r"▁?\p{P}+"), "isolated")]
    )
    if pieces == "unigram":
        _train_unigram(made, texts, size, special)
    else:
        trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False)
        made.train_from_iterator(texts, trainer)
    return made


def _train_unigram(made: Tokenizer, texts: Sequence[str], size: int, special: list[str]) -> None:
    """The trainer looks for pieces in what different words share, and so never at a whole word that no other contains.

    Hence every word that occurs twice is also shown with a break behind it, which is a character of its own."""
    from tokenizers import trainers

    normal = map(made.normalizer.normalize_str, texts)
    words = Counter(word for text in normal for word, _ in made.pre_tokenizer.pre_tokenize_str(text))
    whole = [word[1:] + _BREAK for word, count in words.items() if word.startswith("▁") and count > 1]
    characters = {"▁"}.union(*words)
    trainer = trainers.UnigramTrainer(
        # the break goes again, and the trainer refuses to leave out a character
        vocab_size=max(size, len(special) + len(characters)) + bool(whole),
        special_tokens=special,
        unk_token=UNKNOWN,
        show_progress=False,
    )
    made.train_from_iterator([*texts, *whole], trainer)


def _settled(vocabulary: Sequence[tuple[str, float]], special: Sequence[str]) -> list[tuple[str, float]]:
    """Pieces and their scores without what differs from one training to the next, and padding at the end."""
    scores = {piece: score for piece, score in vocabulary if piece not in special}
    characters = [piece for piece in scores if len(piece) == 1]
    lowest = min(scores.values(), default=0.0)
    for piece in characters:
        if scores[piece] <= lowest + _STEP * len(characters):
            scores[piece] = lowest
    rounded = {piece: round(score, _DIGITS) for piece, score in scores.items() if _BREAK not in piece}
    ordered = sorted(rounded.items(), key=lambda entry: (-entry[1], entry[0]))
    return [*((piece, 0.0) for piece in special[:-1]), *ordered, (PADDING, 0.0)]


def _fresh(made: Tokenizer) -> Tokenizer:
    """The same without what training noted of the special tokens: their ids have moved since."""
    from tokenizers import Tokenizer

    return Tokenizer.from_str(json.dumps({**json.loads(made.to_str()), "added_tokens": []}))
