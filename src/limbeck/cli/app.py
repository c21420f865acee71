"""The verbs, in the order a person meets them."""

from __future__ import annotations

import typer

from limbeck.cli import bench, demo, distill, evaluate, methods, report, train

app = typer.Typer(
    help="Make a big transformer small, and prove what was kept.",
    epilog="Start with `limbeck demo`, or: limbeck distill --teacher DIR --data reviews.csv --out runs/small",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("distill")(distill.distill)
app.command("train")(train.train)
app.command("eval")(evaluate.evaluate)
app.command("bench")(bench.bench)
app.command("report")(report.report)
app.command("methods")(methods.methods)
app.command("demo")(demo.demo)
