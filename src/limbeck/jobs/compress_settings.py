"""The knobs of a compression: passes in their order, a table for each, and how what they cost is recovered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self, get_args

from pydantic import model_validator

from limbeck.core.card import discover
from limbeck.core.compress import PASSES, Pass
from limbeck.core.errors import KnobError
from limbeck.core.knob import TABLES, RunTable, knob
from limbeck.core.objective import Objective
from limbeck.core.task import ENCODER_KINDS, Kind, TaskInfo
from limbeck.jobs.settings import AUTO, JobKind, Run, check_known, names_in
from limbeck.objectives.tinybert import TinyBERT
from limbeck.recipes.recipe import Apply, Recipe, Step, Train, find
from limbeck.students.shrink import Shrink

COMPRESS = "compress"  # the recipe that a resolved run has
SELF, NONE = "self", "none"  # the untouched model as its own teacher; no recovery
_OTHER_KNOBS = {"recipe": "auto", "baseline": False, "stages": {}}  # of a distillation

discover("limbeck.passes")


class CompressRun(Run):
    """A model, data, and passes that make it smaller one after another."""

    kind: ClassVar[JobKind] = "compress"
    distils = False
    fixed = frozenset({*_OTHER_KNOBS, "student", "student_from", "teacher_weights", "teacher_temperatures"})
    unwritten = fixed

    model: str = knob("", "the model to make smaller: a folder or a hub id", short="--model")
    passes: str = knob(
        "",
        f"passes in their order, comma-separated; there are {', '.join(sorted(PASSES))}; each has a table of its own",
        short="--passes",
    )
    teacher: str = knob(
        "",
        "a model that teaches the smaller one what passes cost it: a folder, a hub id, or self, the untouched model; "
        "without one nothing is trained",
        short="--teacher",
    )
    recover: str = knob(
        "auto",
        "passes after which the model is trained by distillation, comma-separated; auto: those that change its answers "
        "and leave weights to train; none",
        short="--recover",
    )
    hidden: float = knob(
        1.0,
        "weight of the hidden states in a recovery; compared where both models have the same layers and tokens",
        at_least=0,
    )

    @classmethod
    def known_tables(cls) -> Mapping[str, RunTable]:
        """Of tasks, and one for each pass."""
        kinds = get_args(Kind)
        return TABLES | {name: RunTable(name, card.cls, card.summary, kinds) for name, card in PASSES.items()}

    @model_validator(mode="before")
    @classmethod
    def _settle(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """The model is its own student; without a teacher it is compared with itself, and nothing is trained."""
        found = dict(values)
        model = str(found.get("model", ""))
        for name, value in {**_OTHER_KNOBS, "student_from": model}.items():
            if found.get(name, value) not in (value, COMPRESS):
                raise KnobError(f"there is no knob '{name}' in a compression", "leave it out")
            found[name] = value
        if found.get("student", {}) not in ({}, _AS_IT_IS, _AS_IT_IS.model_dump(), {"family": "same"}):
            raise KnobError("there is no table 'student' in a compression", "make a student with `limbeck distill`")
        found["student"] = _AS_IT_IS
        if model and not found.get("teacher"):
            if found.get("recover", NONE) != NONE:
                raise KnobError("there is no teacher to recover with", "name one with --teacher; self is the model")
            found["recover"] = NONE
        if found.get("teacher", SELF) in ("", SELF):
            found["teacher"] = model
        return found

    @model_validator(mode="after")
    def _check_passes(self) -> Self:
        check_known(self.pass_names, PASSES, "pass")
        if self.recover not in ("auto", NONE):
            check_known(names_in(self.recover), self.pass_names, "pass in --passes")
        return self

    @property
    def pass_names(self) -> list[str]:
        return names_in(self.passes)

    def pass_of(self, name: str) -> Pass:
        found = self.table(PASSES[name].cls)
        assert isinstance(found, Pass)
        return found

    def recovers(self, name: str) -> bool:
        named = names_in(self.recover)
        return name in named or (named == ["auto"] and self.pass_of(name).recoverable)

    def recovery(self, info: TaskInfo) -> Objective:
        """What the task's own recipe learns towards, and hidden states, where tokens stay what they are."""
        found, passes = find(AUTO[info.kind]).objective(info), map(self.pass_of, self.pass_names)
        same_tokens = not any(one.retokenizes and one.recoverable for one in passes)
        encoder = info.kind in ENCODER_KINDS
        return found + self.hidden * TinyBERT(attention=0.0) if self.hidden and encoder and same_tokens else found

    def recipe_for(self, info: TaskInfo) -> Recipe:
        names = self.pass_names
        if not names:
            raise KnobError("no pass is named", f"name some with --passes, such as {','.join(PASSES)}")
        steps: list[Step] = []
        for name in names:
            steps.append(Apply(self.pass_of(name)))
            steps += [Train(self.recovery(info))] if self.recovers(name) else []
        taught = find(AUTO[info.kind]).defaults if any(map(self.recovers, names)) else {}
        defaults = {name: table for name, table in taught.items() if name in TABLES}
        return Recipe(
            COMPRESS, "passes in a row", PASSES[names[0]].paper, lambda _: tuple(steps), (info.kind,), defaults
        )

    def spelled_out(self, kind: str) -> Self:
        """With the tables of its passes; one of another pass is refused."""
        others = [name for name in PASSES if name not in self.pass_names]
        for name in others:
            given, default = (self.model_extra or {}).get(name), PASSES[name].cls()
            if given is not None and given != default:
                changed = next(
                    key for key in type(default).model_fields if getattr(given, key) != getattr(default, key)
                )
                raise KnobError(
                    f"'{name}.{changed}' has no effect", f"name the pass '{name}' in --passes, or leave it out"
                )
        spelled = super().spelled_out(kind).model_dump(exclude_unset=True)
        spelled |= {name: self.pass_of(name).model_dump() for name in self.pass_names}
        return type(self)(**{key: value for key, value in spelled.items() if key not in others})


_AS_IT_IS = Shrink().settled("same")
