"""What a student is asked to imitate. One method, one file."""

from limbeck.objectives.distilbert import Cosine
from limbeck.objectives.drawn import DrawnTargets
from limbeck.objectives.gkd import GeneralisedJSD
from limbeck.objectives.hinton import SoftTargets
from limbeck.objectives.labels import Labels
from limbeck.objectives.language import Language
from limbeck.objectives.logits import LogitRegression
from limbeck.objectives.next_sentence import NextSentence
from limbeck.objectives.truncated import Truncated
from limbeck.objectives.word_kd import WordKD

__all__ = [
    "Cosine",
    "DrawnTargets",
    "GeneralisedJSD",
    "Labels",
    "Language",
    "LogitRegression",
    "NextSentence",
    "SoftTargets",
    "Truncated",
    "WordKD",
]
