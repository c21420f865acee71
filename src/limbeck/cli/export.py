"""`limbeck export`: a model for another engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limbeck.cli.answers import try_line
from limbeck.cli.flags import with_knobs
from limbeck.cli.verb import begin, gather, need_out
from limbeck.jobs.settings import ExportRun

if TYPE_CHECKING:
    from limbeck.exporters.export import Exported


@with_knobs(ExportRun)
def export(
    model: Annotated[str, typer.Argument(help="a model's folder, a run's folder, or a hub id")],
    knobs: dict[str, Any] | None = None,
) -> None:
    """Write a model for ONNX Runtime, NumPy or CTranslate2, small and fast, after comparing it with its source.

    limbeck export runs/small/student --to onnx-int8 --out small-onnx --data dev.csv

    limbeck export runs/translator/student --to ctranslate2 --out small-ct2

    limbeck export runs/static/student --to numpy-int8 --out small-numpy

    Encoders go to ONNX: onnx has float32, onnx-int8 is the fastest, onnx-int4 the smallest. Students of family static
    need no engine but NumPy: numpy has float16 vectors, numpy-int8 the smallest. The answers are compared on
    the texts of --data, and where it has labels the quality too; an export that does not answer as its source is not
    written. The folder is complete: limbeck predict, ONNX Runtime and Optimum open one of ONNX, without torch.
    """
    run = ExportRun(**gather(None, knobs))
    need_out(run.out, "small-onnx")
    from limbeck.exporters.targets import check_target

    check_target(run.to, Path(run.out).expanduser())
    begin(f"exporting {model} to {run.to}", run, [model])
    from limbeck.cli.display import watching
    from limbeck.jobs.export import export as job

    with watching() as watcher:
        found = job(model, run=run, watcher=watcher)
    for line in described(found):
        typer.echo(line)


def described(found: Exported) -> list[str]:
    """What was written, how far it is from its source, and how to try it."""
    figures = found.figures
    size, before = figures["bytes"], figures["source_bytes"]
    lines = [f"written {found.path} ({found.engine}, {found.precision})"]
    lines.append(f"bytes   {size / 1e6:,.2f} MB in all, {before / size:.1f}× smaller than {before / 1e6:,.2f} MB")
    if "agreement" in figures:
        same = f"{figures['agreement']:.1%} of the answers on {figures['rows']:,.0f} texts are the source's"
        apart = figures.get("relative_difference")  # of translators no logits are compared
        differ = "" if apart is None else f"; logits differ by {apart:.1e} of the largest at most"
        lines.append(f"parity  {same}{differ}")
    for name in [name for name in figures if f"source_{name}" in figures and name != "bytes"]:
        lines.append(f"quality {name} {figures[name]:.4f}, the source's {figures[f'source_{name}']:.4f}")
    if left := int(figures.get("float_weights", 0)):
        lines.append(f"float   {left} weights that suffer from integers stay float32")
    return [*lines, f"try     {try_line(found.path, found.kind)}"]
