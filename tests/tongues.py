"""Two small languages that translate word by word, so that a tiny model learns to in seconds."""

import random
from pathlib import Path

from running import Said, limbeck

WORDS = {
    "a": "ein", "the": "der", "dog": "hund", "cat": "kater", "man": "mann", "runs": "rennt", "sleeps": "schläft",
    "red": "roter", "big": "großer", "sees": "sieht", "and": "und", "jumps": "springt",
}  # fmt: skip

BRIEF = ("--batch-size", 16, "--train.threads", 1, "--measure.no-speed", "--measure.bootstrap", 200)
TUNE = ("--learning-rate", 3e-3, "--train.evals-per-epoch", 1)


def tiny(layers: int) -> tuple[object, ...]:
    return (
        *(
            "--seq2seq.hidden",
            48,
            "--seq2seq.heads",
            2,
            "--seq2seq.encoder-layers",
            layers,
            "--seq2seq.decoder-layers",
            layers,
        ),
        *("--seq2seq.vocabulary", 90, "--seq2seq.dropout", 0.0),
    )


def run(*words: object) -> Said:
    """`limbeck …`, which has to end well."""
    said = limbeck(*words)
    assert said.code == 0, said.err
    return said


def translate(source: str) -> str:
    return " ".join(WORDS.get(word, word) for word in source.split())


def sentences(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(list(WORDS), k=draw.randint(2, 5))) for _ in range(count)]


def write_pairs(folder: Path, count: int = 260, seed: int = 0) -> Path:
    """Two files with a line per sentence; the path of the first."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = sentences(count, seed)
    (folder / "train.en").write_text("\n".join(sources) + "\n", encoding="utf-8")
    (folder / "train.de").write_text("\n".join(map(translate, sources)) + "\n", encoding="utf-8")
    return folder / "train.en"
