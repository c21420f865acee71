"""What a model that is already there says of new texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limbeck.core.device import DeviceName, find_device
from limbeck.core.errors import DataError, KnobError
from limbeck.core.progress import ProgressItem, Silent, Watcher
from limbeck.data.settings import WindowSettings
from limbeck.data.sources.new_rows import new_lines
from limbeck.data.sources.tables import Table
from limbeck.data.span.questions import new_questions
from limbeck.data.text.examples import new_texts
from limbeck.data.token.sentences import new_sentences
from limbeck.engines.onnx import explained, exported_facts, open_exported
from limbeck.jobs.answers import beside, check_out, write_answers
from limbeck.jobs.arguments import AnyModel, documented, model_of, settings_of
from limbeck.jobs.settings import Options, PredictRun
from limbeck.measure.machine import threads_to_use
from limbeck.students.model_folder import quiet
from limbeck_runtime import is_exported
from limbeck_runtime.answers import Answer

if TYPE_CHECKING:
    from limbeck.tasks.base import Inputs, Model

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
    table, rows = predictor.new_rows(given)
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

    kind: str
    new_rows: Callable[[object], tuple[Table, list[Inputs]]]
    batch_size: int
    opened: Callable[[], Callable[[Sequence[Inputs]], list[Answer]]]

    @classmethod
    def of(cls, run: PredictRun, model: AnyModel, tokenizer: Any = None) -> Predictor:
        """An exported model needs neither torch nor transformers, so they are imported for others alone."""
        if isinstance(model, str | Path) and is_exported(model):
            return cls._exported(run, model)
        from limbeck.tasks.base import task_of

        mine, source = model_of(model, tokenizer)
        task = task_of(run, mine or source)
        run.spelled_out(task.info.kind)  # or refuses a table of another task

        def opened() -> Callable[[Sequence[Inputs]], list[Answer]]:
            # A model in hand stays where it is.
            loaded = mine if mine and run.device == "auto" else _on_device(mine or task.load(source), run.device)

            def predicted(rows: Sequence[Inputs]) -> list[Answer]:
                with quiet():
                    return task.predict(loaded, rows)

            return predicted

        return cls(task.info.kind, task.new_rows, task.knobs.batch_size, opened)

    @classmethod
    def _exported(cls, run: PredictRun, folder: str | Path) -> Predictor:
        kind = exported_facts(folder, check=False).kind
        if run.data.task not in ("auto", kind):
            raise KnobError(f"{folder} was exported for --task {kind}, not {run.data.task}", "leave out --task")
        if run.device not in ("auto", "cpu"):
            raise KnobError(f"{folder} is exported for CPUs, so it cannot run on {run.device}", "leave out --device")
        run.spelled_out(kind)
        data, windows = run.data, run.table(WindowSettings)
        read = {"tag": new_sentences, "answer": new_questions}.get(kind)

        def new_rows(given: object) -> tuple[Table, list[Inputs]]:
            if read is not None:
                return read(data, windows, given)
            return new_lines(data, given) if kind == "mask-fill" else new_texts(data, given)

        return cls(kind, new_rows, run.batch_size, partial(_open_exported, run, folder))

    @cached_property
    def predict(self) -> Callable[[Sequence[Inputs]], list[Answer]]:
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
        step = AT_ONCE * self.batch_size
        for first in range(0, len(rows), step):
            watcher.at(PREDICTING, first / len(rows))
            yield from self.predict(rows[first : first + step])
        watcher.at(PREDICTING, 1.0)


def _open_exported(run: PredictRun, folder: str | Path) -> Callable[[Sequence[Inputs]], list[Answer]]:
    """With the knobs that a model folder heeds, and the same defaults."""
    model, windows = open_exported(folder, threads_to_use()), run.table(WindowSettings)
    spans = {name: getattr(windows, name) for name in ("stride", "longest_question", "longest_answer")}
    limit = windows.null_threshold if "null_threshold" in windows.model_fields_set else None
    length = run.data.max_length if "max_length" in run.data.model_fields_set else 0

    def predicted(rows: Sequence[Inputs]) -> list[Answer]:
        words = model.kind == "tag"
        first = [row if words else row[0] for row in rows]
        second = [row[1] for row in rows] if len(rows[0]) > 1 and not words else None
        with explained(DataError):
            return model.predict(
                first,
                second,
                max_length=length,
                batch_size=run.batch_size,
                all_probabilities=run.all_probabilities,
                top=run.top,
                null_threshold=limit,
                **spans,
            )

    return predicted


def _is_full(row: Inputs) -> bool:
    return bool(row) and all(part.strip() for part in row)


def _on_device(model: Model, device: DeviceName) -> Model:
    if not hasattr(model.network, "to"):  # CTranslate2's
        return model
    return replace(model, network=model.network.to(find_device(device)))
