"""The process in which one model is timed, seen from the run that starts it; speed_probe.py is what it does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Literal

from limbeck.core.errors import DataError, KnobError, LimbeckError, ModelError
from limbeck.core.record import Speed
from limbeck.measure.machine import threads_to_use
from limbeck.measure.size import is_ctranslate2
from limbeck_runtime import is_exported
from limbeck_runtime.folder import VECTORS

Program = Literal["torch", "ctranslate2", "onnx", "numpy"]
Engine = Program | Literal["auto"]
_PACKAGES = {"ctranslate2": ("CTranslate2", "translate"), "onnx": ("ONNX Runtime", "onnx")}
BUSY = 0.1  # the share of a turn that a process may wait for a core before its figures are doubted
_POOLS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
_QUIET = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "PYTHONWARNINGS": "ignore"}


@dataclass
class Probe:
    """Loads a model and takes its turns; between them it sleeps."""

    job: dict[str, Any]
    process: subprocess.Popen[str]
    errors: IO[str]
    facts: dict[str, Any] = field(default_factory=dict)  # what it tells once the model is loaded

    def wait_until_loaded(self) -> None:
        self.facts = self._answer()

    @property
    def text_seconds(self) -> float:
        return float(self.facts["text_seconds"])

    @property
    def batch_seconds(self) -> float:
        return float(self.facts["batch_seconds"])

    @property
    def lengths_seconds(self) -> float:
        """Of one text of every length."""
        return float(self.facts["lengths_seconds"])

    @property
    def load_ms(self) -> float:
        """From the start of the process to its first answer; others that load at the same time make it longer."""
        return float(self.facts["load_ms"])

    def turn(self, rounds: int, texts: int, report: Callable[[float], object] = lambda share: None) -> Speed:
        """Times `rounds` texts one by one, and `texts` in batches."""
        self._tell({"rounds": rounds, "texts": texts})
        while "done" in (found := self._answer()):
            report(found["done"])
        how = {"engine": self.facts["engine"], "threads": self.job["threads"], "batch": self.job["batch"]}
        return Speed(**how, rounds=rounds, busy=found.pop("waited") > BUSY, **found)

    def _tell(self, line: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, and what it said last tells why
            self.process.stdin.write(json.dumps(line) + "\n")
            self.process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        if line := self.process.stdout.readline():
            return dict(json.loads(line))
        code = self.process.wait()
        self.errors.seek(0)
        output = "\n".join(self.errors.read().strip().splitlines()[-20:]) or f"it ended with code {code}"
        raise LimbeckError(
            f"the speed of {self.job['folder']} cannot be measured:\n{output}",
            "check that its engine opens the folder, and that there is memory enough",
        )


@contextmanager
def probe(
    folder: Path | str,
    texts: Sequence[tuple[str, str]],
    threads: int,
    batch: int,
    max_length: int,
    beam: int,
    engine: Engine = "auto",
    lengths: Sequence[int] = (),
) -> Iterator[Probe]:
    """A process that loads the model at once; it ends with the context."""
    if not (Path(folder) / "config.json").is_file():
        raise ModelError(f"{folder} is not a model folder: it has no config.json", "give a save_pretrained folder")
    if not texts:
        raise DataError("there is no text to time the model on", "give a test split that is not empty")
    threads = threads or threads_to_use()
    job = {"folder": str(folder), "texts": list(texts), "batch": batch, "max_length": max_length}
    job |= {"engine": _engine(folder, engine), "threads": threads, "beam": max(beam, 1), "lengths": list(lengths)}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        job["started"] = time.monotonic()
        process = subprocess.Popen(
            # -P: files in the working folder must not stand in for packages.
            [sys.executable, "-P", "-m", "limbeck.measure.speed_probe"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            encoding="utf-8",
            env={**os.environ, **dict.fromkeys(_POOLS, str(threads)), **_QUIET},
        )
        try:
            made = Probe(job, process, errors)
            made._tell(job)
            yield made
        except BaseException:
            process.kill()
            raise
        finally:
            process.communicate()  # the end of its stdin is its end


def _engine(folder: Path | str, engine: Engine) -> Program:
    """The engine that opens a folder: each format has one."""
    fits: Program = "torch"
    if is_ctranslate2(folder):
        fits = "ctranslate2"
    elif is_exported(folder):
        fits = "numpy" if (Path(folder) / VECTORS).is_file() else "onnx"
    if engine not in ("auto", fits):
        raise KnobError(f"{engine} cannot open {folder}, which is kept for {fits}", f"use engine 'auto' or '{fits}'")
    name, extra = _PACKAGES.get(fits, ("", ""))
    if name and find_spec(fits.replace("onnx", "onnxruntime")) is None:
        raise KnobError(f"{folder} is run by {name}, which is not here", f"pip install 'limbeck[{extra}]'")
    return fits
