"""`limbeck bench`: how fast and how large models are."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from limbeck.cli.flags import with_knobs
from limbeck.cli.verb import RecordFolder, begin, execute, gather, save, show
from limbeck.jobs.settings import BenchRun


@with_knobs(BenchRun)
def bench(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODELS", help="folders of saved models, of any task"),
    ],
    out: RecordFolder = None,
    knobs: dict[str, Any] | None = None,
) -> None:
    """Measure latency, throughput, memory and size of saved models, each alone in a process of its own.

    limbeck bench teacher runs/small/student --data reviews.csv

    Translators, in transformers and in CTranslate2:
    limbeck bench DIR runs/small/export/ctranslate2 --task translate
    """
    run = BenchRun(**gather(None, knobs))
    begin(f"timing {', '.join(models)}", run, models, out)
    from limbeck.jobs.bench import bench as job

    record = execute(job, models, run=run)
    show(record, save(record, out))
