"""What a store of a teacher's top words costs: bytes per token, what is lost, and how fast it is written and read.

Beside it an uncompressed top of int32 ids and fp16 values, and a MiniLM student in training that reads from the store.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer, set_seed

from common import HERE, SEED, Finding, Limit, each_turn, finish, flags, median_of, settle, turn_by_turn
from limbeck.core.fingerprint import fingerprint
from limbeck.core.trace import Top
from limbeck.data.sources.demo import demo_model, demo_rows
from limbeck.teachers.topk import Manifest, TopKCache

BATCH, LENGTH, ASKED = 32, 128, 0.15
ENTROPY = 2.5  # nats; a masked language model on its masked words
BYTES = {50: 110.0, 128: 280.0}  # limits
OTHERS = {"smollm2": 49_152, "qwen": 151_936}  # vocabularies without a model here
TOKENS_AT_ONCE = 128


@dataclass(frozen=True)
class Texts:
    ids: Tensor  # [examples, LENGTH] with masks
    asked: Tensor  # [examples, LENGTH] bool: under a mask

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        yield from zip(self.ids.split(BATCH), self.predicted.split(BATCH), strict=True)


@dataclass(frozen=True)
class Kept:
    """What became of one source of distributions at one k."""

    bytes_per_token: float
    millinats: float  # KL of the renormalised tops
    tail_millinats: float  # with the rest as one more outcome
    peer_bytes_per_token: float
    peer_millinats: float
    peer_tail_millinats: float


def texts(tokenizer: Any, examples: int) -> Texts:
    """Sentences in a row, cut into blocks, 15 % of the tokens masked."""
    flat: list[int] = []
    for row in demo_rows():
        flat += tokenizer(row["text"], add_special_tokens=False)["input_ids"]
        if len(flat) >= examples * LENGTH:
            break
    ids = torch.tensor(flat[: examples * LENGTH]).view(-1, LENGTH)
    asked = torch.rand(ids.shape, generator=torch.Generator().manual_seed(SEED)) < ASKED
    return Texts(ids.masked_fill(asked, tokenizer.mask_token_id), asked)


@torch.inference_mode()
def from_model(given: Texts, teacher: Path | None) -> Iterator[Tensor]:
    """[tokens, vocabulary] logits of the asked tokens, a batch of examples at a time."""
    if teacher:
        model = AutoModelForMaskedLM.from_pretrained(teacher).eval()
        for ids, asked in given.batches():
            yield model(input_ids=ids).logits[asked]
        return
    encoder = AutoModel.from_pretrained(demo_model()).eval()
    scale = 0.0
    for ids, asked in given.batches():
        logits = encoder(input_ids=ids).last_hidden_state[asked] @ encoder.get_input_embeddings().weight.T
        scale = scale or scale_to_entropy(logits)
        yield scale * logits


def scale_to_entropy(logits: Tensor) -> float:
    low, high = 1e-3, 1e3
    for _ in range(30):
        middle = (low * high) ** 0.5
        entropy = torch.distributions.Categorical(logits=middle * logits).entropy().mean()
        low, high = (middle, high) if entropy > ENTROPY else (low, middle)
    return low


def made_up(vocabulary: int, tokens: int) -> Iterator[Tensor]:
    """Zipf's law and noise, from flat to steep; in every fourth token one word stands out, up to certainty."""
    chance = torch.Generator().manual_seed(SEED)
    zipf = -torch.arange(1, vocabulary + 1).log()
    for _ in range(0, tokens, TOKENS_AT_ONCE):
        steep = torch.empty(TOKENS_AT_ONCE, 1).uniform_(0.5, 6, generator=chance)
        logits = steep * torch.randn(TOKENS_AT_ONCE, vocabulary, generator=chance) + zipf
        words = torch.randint(vocabulary, (TOKENS_AT_ONCE // 4,), generator=chance)
        logits[torch.arange(0, TOKENS_AT_ONCE, 4), words] += torch.empty(len(words)).uniform_(5, 25, generator=chance)
        yield logits


def top_of(logits: Tensor, k: int) -> Top:
    log_sum = logits.logsumexp(dim=-1)
    values, ids = logits.topk(k, dim=-1)
    return Top(ids, values - log_sum[:, None], log_sum, torch.zeros_like(log_sum))


def tops_of(stream: Iterator[Tensor]) -> tuple[Top, int]:
    """The longest tops of all logits, and the size of their vocabulary."""
    tops, vocabulary = [], 0
    for logits in stream:
        tops.append(top_of(logits, max(BYTES)))
        vocabulary = logits.shape[1]
    fields = ("ids", "log_p", "log_sum", "softened")
    ids, log_p, log_sum, softened = (torch.cat([getattr(top, field) for top in tops]) for field in fields)
    return Top(ids, log_p, log_sum, softened), vocabulary


def divergences(true: Top, kept: Top) -> tuple[float, float]:
    """Mean KL in thousandths of a nat, renormalised and with the rest as one more outcome. Both hold the same ids."""
    log_p, log_q = (top.log_p.double().gather(1, top.ids.argsort(dim=1)) for top in (true, kept))
    p, q = log_p.exp(), log_q.exp()
    mass, other = p.sum(dim=1), q.sum(dim=1)
    inside = (p * (log_p - log_q)).sum(dim=1)
    rest, other_rest = (1 - mass).clamp(min=1e-12), (1 - other).clamp(min=1e-12)
    renormalised = inside / mass - (mass / other).log()
    tail = inside + rest * (rest / other_rest).log()
    return 1e3 * float(renormalised.mean()), 1e3 * float(tail.mean())


def about(k: int, vocabulary: int) -> Manifest:
    prints = dict.fromkeys(("teacher", "tokenizer", "data", "mask"), "0" * 16)
    return Manifest(k=k, vocabulary=vocabulary, fingerprints=prints)


def fill(folder: Path, top: Top, counts: np.ndarray, vocabulary: int, copies: int = 1) -> float:
    """Writes the answers batch by batch, `copies` times under other uids; the seconds it took."""
    ends = np.concatenate([[0], np.cumsum(counts)])
    start = time.perf_counter()
    with TopKCache(folder, about(top.ids.shape[1], vocabulary), write=True) as store:
        for copy in range(copies):
            for first in range(0, len(counts), BATCH):
                last = min(first + BATCH, len(counts))
                uids = np.arange(first, last) + copy * len(counts)
                store.add(uids, counts[first:last], top.rows(slice(ends[first], ends[last])))
    return time.perf_counter() - start


def compare(folder: Path, top: Top, counts: np.ndarray, vocabulary: int) -> Kept:
    """The store and its uncompressed peer on the same answers."""
    fill(folder / "store", top, counts, vocabulary)
    store = TopKCache.open(folder / "store")
    found, _ = store.get(np.arange(len(counts)))
    assert isinstance(found, Top)
    peer = folder / "peer.safetensors"
    halves = top.log_p.half()
    save_file({"ids": top.ids.int(), "log_p": halves, "counts": torch.from_numpy(counts)}, peer)
    other = Top(top.ids, halves.float(), top.log_sum, top.softened)
    bytes_per_token = store.bytes_on_disk / len(top), peer.stat().st_size / len(top)
    return Kept(bytes_per_token[0], *divergences(top, found), bytes_per_token[1], *divergences(top, other))


class Student:
    """MiniLM-L6 as a masked language model that learns a store's tops; only asked tokens meet the vocabulary."""

    def __init__(self, given: Texts) -> None:
        self.given = given
        self.model = AutoModelForMaskedLM.from_pretrained(demo_model()).train()
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-5)

    def step(self, top: Top) -> None:
        ids, predicted = self.given.ids[:BATCH], self.given.predicted[:BATCH]
        features = self.model.base_model(input_ids=ids).last_hidden_state[predicted]
        log_q = self.model.cls(features).log_softmax(dim=-1).gather(1, top.ids)
        loss = -(top.log_p.softmax(dim=-1) * log_q).sum(dim=-1).mean()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()


def speeds(folder: Path, given: Texts, top: Top, counts: np.ndarray, knobs: dict[str, Any]) -> dict[str, list[Any]]:
    """Tokens per second of a student in training and of reading at random, in turns."""
    student, store = Student(given), TopKCache.open(folder)
    first = top.rows(slice(0, int(counts[:BATCH].sum())))
    chance = np.random.default_rng(SEED)
    student.step(first)  # the first step is slower; it does not count
    store.get(np.arange(BATCH))

    def read() -> int:
        tokens = 0
        for uids in np.array_split(chance.permutation(len(store)), len(store) // BATCH):
            tokens += len(store.get(uids)[0])
        return tokens

    def learn() -> int:
        for _ in range(knobs["steps"]):
            student.step(first)
        return knobs["steps"] * len(first)

    def measure(name: str) -> dict[str, float]:
        work: Callable[[], int] = {"read": read, "student": learn}[name]
        start = time.perf_counter()
        tokens = work()
        return {"tokens_per_second": tokens / (time.perf_counter() - start)}

    return turn_by_turn(["read", "student"], knobs["turns"], measure)


def run(args: argparse.Namespace, folder: Path) -> Finding:
    settle(args.threads)
    set_seed(SEED)
    sizes = (64, 256, 2, 1, 1) if args.quick else (512, 4096, 40, 5, 3)
    knobs = dict(zip(("examples", "made_up_tokens", "copies", "turns", "steps"), sizes, strict=True))
    given = texts(AutoTokenizer.from_pretrained(args.teacher or demo_model()), knobs["examples"])
    counts = given.predicted.sum(dim=1).numpy().astype(np.int32)
    kept: dict[str, Kept] = {}
    longest, vocabulary = tops_of(from_model(given, args.teacher))
    for k in BYTES:
        kept[f"bert_k{k}"] = compare(folder / f"bert-{k}", longest.first(k), counts, vocabulary)
    for name, words in OTHERS.items():
        top, _ = tops_of(made_up(words, knobs["made_up_tokens"]))
        per_example = np.full(len(top) // 16, 16, np.int32)
        for k in BYTES:
            kept[f"{name}_k{k}"] = compare(folder / f"{name}-{k}", top.first(k), per_example, words)
    answers = longest.first(50)
    written = fill(folder / "many", answers, counts, vocabulary, knobs["copies"])
    found = speeds(folder / "many", given, answers, counts, knobs)
    write = len(answers) * knobs["copies"] / written
    return tell(kept, write, found, {**knobs, "threads": args.threads, "teacher": str(args.teacher or "")})


def tell(kept: dict[str, Kept], write: float, found: dict[str, list[Any]], knobs: dict[str, Any]) -> Finding:
    read, student = (median_of(found[name], "tokens_per_second") for name in ("read", "student"))
    figures = {f"{field}_{name}": figure for name, value in kept.items() for field, figure in vars(value).items()}
    figures |= {
        "written_tokens_per_second": write,
        "read_tokens_per_second": read,
        "student_tokens_per_second": student,
        "read_over_student": read / student,
    }
    small = [name for name in kept if name != "qwen_k50"]  # its ids alone take 84 bytes; no limit is claimed
    limits = [Limit(f"bytes_per_token_{name}", at_most=BYTES[int(name.rpartition("k")[2])]) for name in small]
    limits += [Limit(f"{form}_{name}", at_most=1) for name in kept for form in ("millinats", "tail_millinats")]
    model = "the teacher's outputs" if knobs["teacher"] else "MiniLM's last layer on its own word embeddings, scaled"
    return Finding(
        figures=figures,
        limits=(*limits, Limit("read_over_student", at_least=20)),
        knobs=knobs,
        notes=(
            f"bert: {model}, at 15 % masked tokens of {knobs['examples']} blocks of {LENGTH} tokens; smollm2 and qwen: "
            "Zipf's law and noise over their vocabularies, 16 tokens per example",
            "bytes: every file of the store over its tokens; millinats: mean KL over the tokens, of the renormalised "
            "tops, and with the rest as one more outcome",
            f"reading: {BATCH} examples at a time in a random order; student: MiniLM-L6 trained as a masked language "
            f"model on batches of {BATCH} × {LENGTH}; both in asked tokens per second, in turns, median",
            "peer: int32 ids and fp16 log-probabilities, uncompressed, as DistillKit keeps them",
        ),
        seconds=each_turn(found),
        fingerprints={"student": fingerprint(AutoModel.from_pretrained(demo_model()))},
    )


def main() -> int:
    parser = flags(__doc__ or "")
    trained = HERE.parent / ".bench" / "imdb_words" / "teacher" / "model"
    said = "folder of a masked language model (default: the one imdb_words.py trains, else MiniLM, scaled)"
    parser.add_argument("--teacher", type=Path, default=trained if trained.exists() else None, help=said)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        finding = run(args, Path(folder))
    return finish("store", finding, args)


if __name__ == "__main__":
    sys.exit(main())
