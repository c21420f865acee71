"""What a verb that trains gives back: the model, ready to use, and the proof."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from limbeck.core.errors import KnobError, LimbeckError
from limbeck.core.files import atomic_folder
from limbeck.core.process import barrier, is_main
from limbeck.core.record import Record
from limbeck.jobs.folder import RECORD_FILE, TemporaryFolder
from limbeck.jobs.record import Finished
from limbeck.report import Report
from limbeck.students.model_folder import quiet, save_folder
from limbeck.tasks.base import Model, Task

CARD = "README.md"


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The model and its measurements. `print(result)` is the table of the terminal; a notebook shows the report's head.

    `student` and `tokenizer` are in memory: they outlive a temporary `folder`."""

    record: Record
    report: Report
    folder: Path
    models: Mapping[str, Path]  # of each arm, the best seed by dev
    best: Path  # the folder of the model that the verb is for; of a comparison, the best of those with a teacher by dev
    task: Task
    temporary: TemporaryFolder | None = None  # held, so that the folder stays

    @property
    def student(self) -> PreTrainedModel:
        return self._model.network

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        tokenizer: PreTrainedTokenizerBase = self._model.processor
        return tokenizer

    @cached_property
    def _model(self) -> Model:
        return self.task.load(str(self.best))

    def save(self, folder: str | Path, model: str = "") -> Path:
        """Writes model, tokenizer and model card: an ordinary folder, which `transformers.pipeline` opens.

        Of several arms, `model` names one, as in `models`. A folder with anything but an earlier save is refused."""
        if model and model not in self.models:
            raise KnobError(f"there is no model '{model}' in this result", f"choose among {', '.join(self.models)}")
        chosen = self.task.load(str(self.models[model])) if model else self._model
        place = Path(folder).expanduser()
        if is_main():
            with atomic_folder(place) as part, quiet():
                save_folder(chosen.network, chosen.processor, part)
                (part / CARD).write_text(self.report.markdown(), encoding="utf-8")
                _check_replaceable(place, part)
        barrier()
        return place

    def __str__(self) -> str:
        return str(self.report)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def make_result(finished: Finished, record: Record, best: Path, temporary: TemporaryFolder | None) -> Result:
    """Record and page go into the run's folder, and everything to the person."""
    folder, report = finished.folder, Report((record,))
    record.save(folder / RECORD_FILE)
    report.save(folder / "report.html")
    models = {name: max(done, key=lambda one: one.dev_score).model for name, done in finished.results.items()}
    return Result(record, report, folder, models, best, finished.setup.task, temporary)


def _check_replaceable(place: Path, part: Path) -> None:
    """Refuses to replace a folder that holds what `part` does not, or a model that has no card of ours."""
    held = {path.name for path in place.iterdir()} if place.is_dir() else {place.name} if place.exists() else set()
    others = sorted(held - {path.name for path in part.iterdir()})
    if others:
        problem = f"{place} holds something else ({', '.join(others[:4])}{', …' if len(others) > 4 else ''})"
    elif held and "limbeck" not in _text(place / CARD):
        problem = f"{place} holds a model that was not saved by Limbeck"
    else:
        return
    raise LimbeckError(problem, "choose another folder, or empty this one")


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace").lower() if file.is_file() else ""
