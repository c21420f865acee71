"""Methods from elsewhere: packages with an entry point in the group `limbeck`, and what --plugin names.

A plugin is a Python file or module. Its decorators, the same as inside, register what it has: `@method` an objective,
`recipe` a recipe. It is loaded before flags are made, so that its knobs are flags too.
"""

from __future__ import annotations

import sys
import traceback
from functools import cache
from hashlib import blake2b
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator

from limbeck.core.errors import LimbeckError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "limbeck"  # of entry points
HELP = "your own methods: a Python file or module that registers them; several comma-separated"


class PluginError(LimbeckError):
    """A plugin that is not there or does not run."""


def load_plugins(named: str = "") -> str:
    """Loads the installed plugins and those `named`, each once. Returns `named`."""
    _load_installed()
    for name in filter(None, map(str.strip, named.split(","))):
        if name.endswith(".py"):
            _load_file(Path(name))
        else:
            _load_module(name)
    return named


# A knob of this type has loaded its plugins once its settings are checked, whichever way they came.
Plugins = Annotated[str, AfterValidator(load_plugins)]


@cache
def _load_installed() -> None:
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            remedy = f"update or uninstall the package {_package(entry)}"
            raise PluginError(f"the plugin '{entry.name}' does not load: {_place(error)}", remedy) from error


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.module


def _load_file(path: Path) -> None:
    """As a module of its own; two files of one name do not meet."""
    path = path.expanduser().resolve()
    name = f"limbeck_plugin_{path.stem}_{blake2b(str(path).encode(), digest_size=4).hexdigest()}"
    if name in sys.modules:
        return
    if not path.is_file():
        raise PluginError(f"there is no plugin file {path}", "give the path of a Python file, or the name of a module")
    spec = spec_from_loader(name, SourceFileLoader(name, str(path)))
    assert spec is not None
    sys.modules[name] = module = module_from_spec(spec)
    try:
        SourceFileLoader(name, str(path)).exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise _broken(str(path), error) from error


def _load_module(name: str) -> None:
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(name, error) from error
        remedy = "install its package, or give the path of a file that ends in .py"
        raise PluginError(f"there is no plugin module '{name}'", remedy) from None
    except Exception as error:
        raise _broken(name, error) from error


def _broken(name: str, error: Exception) -> PluginError:
    return PluginError(f"the plugin {name} does not load: {_place(error)}", "mend that line, or leave --plugin out")


def _place(error: Exception) -> str:
    """File, line and message of what went wrong: of a slip in the grammar its own, else the last line that ran."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {error.msg}"
    message = error.problem if isinstance(error, LimbeckError) else f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if not _ours(frame.filename)] or list(frames)
    return f"{outside[-1].filename}, line {outside[-1].lineno}: {message}"


def _ours(file: str) -> bool:
    """Frames of Limbeck and of the import machinery: the slip is in what called them."""
    return file.startswith("<frozen") or Path(__file__).parent.parent in Path(file).parents
