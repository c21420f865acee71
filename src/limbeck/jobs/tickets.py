"""Find a winning ticket: which weights of a model learn a task as well as all of them do."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from transformers import TrainerCallback

from limbeck.core.files import atomic
from limbeck.core.progress import Silent, Watcher
from limbeck.jobs import pipeline
from limbeck.jobs.arguments import documented, in_folder, settings_of
from limbeck.jobs.exporting import record_with_exports
from limbeck.jobs.folder import locked, publish
from limbeck.jobs.result import Result, make_result
from limbeck.jobs.settings import Options
from limbeck.jobs.ticket_settings import TicketRun
from limbeck.jobs.train import plan_training
from limbeck.measure.speed import MEASURING

TICKET = "ticket.safetensors"


@documented(TicketRun)
def find_ticket(
    model: str | Path = "",
    data: object = None,
    *,
    out: str | Path = "",
    rounds: int | None = None,
    epochs: float | None = None,
    learning_rate: float | None = None,
    batch_size: int | None = None,
    max_steps: int | None = None,
    seeds: int | None = None,
    seed: int | None = None,
    task: str | None = None,
    metric: str | None = None,
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str | None = None,
    max_length: int | None = None,
    limit: int | None = None,
    class_weights: str | None = None,
    label_smoothing: float | None = None,
    device: str | None = None,
    reading: Options | None = None,
    run: TicketRun | None = None,
    resume: bool = False,
    callbacks: Sequence[TrainerCallback] = (),
    watcher: Watcher | None = None,
    command: str = "",
    **knobs: object,
) -> Result:
    """Trains `model`, prunes it, takes the rest back to its start, `rounds` times; then trains what is left.

    The last ticket lies in `out`/ticket.safetensors, those of every round and seed in `out`/arms, the sparse model in
    `out`/model. `Ticket.load` opens a ticket, `train(..., ticket=FILE)` starts from one. The Record has the quality of
    every round: `result.record.arms[0].runs[0].levels`.
    `find_ticket("bert-base-uncased", "reviews.csv", rounds=7, out="runs/ticket")`

    Example:

        import limbeck
        from transformers import BertConfig, BertModel, BertTokenizerFast

        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "film", "fine", "dull", *map(str, range(80))]
        sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
        BertModel(BertConfig(vocab_size=len(words), **sizes)).save_pretrained("encoder")
        vocabulary = {word: number for number, word in enumerate(words)}
        BertTokenizerFast(vocab=vocabulary).save_pretrained("encoder")
        rows = [{"text": f"film {n} {word}", "label": word} for n in range(80) for word in ("fine", "dull")]
        result = limbeck.find_ticket("encoder", rows, rounds=2, epochs=1, out="search", measure={"speed": False})
        assert [round(level.share, 1) for level in result.record.arms[0].runs[0].levels] == [1.0, 0.9, 0.8]
        ticket = limbeck.Ticket.load("search/ticket.safetensors")
    """
    run, data = settings_of(TicketRun, locals())
    run, temporary = in_folder(run.but(model=str(model)) if model else run, out)
    watcher = watcher or Silent()
    with locked(run.out, resume=resume) as folder:
        run, arm, setup = plan_training(run, data, watcher)
        finished = pipeline.run_without_teacher(run, arm, setup, folder, watcher, callbacks)
        _, best = finished.best()
        publish(best.model, folder / "model")
        with atomic(folder / TICKET) as part:
            shutil.copyfile(folder / best.result.levels[-1].ticket, part)
        record = record_with_exports(finished, command, watcher)
        result = make_result(finished, record, folder / "model", temporary)
        watcher.at(MEASURING, 1.0)
        return result
