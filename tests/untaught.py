"""Translators that have learnt nothing, programs that translate, and how a person who made a mistake is answered."""

import sys
from pathlib import Path

from limbeck.core.record import Record
from limbeck.data.seq2seq.pairs import read_parallel
from limbeck.data.seq2seq.subwords import train_subwords
from limbeck.data.settings import DataSettings, ParallelSettings
from limbeck.students.seq2seq import Seq2SeqConfig, new_seq2seq
from running import limbeck

SHAPE = {"hidden": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "vocabulary": 90, "positions": 64}
NEW = [word for name, size in SHAPE.items() for word in (f"--seq2seq.{name.replace('_', '-')}", size)]
BRIEF = (
    *("--epochs", 1, "--batch-size", 32, "--learning-rate", 1e-3, "--train.evals-per-epoch", 1, "--train.threads", 1),
    *("--measure.no-speed", "--measure.bootstrap", 200, "--no-baseline", "--translate.test-beam", 2),
)
HERE = Path(__file__).parent


def make_teacher(folder: Path, texts, endless: bool = False) -> Path:
    """One that has learnt nothing; with an `endless` tokenizer, which does not say how much its model reads."""
    pieces = train_subwords(texts, SHAPE["vocabulary"])
    if not endless:
        pieces.model_max_length = SHAPE["positions"]
    new_seq2seq(Seq2SeqConfig(**SHAPE), pieces).save_pretrained(folder)
    pieces.save_pretrained(folder)
    return folder


def of_files(source: Path) -> tuple:
    return ("--task", "translate", "--data", source, "--target", source.with_suffix(".de"))


def told(said) -> tuple[str, str]:
    """The problem and the remedy of a refusal."""
    assert said.code == 2, said
    assert "Traceback" not in said.err
    problem, remedy = said.err.split("limbeck: ", 1)[1].split("\n  → ")
    assert problem.strip()
    assert remedy.strip()
    return problem, remedy


def ends_well(*words) -> Record:
    said = limbeck("distill", "--task", "translate", *words, *BRIEF)
    assert said.code == 0, said.err
    return Record.load(words[words.index("--out") + 1])


def append(source: Path, pairs) -> None:
    """More lines for both files."""
    for place, path in enumerate((source, source.with_suffix(".de"))):
        with path.open("a", encoding="utf-8", newline="") as file:
            file.writelines(pair[place] + "\n" for pair in pairs)


def program(folder: Path, body: str) -> str:
    """A command that has `sources` from its input and `translate` at hand, and does as `body` says."""
    path = folder / "translate.py"
    start = f"import sys; sys.path.insert(0, {str(HERE)!r}); from tongues import translate\n"
    path.write_text(f"{start}sources = sys.stdin.buffer.read().decode().split('\\n')[:-1]\n{body}\n", encoding="utf-8")
    return f"{sys.executable} {path}"


def train_sources(data: Path) -> list[str]:
    settings = DataSettings(train=str(data), task="translate")
    return read_parallel(settings, ParallelSettings(target=str(data.with_suffix(".de")))).train.sources
