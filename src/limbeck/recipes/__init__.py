"""Plans: first this, then that. One paper, one file."""

from limbeck.recipes.albert import ALBERT
from limbeck.recipes.bilstm import BILSTM
from limbeck.recipes.cka import CKA
from limbeck.recipes.distilbert import DISTILBERT
from limbeck.recipes.finetune import FINETUNE
from limbeck.recipes.hinton import HINTON
from limbeck.recipes.logits import LOGITS
from limbeck.recipes.minilm import MINILM, MINILMV2
from limbeck.recipes.mobilebert import MOBILEBERT
from limbeck.recipes.multilingual import MULTILINGUAL
from limbeck.recipes.pkd import PKD_LAST, PKD_SKIP
from limbeck.recipes.recipe import RECIPES
from limbeck.recipes.seq_kd import ALL_THREE, SEQ_INTER, SEQ_KD, SEQ_KD_SEQ_INTER, SEQ_KD_WORD_KD
from limbeck.recipes.tinybert import TINYBERT, TINYBERT_GENERAL
from limbeck.recipes.truncated import TRUNCATED
from limbeck.recipes.word_kd import WORD_KD

__all__ = [
    "ALBERT",
    "ALL_THREE",
    "BILSTM",
    "CKA",
    "DISTILBERT",
    "FINETUNE",
    "HINTON",
    "LOGITS",
    "MINILM",
    "MINILMV2",
    "MOBILEBERT",
    "MULTILINGUAL",
    "PKD_LAST",
    "PKD_SKIP",
    "RECIPES",
    "SEQ_INTER",
    "SEQ_KD",
    "SEQ_KD_SEQ_INTER",
    "SEQ_KD_WORD_KD",
    "TINYBERT",
    "TINYBERT_GENERAL",
    "TRUNCATED",
    "WORD_KD",
]
