"""What other people's code takes: every example runs, and no room hides a public name."""

import importlib
import pkgutil
from inspect import getdoc
from types import ModuleType

import pytest

import limbeck
from examples import example_of

pytestmark = pytest.mark.filterwarnings("ignore:'pin_memory'")  # what a stock Trainer says where there is no GPU
PIECES = (
    "loss",
    "trainer_loss",
    "DistillationTrainer",
    "TeacherCache",
    "significance",
    "compress",
    "load",
    "LowRank",
    "Quantize",
    "Mask",
    "Ticket",
    "HoldMask",
    "find_ticket",
)


@pytest.mark.parametrize("name", PIECES)
def test_the_example_in_its_docstring_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(example_of(getdoc(getattr(limbeck, name))), {})


def test_no_room_hides_a_public_name():
    """Importing limbeck.train would put a module where the function of that name is."""
    for found in pkgutil.walk_packages(limbeck.__path__, "limbeck."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    for name in limbeck.__all__:
        public = getattr(limbeck, name)
        assert not isinstance(public, ModuleType), name
        assert callable(public) or name == "Terms", name
    assert {"distill", "compare", "cache", *PIECES} <= set(limbeck.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = limbeck.nothing
