"""The registry: families are found by name without being imported, and one file is enough for a new one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from limbeck.core.errors import KnobError
from limbeck.students import families as registry
from limbeck.students.families import families, family, find_family, has_layers, is_family
from limbeck.students.inherit import Inheritance
from limbeck.students.shrink import Shrink
from students.tiny_encoders import classifier

OURS = ["same", "albert", "bilstm", "distilbert", "electra", "mobilebert", "static"]


def test_every_family_is_found_and_registers_what_its_source_says() -> None:
    assert list(families()) == OURS
    for name, help in families().items():
        found = find_family(name)
        assert (found.name, found.help) == (name, help)
        assert set(found.knobs) <= set(Shrink.model_fields)


def test_names_and_help_import_nothing_heavy() -> None:
    code = (
        "import sys\nfrom limbeck.students.families import families\nfrom limbeck.students.shrink import Shrink\n"
        "Shrink(family='mobilebert')\nassert 'albert' in Shrink.model_fields['family'].description\n"
        "sys.exit(sum(name in ('torch', 'transformers', 'limbeck.students.albert') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_family_is_refused_with_the_closest() -> None:
    with pytest.raises(
        KnobError, match=r"'family' cannot be 'distillbert'\n.*auto, or one of same, .*mean 'distilbert'"
    ):
        Shrink(family="distillbert")
    with pytest.raises(KnobError, match=r"no student family 'gru'\n.*one of same, albert"):
        find_family("gru")


def test_which_models_are_of_a_family() -> None:
    assert is_family("limbeck-bilstm", "bilstm")
    assert is_family("albert", "albert")
    assert not is_family("bert", "albert")
    assert not is_family("bert", "same")
    assert not is_family("bert", "auto")
    assert not has_layers("limbeck-bilstm")
    assert has_layers("mobilebert")
    assert has_layers("bert")


def test_one_function_makes_a_family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_FAMILIES", dict(registry._FAMILIES))
    teacher, seen = classifier("bert"), []

    @family("twin", "the teacher itself", knobs=("groups",), small=True)
    def to_twin(teacher, shape, tokenizer, pairs):
        seen.append((shape.groups, tokenizer, pairs))
        return teacher, Inheritance(layers=[])

    assert Shrink(family="twin", groups=3).build(teacher, "tokenizer", pairs=True)[0] is teacher
    assert seen == [(3, "tokenizer", True)]
    assert is_family("twin", "twin")
    with pytest.raises(KnobError, match=r"'student.bottleneck' has no effect for family 'twin'\n.*family mobilebert"):
        Shrink(family="twin", bottleneck=8).build(teacher)
