"""What a student is asked to imitate. One method, one file."""

from limbeck.objectives.answers import ConfusingAnswers
from limbeck.objectives.cka import CKA
from limbeck.objectives.distilbert import Cosine
from limbeck.objectives.gkd import GeneralisedJSD
from limbeck.objectives.hinton import SoftTargets
from limbeck.objectives.labels import Labels
from limbeck.objectives.language import LanguageModeling
from limbeck.objectives.logits import LogitRegression
from limbeck.objectives.minilm import MiniLM
from limbeck.objectives.minilmv2 import MiniLMv2
from limbeck.objectives.mobilebert import MobileBERTTransfer
from limbeck.objectives.next_sentence import NextSentence
from limbeck.objectives.pkd import PKD
from limbeck.objectives.sampled import SampledTargets
from limbeck.objectives.tinybert import TinyBERT
from limbeck.objectives.truncated import Truncated
from limbeck.objectives.word_kd import WordKD

__all__ = [
    "CKA",
    "PKD",
    "ConfusingAnswers",
    "Cosine",
    "GeneralisedJSD",
    "Labels",
    "LanguageModeling",
    "LogitRegression",
    "MiniLM",
    "MiniLMv2",
    "MobileBERTTransfer",
    "NextSentence",
    "SampledTargets",
    "SoftTargets",
    "TinyBERT",
    "Truncated",
    "WordKD",
]
