"""What a person reads before anything runs."""

import re
import subprocess
import sys
from itertools import pairwise

import pytest
import typer

from limbeck import __version__
from limbeck.cli.app import VERBS, app
from limbeck.cli.help import COMMON, NETWORK_OF_TASK, OF_TASK
from limbeck.cli.methods import methods as show_method
from limbeck.core.card import METHODS
from limbeck.core.knob import TABLES
from limbeck.core.objective import Objective
from limbeck.jobs.settings import Run
from limbeck.recipes import RECIPES
from limbeck.recipes.choosing import SITUATIONS
from running import limbeck

HEAVY = ("torch", "transformers", "datasets", "sklearn", "scipy", "numpy", "pyarrow")


def loaded(words: str) -> set[str]:
    """Which heavy packages a fresh process has loaded after `limbeck words`."""
    code = (
        f"import sys; sys.argv = ['limbeck', *{words.split()!r}]\n"
        "import atexit; atexit.register(lambda: print('\\nLOADED', *sys.modules))\n"
        "from limbeck.cli import main; main()"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(child.stdout.rsplit("LOADED", 1)[1].split()) & set(HEAVY)


@pytest.mark.parametrize("words", ["--help", "distill --help", "methods hinton", "distill --print"])
def test_help_loads_nothing_heavy(words):
    assert loaded(words) == set()


def test_the_package_itself_is_light():
    code = "import limbeck, sys; from limbeck import Run, Shrink; print(*sys.modules)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(child.stdout.split()) & set(HEAVY)


def test_the_list_of_verbs():
    said = limbeck("--help")
    assert said.code == 0
    for verb, summary in VERBS.items():
        assert verb in said.out
        assert summary in said.out


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_every_verb_explains_itself(verb, flag):
    said = limbeck(verb, flag)
    assert said.code == 0
    assert f"limbeck {verb}" in said.out
    assert said.err == ""


def test_every_knob_is_a_flag():
    """Except whole tables."""
    text = limbeck("distill", "--help-all").out
    for name, field in Run.model_fields.items():
        inner = getattr(field.annotation, "model_fields", None)
        for key in inner or ():
            assert f"--{name}.{key}".replace("_", "-") in text
        if inner is None and name != "objective":
            assert f"--{name}".replace("_", "-") in text
    for table in (table for table in TABLES.values() if not table.by_name):
        for key in table.cls.model_fields:
            assert f"--{table.name}.{key}".replace("_", "-") in text
    for short in ("--data", "--epochs", "--batch-size", "--text-column", "--label-column"):
        assert f"{short}," in text
    assert "--objective.hinton.temperature" in text
    assert "--measure.no-speed" in text


NAMED = re.compile(r"(?<![\w-])--[a-z][\w.-]*")


def flags_of(verb):
    params = typer.main.get_command(app([verb])).commands[verb].params
    flags = {flag for one in params for flag in (*one.opts, *one.secondary_opts) if flag.startswith("-")}
    return flags | {"--help", "--help-all"}


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("words", [*VERBS, *(f"distill --task {task}" for task in OF_TASK)])
def test_the_short_help_fits_a_screen_and_cuts_nothing(words, columns):
    said = limbeck(*words.split(), "--help", columns=columns)
    lines = said.out.splitlines()
    assert len(lines) <= (66 if columns == 80 else 96)
    assert "…" not in said.out
    known = (
        flags_of(words.split()[0]) | flags_of("distill") | flags_of("train")
    )  # with which `cache` and `tickets` go on
    assert {flag.rstrip(".") for flag in NAMED.findall(said.out)} <= known
    assert all(len(line) <= columns or "    limbeck " in line for line in lines)


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("verb", COMMON)
def test_the_long_help_has_every_name_whole(verb, columns):
    shown = {
        line.split("  ")[0] for line in re.findall(r"^  (-.*)", limbeck(verb, "--help-all", columns=columns).out, re.M)
    }
    names = {name.split()[0] for line in shown for name in line.split(", ")}
    assert names - {"-h"} == flags_of(verb)


def test_every_common_option_is_one():
    dotted = {name for verb in COMMON.values() for names in verb.values() for name in names}
    dotted -= {"COLUMNS", "NETWORK"}
    dotted |= {name for table in (OF_TASK, NETWORK_OF_TASK) for names in table.values() for name in names}
    known = set().union(*map(flags_of, VERBS))
    shorts = {"teacher", "model", "out", "top", "temperature", "batch_size", "seeds", "seed", "beam"}
    assert {name for name in dotted if f"--{name.replace('_', '-')}" not in known} <= shorts


def test_the_help_of_a_task_has_its_columns(tmp_path):
    assert "--windows.tag-column" in limbeck("train", "--task", "tag", "--help").out
    assert "--windows.tag-column" in limbeck("train", "--help", "--task=token-classification").out
    assert "--windows.tag-column" not in limbeck("train", "--help").out
    images = limbeck("train", "--task", "image", "--help").out
    assert "--network.hidden" in images
    assert "--data.max-length" not in images
    assert "--network.hidden" not in limbeck("train", "--help").out
    (tmp_path / "run.toml").write_text('[data]\ntask = "translate"\n')
    assert "--target" in limbeck("distill", tmp_path / "run.toml", "--help").out


@pytest.mark.parametrize("words", ["--version", "distill --version"])
def test_the_version(words):
    assert limbeck(*words.split()) == (0, f"limbeck {__version__}\n", "")


def test_methods_begin_with_what_to_take_and_distill_knows_its_flags():
    told, known = limbeck("methods").out, limbeck("distill", "--help-all").out
    assert told.index(SITUATIONS[-1].title) < told.index("recipes, for --recipe")
    for situation in SITUATIONS:
        flags = [word for word in situation.flags.split() if word.startswith("--")]
        assert flags
        assert [flag for flag in flags if flag not in known] == []
        recipes = [name for flag, name in pairwise(situation.flags.split()) if flag == "--recipe"]
        assert not {*recipes} - RECIPES.keys()


def test_methods_are_listed():
    text = limbeck("methods").out
    for name in (*RECIPES, *METHODS):
        assert name in text


@pytest.mark.parametrize("name", METHODS)
def test_a_method_shows_paper_formula_and_knobs(name):
    card = METHODS[name]
    text = limbeck("methods", name).out
    assert issubclass(card.cls, Objective)
    assert str(card.paper.year) in text
    assert card.paper.url in text
    assert f"--objective.{name}.weight" in text
    for knob in card.cls.model_fields:
        assert f"--objective.{name}.{knob}" in text


def test_a_narrow_terminal_still_shows_whole_flags(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    show_method("hinton")
    assert "--objective.hinton.temperature" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("distill", "--studnet.layers", 3), "--student.layers"),
        (("distill", "--student.layer", 3), "--student.layers"),
        (("distill", "--recipe", "hintn", "--print"), "did you mean 'hinton'?"),
        (("distill", "--train.decay", "slow", "--print"), "'linear', 'cosine' or 'constant'"),
        (("distill", "--epochs", "many", "--print"), "knob 'train.epochs' cannot be 'many'"),
        (("distill", "--epochs", "-1", "--print"), "greater than 0"),
        (("distill", "--epochs", "inf", "--print"), "finite"),
        (("distill", "--seeds", "0", "--print"), "greater than or equal to 1"),
        (("distill", "--student.layers", "-2", "--print"), "knob 'student.layers' cannot be '-2'"),
        (("distill", "--data.dev-share", "1.5", "--print"), "less than 1"),
        (("distill", "--objective.hinton.temperature", "0", "--print"), "knob 'objective.hinton.temperature'"),
        (("distill", "--objective.hinton.weight", "-1", "--print"), "knob 'objective.hinton.weight'"),
        (("distill", "--objective.hinton.weight", "nan", "--print"), "knob 'objective.hinton.weight'"),
        (("distill", "--recipe", "custom", "--print"), "give it at least one term"),
        (("distill", "nowhere.toml"), "--print > run.toml"),
        (("methods", "nope"), "choose among"),
        (("nope",), "nope"),
    ],
)
def test_a_slip_ends_with_code_2_and_a_remedy(words, hint):
    said = limbeck(*words)
    assert said.code == 2
    assert hint in said.err
    assert "Traceback" not in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("--places.stride", "--windows.stride"),
        ("--text.length", "--blocks.length"),
        ("--pairs.target-column", "--parallel.target-column"),
        ("--teach.no-live", "--teacher-cache.no-live"),
        ("--new.hidden", "--seq2seq.hidden"),
        ("--objective.patience.weight", "--objective.pkd.weight"),
        ("--objective.drawn.temperature", "--objective.sampled.temperature"),
    ],
)
def test_a_flag_of_an_old_name_is_refused_with_its_new_one(old, new):
    for words in ((old, 1), (f"{old}=1",)):
        said = limbeck("distill", *words)
        assert said == (2, "", f"limbeck: there is no option {old}\n  → it is called {new} now\n")


@pytest.mark.parametrize(
    ("table", "new"),
    [
        ("places", "windows"),
        ("text", "blocks"),
        ("pairs", "parallel"),
        ("teach", "teacher_cache"),
        ("new", "seq2seq"),
        ("each.hinton", "columns"),
        ("objective.patience", "pkd"),
        ("objective.drawn", "sampled"),
        ("stages.first.objective.patience", "pkd"),
    ],
)
def test_a_table_of_an_old_name_is_refused_with_its_new_one(table, new, tmp_path):
    (tmp_path / "run.toml").write_text(f"[{table}]\nweight = 1\n")
    for verb in ("distill", "compare") if "." not in table or table.startswith("each") else ("distill",):
        said = limbeck(verb, tmp_path / "run.toml", "--print")
        assert said.code == 2
        assert f"is called '{new}' now" in said.err
        assert "Traceback" not in said.err


@pytest.mark.parametrize(
    ("tag", "word"),
    [
        ("text-classification", "classify"),
        ("token-classification", "tag"),
        ("question-answering", "answer"),
        ("fill-mask", "mask-fill"),
        ("text-generation", "generate"),
        ("translation", "translate"),
    ],
)
def test_a_task_may_be_called_as_on_the_hub(tag, word):
    said = limbeck("distill", "--task", tag, "--print")
    assert said.code == 0, said.err
    assert f'task = "{word}"' in said.out
    assert said == limbeck("distill", "--task", word, "--print")


def test_a_table_of_another_task_is_refused():
    said = limbeck("distill", "--task", "classify", "--mask.share", 0.3, "--print")
    assert said.code == 2
    assert "'mask.share' has no effect for --task classify" in said.err
