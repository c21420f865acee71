"""What a model that is already there says of new texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from limbeck.core.device import DeviceName, find_device
from limbeck.core.errors import DataError
from limbeck.core.progress import ProgressItem, Silent, Watcher
from limbeck.jobs.answers import beside, check_out, write_answers
from limbeck.jobs.arguments import AnyModel, documented, model_of, settings_of
from limbeck.jobs.settings import Options, PredictRun
from limbeck.students.model_folder import quiet
from limbeck.tasks.base import Answer, Inputs, Model, Task, task_of

PREDICTING = "predicting"
AT_ONCE = 16  # batches, whose rows are sorted by length together


@documented(PredictRun)
def predict(
    model: AnyModel,
    data: object = None,
    *,
    out: str | Path = "",
    task: str | None = None,
    text_column: str | None = None,
    pair_column: str | None = None,
    max_length: int | None = None,
    batch_size: int | None = None,
    device: str | None = None,
    all_probabilities: bool | None = None,
    top: int | None = None,
    max_new_tokens: int | None = None,
    tokenizer: Any = None,
    reading: Options | None = None,
    run: PredictRun | None = None,
    watcher: Watcher | None = None,
    **knobs: object,
) -> list[Answer]:
    """What `model` says of each row of `data`: a list of texts or of pairs, or any table, which needs no labels.

    `predict("runs/small", ["a lovely film"])` gives `[{"label": "positive", "probability": 0.98}]`. The answers of
    other tasks: labels and probabilities (multilabel), score (regress), words, tags and entities (tag), answer and
    probability (answer), words and probabilities (mask-fill), continuation (generate), translation (translate). Where a
    row has no text, every value is None. With `out`, a .csv, .tsv, .jsonl or .parquet file gets the rows with them.
    """
    run, given = settings_of(PredictRun, locals())
    watcher = watcher or Silent()
    if target := str(out or run.out):
        check_out(target, run.data.train if given is None else "")
    predictor = Predictor.of(run, model, tokenizer)
    table, rows = predictor.task.new_rows(given)
    if not any(map(_is_full, rows)):
        raise DataError(
            f"{table.source}: every row has an empty text", "name the column of the text with --text-column"
        )
    answers: list[Answer] = []

    def beside_rows() -> Iterator[Mapping[str, object]]:
        for number, answer in enumerate(predictor.answers(rows, watcher)):
            answers.append(answer)
            yield beside(table, number, answer)

    if target:
        write_answers(Path(target).expanduser(), beside_rows())
        return answers
    return list(predictor.answers(rows, watcher))


@dataclass(frozen=True)
class Predictor:
    """A model with its task. It is loaded when the first row is predicted: a file that cannot be read is told first."""

    task: Task
    opened: Callable[[], Model]

    @classmethod
    def of(cls, run: PredictRun, model: AnyModel, tokenizer: Any = None) -> Predictor:
        mine, source = model_of(model, tokenizer)
        task = task_of(run, mine or source)
        run.spelled_out(task.info.kind)  # or refuses a table of another task
        if mine and run.device == "auto":
            return cls(task, lambda: mine)  # a model in hand stays where it is
        return cls(task, lambda: _on_device(mine or task.load(source), run.device))

    @cached_property
    def model(self) -> Model:
        return self.opened()

    def answers(self, rows: Sequence[Inputs], watcher: Watcher = Silent()) -> Iterator[Answer]:  # noqa: B008
        """One for each row, in their order; an empty row has one whose values are None."""
        full = [row for row in rows if _is_full(row)]
        if empty := len(rows) - len(full):
            watcher.say(f"{empty:,} of {len(rows):,} rows have no text: their answers are empty")
        watcher.plan([ProgressItem(PREDICTING, 1.0)])
        found = self._predicted(full, watcher)
        ahead = next(found, {})
        nothing: Answer = dict.fromkeys(ahead)
        every = chain([ahead], found)
        for row in rows:
            yield next(every) if _is_full(row) else dict(nothing)

    def _predicted(self, rows: Sequence[Inputs], watcher: Watcher) -> Iterator[Answer]:
        step = AT_ONCE * self.task.knobs.batch_size
        for first in range(0, len(rows), step):
            watcher.at(PREDICTING, first / len(rows))
            with quiet():
                found = self.task.predict(self.model, rows[first : first + step])
            yield from found
        watcher.at(PREDICTING, 1.0)


def _is_full(row: Inputs) -> bool:
    return bool(row) and all(part.strip() for part in row)


def _on_device(model: Model, device: DeviceName) -> Model:
    if not hasattr(model.network, "to"):  # CTranslate2's
        return model
    return replace(model, network=model.network.to(find_device(device)))
