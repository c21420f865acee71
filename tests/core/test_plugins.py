"""Methods from outside the package, as another repository would bring them."""

import sys

import pytest

import limbeck
from limbeck.core.card import METHODS
from limbeck.core.plugins import PluginError, load_plugins
from limbeck.jobs.settings import Run
from running import finish, start

PLUGIN = '''"""{name}: a method from elsewhere.

    L = (s − t)²
"""
import limbeck

PAPER = limbeck.Paper("On {name}", "A. Newcomer", 2026, "a plugin", "newcomer2026{name}", "https://example.org")


@limbeck.method("{name}", PAPER)
class {name}(limbeck.Objective):
    """Squared difference."""

    wants = limbeck.Want.LOGITS
    scale: float = limbeck.knob(1.0, "what the difference is divided by", above=0, source="chosen here")

    def terms(self, student, teacher, batch):
        each = ((student.logits - teacher.logits) / self.scale).square().mean(-1)
        return {{"{name}": limbeck.Mean(each.sum(), each.new_tensor(len(each)))}}
'''


@pytest.fixture
def plugin(tmp_path):
    def write(name, text=PLUGIN):
        path = tmp_path / f"{name}.py"
        path.write_text(text.format(name=name), encoding="utf-8")
        return path

    yield write
    for name in ("FromFile", "FromModule", "FromRun", "Twice"):
        METHODS.pop(name, None)


def test_a_file_registers_its_methods_once(plugin):
    path = plugin("FromFile")
    load_plugins(str(path))
    first = METHODS["FromFile"].cls
    load_plugins(f"{path}, {path}")
    assert METHODS["FromFile"].cls is first is limbeck.FromFile
    assert "L = (s − t)²" in first.__doc__
    assert METHODS["FromFile"].summary == "FromFile: a method from elsewhere"


def test_a_module_and_a_key_of_a_run_do_too(plugin, monkeypatch):
    monkeypatch.syspath_prepend(plugin("FromModule").parent)
    load_plugins("FromModule")
    assert "FromModule" in METHODS
    run = Run(plugin=str(plugin("FromRun")), objective={"FromRun": {"scale": 2.0}})
    assert METHODS["FromRun"].cls(**run.objective["FromRun"]).scale == 2
    sys.modules.pop("FromModule")


def test_an_entry_point_does_too(tmp_path, plugin):
    plugin("Installed")
    info = tmp_path / "my_methods-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-methods\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[limbeck]\nmine = Installed\n")
    said = finish(start("methods", "Installed", env_path=tmp_path))
    assert said.code == 0, said.err
    assert "On Installed" in said.out
    (tmp_path / "Installed.py").write_text("import limbeck\nlimbeck.nothing\n")
    said = finish(start("methods", env_path=tmp_path))
    assert said.code == 2
    assert f"{tmp_path / 'Installed.py'}, line 2: AttributeError" in said.err
    assert "uninstall the package my-methods" in said.err


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("x = 1\ny = (\n", 2, "never closed"),
        ("import limbeck\n\nlimbeck.nothing\n", 3, "AttributeError: module 'limbeck' has no attribute 'nothing'"),
        ("import nowhere_to_be_found\n", 1, "No module named 'nowhere_to_be_found'"),
        (PLUGIN.replace('"{name}", PAPER', '"hinton", PAPER'), 10, "two methods are called 'hinton'"),
    ],
)
def test_a_broken_plugin_names_file_and_line(plugin, text, line, says):
    path = plugin("Broken", text)
    with pytest.raises(PluginError) as caught:
        load_plugins(str(path))
    assert f"{path}, line {line}: " in caught.value.problem
    assert says in caught.value.problem


def test_a_plugin_that_is_not_there(tmp_path):
    with pytest.raises(PluginError, match="no plugin file"):
        load_plugins(str(tmp_path / "nothing.py"))
    with pytest.raises(PluginError, match="no plugin module"):
        load_plugins("nowhere.at.all")


def test_two_plugins_may_not_share_a_name(plugin, tmp_path):
    load_plugins(str(plugin("Twice")))
    (tmp_path / "more").mkdir()
    other = tmp_path / "more" / "Twice.py"
    other.write_text(PLUGIN.format(name="Twice"), encoding="utf-8")
    with pytest.raises(PluginError, match="two methods are called 'Twice'"):
        load_plugins(str(other))


def test_its_knobs_are_flags_also_from_a_run_file(plugin, tmp_path):
    path = plugin("ByFile")
    (tmp_path / "run.toml").write_text(f"plugin = {str(path)!r}\n", encoding="utf-8")
    said = finish(start("distill", tmp_path / "run.toml", "--objective.ByFile.scale", 3, "--print"))
    assert said.code == 0, said.err
    assert "[objective.ByFile]" in said.out
    assert "# what the difference is divided by\nscale = 3.0" in said.out
    assert f'plugin = "{path}"' in said.out
    for verb in ("compare", "train"):
        said = finish(start(verb, "--plugin", path, "--print"))
        assert f'plugin = "{path}"' in said.out, said.err
