"""A pass that brings another tokenizer and shorter tables; a chain with it; and a run of that which kills itself."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import ClassVar

import torch
from transformers import BertTokenizerFast

import limbeck
from limbeck.core.card import Paper
from limbeck.core.compress import NO_CALIBRATION, PASSES, Change, Pass, compression
from limbeck.core.knob import knob
from tickets import Kill
from tiny import make_classifier, make_rows, make_tokenizer, write_csv

NOBODY = Paper("For a test", "Nobody", 2026, "here", "nobody2026")


class Trim(Pass):
    """Keeps the words of the texts, or all but the last `drop` of them."""

    calibrates: ClassVar[bool] = True
    reshapes: ClassVar[bool] = True
    retokenizes: ClassVar[bool] = True

    drop: int = knob(0, "words that go though texts hold them", at_least=0)

    @property
    def recoverable(self):
        return self.drop > 0

    def apply(self, model, mask, calibration=NO_CALIBRATION):
        tokenizer = calibration.processor
        used = {word for texts in calibration.texts for text in texts for word in text.split()}
        words = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
        keep = [word for word in words if word in used or word.startswith("[")]
        keep = keep[: len(keep) - self.drop]
        rows = torch.tensor([tokenizer.get_vocab()[word] for word in keep])
        table = model.get_input_embeddings()
        table.weight = torch.nn.Parameter(table.weight.detach()[rows].clone())
        table.num_embeddings = model.config.vocab_size = len(keep)
        small = BertTokenizerFast(vocab={word: number for number, word in enumerate(keep)}, model_max_length=64)
        looked = len(calibration.batches), len(calibration.texts), len(calibration.held_out)
        figures = dict(zip(("batches", "texts", "held_out"), map(float, looked), strict=True))
        return Change(mask, f"{len(keep)} of {len(words)} pieces are kept.", small, figures)


def register():
    if "trim" not in PASSES:
        compression("trim", NOBODY)(Trim)


def make(folder):
    """A teacher and rows, in which some words of the teacher's vocabulary do not occur."""
    rows = [row for row in make_rows(240) if not {"tired", "of"} & set(row["text"].split())]
    network, tokenizer = make_classifier(layers=2, seed=5), make_tokenizer()
    network.save_pretrained(folder / "teacher")
    tokenizer.save_pretrained(folder / "teacher")
    write_csv(folder / "rows.csv", rows)


TRAIN = {"epochs": 1, "batch_size": 16, "learning_rate": 1e-3, "evals_per_epoch": 2}


def chain(folder, out="out", passes="trim,magnitude", **more):
    register()
    knobs = {"recover": "magnitude", "teacher": "self", "measure": {"speed": False}, "train": TRAIN, **more}
    return limbeck.compress(folder / "teacher", passes, data=folder / "rows.csv", out=folder / out, **knobs)


if __name__ == "__main__":
    settings = json.loads(sys.argv[2])
    number = settings.pop("kill")
    chain(Path(sys.argv[1]), callbacks=[Kill(number, step=3)], **settings)
    os.kill(os.getpid(), signal.SIGTERM)
