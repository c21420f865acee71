"""`limbeck eval`: how good a model is on a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from limbeck.cli.flags import with_knobs
from limbeck.core.knob import Settings, knob
from limbeck.core.task import LANGUAGE_KINDS
from limbeck.data.language.settings import BlockSettings, MaskSettings
from limbeck.data.seq2seq.settings import ParallelSettings
from limbeck.data.settings import DataSettings, WindowSettings
from limbeck.recipes.run import undot
from limbeck.teachers.translate_settings import TranslateSettings


class EvalKnobs(Settings):
    data: DataSettings = knob(DataSettings(), "the texts")
    windows: WindowSettings = knob(WindowSettings(), "words and answers in texts, for --task tag and answer")
    blocks: BlockSettings = knob(BlockSettings(), "running text, for --task mask-fill and generate")
    mask: MaskSettings = knob(MaskSettings(), "hidden words, for --task mask-fill")
    parallel: ParallelSettings = knob(ParallelSettings(), "sources and targets, for --task translate")
    translate: TranslateSettings = knob(TranslateSettings(), "how models are tested, for --task translate")


@with_knobs(EvalKnobs)
def evaluate(
    model: Annotated[str, typer.Argument(help="a classifier, tagger, reader or language model: a folder or a hub id")],
    teacher: Annotated[str, typer.Option("--teacher", help="also say how close the model stays to this one")] = "",
    out: Annotated[Path | None, typer.Option("--out", help="folder for record.json and report.html")] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="run code that comes with the model")
    ] = False,
    knobs: dict[str, Any] | None = None,
) -> None:
    """Measure a model on labelled texts: accuracy, F1, calibration, per class, and agreement with a teacher.

    limbeck eval runs/small/student --data test.csv --teacher DIR

    A tagger or a reader, by F1: limbeck eval DIR --task answer --data squad.json

    A language model, on running text: limbeck eval DIR --task mask-fill --data corpus.txt

    A translator, in transformers or in CTranslate2, by BLEU and chrF:
    limbeck eval DIR --task translate --data test.en --target test.de
    """
    chosen = EvalKnobs(**undot(knobs or {}))
    from rich.console import Console

    from limbeck.cli.display import watching
    from limbeck.cli.distill import command_line
    from limbeck.cli.show import show_quality
    from limbeck.recipes.evaluate import evaluate as run_evaluate
    from limbeck.recipes.evaluate import evaluate_words, translators
    from limbeck.recipes.evaluate_pairs import evaluate_pairs
    from limbeck.report import Report
    from limbeck.report.table import terminal_table

    how: dict[str, Any] = {"teacher": teacher, "trust_remote_code": trust_remote_code, "command": command_line()}
    with watching() as watcher:
        if chosen.data.task in LANGUAGE_KINDS:
            record = evaluate_words(model, chosen.data, chosen.blocks, chosen.mask, watcher=watcher, **how)
        elif translators([model], chosen.data.task, trust_remote_code):
            record = evaluate_pairs(model, chosen.data, chosen.parallel, chosen.translate, watcher=watcher, **how)
        else:
            record = run_evaluate(model, chosen.data, windows=chosen.windows, watcher=watcher, **how)
    console = Console()
    console.print(terminal_table(record))
    show_quality(console, record)
    if out:
        record.save(out / "record.json")
        console.print(f"report  {Report((record,)).save(out / 'report.html')}", highlight=False, soft_wrap=True)
