"""Write a model for another engine, compared with its source."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from limbeck.core.errors import DataError, KnobError
from limbeck.core.progress import Silent, Watcher
from limbeck.core.task import TEXT_KINDS
from limbeck.exporters.export import Exported
from limbeck.exporters.export import export as write
from limbeck.exporters.targets import Target, check_target
from limbeck.jobs.arguments import AnyModel, documented, model_of, settings_of
from limbeck.jobs.settings import ExportRun, Options
from limbeck.students.model_folder import find_folder, quiet, save_folder
from limbeck.tasks.base import Model, task_of


@documented(ExportRun)
def export(
    model: AnyModel,
    to: Target | None = None,
    out: str | Path = "",
    data: object = None,
    *,
    task: str | None = None,
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str | None = None,
    tokenizer: Any = None,
    reading: Options | None = None,
    run: ExportRun | None = None,
    watcher: Watcher | None = None,
    **knobs: object,
) -> Exported:
    """`model` as a folder that ONNX Runtime, NumPy or CTranslate2 runs, which answers as it does, or is not written.

    `export("runs/small/student", to="onnx-int8", out="small-onnx", data="dev.csv").figures["agreement"]`. The answers
    are compared on the texts of `data`, a file or rows in hand, and where they have labels, the quality too; without,
    on texts of our own.
    """
    run, given = settings_of(ExportRun, locals())
    watcher = watcher or Silent()
    chosen, place = to or run.to, str(out or run.out)
    if not place:
        raise KnobError("no place for the export was given", "name a folder with --out, as in --out small-onnx")
    check_target(chosen, Path(place).expanduser())
    mine, source = model_of(model, tokenizer)
    rows, labels = _rows(run, given, mine or source, watcher)
    if mine is None:
        return write(find_folder(source), chosen, place, rows, labels, watcher)
    with tempfile.TemporaryDirectory(prefix="limbeck-export-") as folder:
        with quiet():
            save_folder(mine.network, mine.processor, Path(folder))
        return write(folder, chosen, place, rows, labels, watcher)


def _rows(
    run: ExportRun, given: object, model: Model | str, watcher: Watcher
) -> tuple[list[tuple[str, str]], list[Any]]:
    """Texts, or pairs of them, and their labels as numbers where every row has one."""
    if given is None and not run.data.train:
        return [], []
    task = task_of(run, model)
    if task.info.kind in TEXT_KINDS:
        with suppress(DataError):  # without labels, its texts will do; what is wrong with them is said below
            test = task.read(
                given, model if isinstance(model, Model) else task.load(model), watcher, only_test=True
            ).test
            known = test.take(test.has_label.nonzero()[0])
            if len(known):
                return known.keys, list(known.labels)
    _, rows = task.new_rows(given)
    if task.info.kind == "tag":
        rows = [(" ".join(words),) for words in rows]
    return [(row[0], row[1] if len(row) > 1 else "") for row in rows if row and all(part.strip() for part in row)], []
