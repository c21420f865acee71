"""A comparison as a file, as flags, or from Python: the knobs of a run, its columns, and where a column differs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from limbeck.core.errors import KnobError
from limbeck.core.knob import knob
from limbeck.jobs.settings import CUSTOM, JobKind, Options, Run, check_names, overlay, with_masking
from limbeck.recipes.recipe import RECIPES, find
from limbeck.students.shrink import Shrink

_OF_A_COLUMN = {
    "recipe": "name the recipes with --recipes, comma-separated",
    "objective": "give it to one column, as in [columns.hinton.objective.hinton]",
    "stages": "give them to one column, as in [columns.tinybert.stages.intermediate]",
}
# What all columns share, so that they compare: the data and how it is read and measured.
_OF_ALL = (
    *("teacher", "teacher_weights", "teacher_temperatures"),
    *("out", "seeds", "seed", "baseline", "trust_remote_code", "plugin"),
    *("data", "teacher_cache", "measure"),
    *("windows", "blocks", "parallel", "directions"),
)
_RESERVED = re.compile(r"teacher|plain.*")  # names of arms that a comparison adds itself


class CompareRun(Run):
    """Many recipes, one teacher, one data set, several seeds."""

    kind: ClassVar[JobKind] = "compare"
    unwritten = frozenset({"recipe"})
    recipe: str = knob("auto", "not here: --recipes names the columns", short="--recipe")
    recipes: str = knob(
        "",
        "recipes to compare, comma-separated; a column each; default: finetune, hinton and pkd-skip, of language "
        "models finetune and truncated, of translation finetune, word-kd and seq-kd",
        short="--recipes",
    )
    budget_minutes: float = knob(
        0.0,
        "minutes of training for all columns and seeds together, shared fairly; 0: as long as the recipes say",
        at_least=0,
        short="--budget-minutes",
    )
    starts: Literal["equal", "recipe"] = knob(
        "equal",
        "where students start: equal (all from the same layers of the teacher, those of student.keep, so that what is "
        "compared is how they learn), or recipe (from the layers that each paper takes)",
        short="--starts",
    )
    columns: dict[str, dict[str, Any]] = knob(
        {}, "knobs of single columns, in run files as [columns.NAME]; a new name with a recipe is one more column"
    )

    def settled_as(self, begun: Self) -> Self:
        """A column is spelled out to the end only when its student is built: what could not be built stays open."""
        top = self.model_dump(exclude={"columns"})
        return self.but(
            columns={name: _settled(table, begun.columns.get(name, {}), top) for name, table in self.columns.items()}
        )

    def resolved_with(self, columns: Mapping[str, Run], task: str) -> CompareRun:
        """With all that its resolved columns differ in written out: it reads back as the same columns."""
        recipes = ",".join(self.recipe_names)
        top = with_masking(self.spelled_out(task), task)
        top = top.but(student=self.student.settled("same"), columns={}, recipes=recipes)
        own = {name: column.model_dump(exclude=set(_OF_ALL)) for name, column in columns.items()}
        return top.but(columns={name: _beyond(top.model_dump(), table) for name, table in own.items()})

    def start_notes(self, columns: Mapping[str, Run]) -> list[str]:
        """Whose recipe would start from other layers than the student here does."""
        kept = {name: own_layers(column.recipe) for name, column in columns.items()}
        return [
            f"{name} starts as the other columns do; its recipe alone keeps the {kept[name]} layers (--starts recipe)."
            for name, column in columns.items()
            if self.starts == "equal" and kept[name] not in ("", column.student.keep) and len(columns) > 1
            if column.student.keep == self.student.keep
        ]

    @property
    def recipe_names(self) -> list[str]:
        named = [name.strip() for name in self.recipes.split(",") if name.strip()]
        return named or ([] if self.columns else list(_DEFAULTS.get(self.data.task, _DEFAULTS["auto"])))


_DEFAULTS = {
    "auto": ("finetune", "hinton", "pkd-skip"),
    **dict.fromkeys(("tag", "answer", "image"), ("finetune", "hinton")),
    **dict.fromkeys(("mask-fill", "generate"), ("finetune", "truncated")),
    "translate": ("finetune", "word-kd", "seq-kd"),
}


def columns_of(run: CompareRun) -> dict[str, Run]:
    """The run of every column by its name. Slips are refused before anything is loaded."""
    for name, remedy in _OF_A_COLUMN.items():
        if getattr(run, name) != CompareRun.model_fields[name].default:
            raise KnobError(f"the knob '{name}' is not one of a whole comparison", remedy)
    named = run.recipe_names
    if len(set(named)) < len(named):
        twice = next(name for name in named if named.count(name) > 1)
        raise KnobError(
            f"'{twice}' stands twice in --recipes",
            f'give the second one a name of its own: [columns.{twice}-2] with recipe = "{twice}", and what differs',
        )
    return {name: _column(run, name) for name in dict.fromkeys([*named, *run.columns])}


def _column(run: CompareRun, name: str) -> Run:
    entry = run.columns.get(name, {})
    recipe = entry.get("recipe", name)
    if recipe not in (*RECIPES, CUSTOM):
        close = difflib.get_close_matches(str(recipe), [*RECIPES, *run.columns], n=1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        where = f'; or say which recipe it is: recipe = "hinton" in [columns.{name}]' if "recipe" not in entry else ""
        raise KnobError(f"there is no recipe '{recipe}'", f"{hint}choose among {', '.join(RECIPES)}{where}")
    if _RESERVED.fullmatch(name) or not re.fullmatch(r"\w[\w.+-]*", name):
        raise KnobError(f"a column cannot be called '{name}'", "use letters, digits and dashes, not teacher or plain")
    for knob_name in (key for key in entry if key in _OF_ALL):
        raise KnobError(
            f"there is no knob 'columns.{name}.{knob_name}': '{knob_name}' is the same for all columns",
            f"set it once, as --{knob_name.replace('_', '-')}, or compare in two runs",
        )
    of_comparison = CompareRun.model_fields.keys() - Run.model_fields.keys()
    shared = run.model_dump(exclude_unset=True, exclude={*_OF_A_COLUMN, *of_comparison})
    knobs = overlay(shared, {**entry, "recipe": recipe})
    if run.starts == "equal" and own_layers(recipe):
        knobs = overlay({"student": {"keep": Shrink().keep}}, knobs)
    return Run.of(knobs, within=f"columns.{name}")


def check_columns(columns: Mapping[str, Run]) -> None:
    """Refuses a slip in a column. One whose recipe does not serve the task is only left out, if another does."""
    serving = [column for column in columns.values() if _serves(column)]
    for column in serving or columns.values():
        check_names(column)
    ways = {column.train.best_by: name for name, column in columns.items()}
    if len(ways) > 1:  # the best model of all columns is known by one
        told = ", ".join(f"{name}: {best_by}" for best_by, name in ways.items())
        raise KnobError(f"columns differ in train.best_by ({told})", "give all columns the same")


def _serves(run: Run) -> bool:
    return run.data.task == "auto" or run.recipe in ("auto", CUSTOM) or run.data.task in find(run.recipe).tasks


def own_layers(recipe: str) -> str:
    """Which layers of the teacher a recipe keeps, where its student could as well keep others of the same number."""
    defaults = RECIPES[recipe].defaults.get("student", {}) if recipe in RECIPES else {}
    return defaults["keep"] if "keep" in defaults and not Shrink(**defaults).counts_layers else ""


def _beyond(base: Options, other: Options) -> dict[str, Any]:
    """What `other` has that `base` has not."""
    found: dict[str, Any] = {}
    for key, value in other.items():
        if key not in base:
            found[key] = value
        elif base[key] != value:
            both = isinstance(value, Mapping) and isinstance(base[key], Mapping)
            found[key] = _beyond(base[key], value) if both else value
    return found


def _settled(table: Options, other: Options, base: Options, room: str = "") -> dict[str, Any]:
    """`table`, which says in what a column differs from `base`, with the knobs it leaves open taken from `other`."""
    found = dict(table)
    for key, value in other.items():
        own = table.get(key, base.get(key))
        if isinstance(value, Mapping) and isinstance(own, Mapping):
            inner = _settled(table.get(key, {}), value, base.get(key, {}), key)
            found |= {key: inner} if inner or key in table else {}
        elif (key, own) == ("pool", "auto") or (room, key, own) == ("train", "learning_rate", 0.0):
            found[key] = value
    return found
