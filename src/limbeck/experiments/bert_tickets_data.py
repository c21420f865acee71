"""The tasks of the encoder tickets as flags, and their stand-in for a quick run.

The stand-in are tasks made of Rotten Tomatoes' sentences, in files of the same names, and an encoder of two layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias
from zlib import crc32

from limbeck.core.files import write_text
from limbeck.data.sources.demo import demo_model, demo_rows
from limbeck.experiments.experiment import Needs

Flags: TypeAlias = tuple[object, ...]
GLUE = Needs(
    "SST-2, MRPC, STS-B and WikiText-2",
    (
        *("sst2/train.tsv", "sst2/dev.tsv", "sst2/test.tsv"),
        *("mrpc/msr_paraphrase_train.txt", "mrpc/msr_paraphrase_test.txt"),
        *("stsb/sts-train.csv", "stsb/sts-dev.csv", "stsb/sts-test.csv"),
        *("wikitext2_raw/wiki.valid.raw", "wikitext2_raw/wiki.test.raw"),
    ),
    "GLUE, Microsoft's paraphrase corpus, the STS benchmark and WikiText-2 (raw), a folder each",
    "300 sentences of Rotten Tomatoes, and tasks made of them",
)
LAYERS = 2  # of the cut encoder
SIZES = {"train": 240, "dev": 60, "test": 60}


def data_flags(files: Mapping[str, Path], source: str, rows: int, blocks: int, length: int) -> Flags:
    """Of a task: its files, columns and the length of its texts."""
    columns: Flags
    how: Flags
    if source.startswith("sst2"):
        chosen = {"sst2-2500": 2500, "sst2-all": 0}.get(source, rows)
        return *_split(files, "sst2/{}.tsv"), "--data.max-length", min(length, 64), "--data.limit", chosen
    if source == "mrpc":
        columns = ("--label-column", "Quality", "--text-column", "#1 String", "--data.pair-column", "#2 String")
        how = ("--data.quoting", "none", "--data.max-length", length)
        return *_split(files, "mrpc/msr_paraphrase_{}.txt"), *columns, *how
    if source == "stsb":
        columns = ("--label-column", "5", "--text-column", "6", "--data.pair-column", "7", "--data.header", "no")
        how = ("--data.quoting", "none", "--data.max-length", length, "--task", "regress")
        return *_split(files, "stsb/sts-{}.csv"), *columns, *how
    text, test = (files[f"wikitext2_raw/wiki.{split}.raw"] for split in ("valid", "test"))
    train = GLUE.file(text.parent, "wiki.train.raw") or text
    how = ("--blocks.length", length, "--data.limit", blocks, "--data.limit-test", min(blocks, 500))
    return "--task", "mask-fill", "--data", train, "--data.test", test, *how


def _split(files: Mapping[str, Path], name: str) -> Flags:
    found = {split: files.get(name.format(split)) for split in ("train", "dev", "test")}
    dev = ("--data.dev", found["dev"]) if found["dev"] else ()  # else it is cut from train
    return "--data", found["train"], *dev, "--data.test", found["test"]


def embedded(folder: Path) -> Path:
    """A folder with the files of the whole experiment: sentiment for SST-2, halves of sentences for MRPC and STS-B."""
    if (folder / "done").exists():
        return folder
    whole = sum(SIZES.values())
    rows = sorted(demo_rows()[:: 8530 // whole], key=lambda row: crc32(row["text"].encode()))[:whole]  # no class first
    texts, first = [row["text"].replace("\t", " ").replace('"', "") for row in rows], 0
    for split, count in SIZES.items():
        chosen = slice(first, first + count)
        first += count
        _write(folder / f"sst2/{split}.tsv", ["label\tsentence", *_labelled(rows[chosen], texts[chosen])])
        _write(folder / f"stsb/sts-{split}.csv", _cut(texts[chosen]))
        if split != "dev":
            head = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
            _write(folder / f"mrpc/msr_paraphrase_{split}.txt", [head, *_halves(texts[chosen])])
    _write(folder / "wikitext2_raw/wiki.valid.raw", texts[:-60])
    _write(folder / "wikitext2_raw/wiki.test.raw", texts[-60:])
    _write(folder / "done", [])
    return folder


def _write(file: Path, lines: Sequence[str]) -> None:
    write_text(file, "".join(f"{line}\n" for line in lines))


def _labelled(rows: Sequence[dict[str, str]], texts: Sequence[str]) -> list[str]:
    return [f"{int(row['label'] == 'positive')}\t{text}" for row, text in zip(rows, texts, strict=True)]


def _halves(texts: Sequence[str]) -> list[str]:
    """Do both halves come from one sentence?"""
    words = [text.split() for text in texts]
    second = [one[len(one) // 2 :] for one in words]
    lines = []
    for number, one in enumerate(words):
        same = number % 2
        other = second[number if same else (number + 7) % len(words)]
        lines.append(f"{same}\t{number}\t{number}\t{' '.join(one[: len(one) // 2])}\t{' '.join(other)}")
    return lines


def _cut(texts: Sequence[str]) -> list[str]:
    """How much of the first sentence, from 0 to 5 fifths, is in the second?"""
    lines = []
    for number, text in enumerate(texts):
        words, fifths = text.split(), number % 6
        kept = " ".join(words[: max(1, len(words) * fifths // 5)])
        lines.append(f"made\tmade\tmade\t{number}\t{fifths}.0\t{text}\t{kept}")
    return lines


def small_encoder(folder: Path) -> Path:
    """MiniLM with its first layers alone."""
    if not (folder / "tokenizer.json").exists():  # which is written last
        from transformers import AutoModel, AutoTokenizer

        from limbeck.students.model_folder import quiet, save_folder
        from limbeck.students.shrink import shrink

        with quiet():
            model, tokenizer = (kind.from_pretrained(demo_model()) for kind in (AutoModel, AutoTokenizer))
            save_folder(shrink(model, layers=LAYERS), tokenizer, folder)
    return folder
