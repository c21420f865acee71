"""Papers as plans, one file each; found by discovery, so that a new one edits no list."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from limbeck.recipes.recipe import RECIPES

__all__ = ["RECIPES"]

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")
