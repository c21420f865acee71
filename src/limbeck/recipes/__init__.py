"""Plans: first this, then that. One paper, one file."""

from limbeck.recipes.distilbert import DISTILBERT
from limbeck.recipes.finetune import FINETUNE
from limbeck.recipes.hinton import HINTON
from limbeck.recipes.logits import LOGITS
from limbeck.recipes.recipe import RECIPES
from limbeck.recipes.truncated import TRUNCATED
from limbeck.recipes.word_kd import WORD_KD

__all__ = ["DISTILBERT", "FINETUNE", "HINTON", "LOGITS", "RECIPES", "TRUNCATED", "WORD_KD"]
