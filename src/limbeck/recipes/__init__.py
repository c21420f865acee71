"""Plans: first this, then that. One paper, one file."""

from limbeck.recipes.finetune import FINETUNE
from limbeck.recipes.hinton import HINTON
from limbeck.recipes.logits import LOGITS
from limbeck.recipes.recipe import RECIPES

__all__ = ["FINETUNE", "HINTON", "LOGITS", "RECIPES"]
