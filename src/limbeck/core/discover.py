"""Registries by discovery: what lies in a room registers itself, and no list is edited."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules


def discover(room: str) -> None:
    """Imports every module of a package, so that its decorators have registered what is in them."""
    for found in iter_modules(import_module(room).__path__):
        import_module(f"{room}.{found.name}")
