"""An exported model, opened: logits and answers of texts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limbeck_runtime.answers import Answer, log_softmax, text_answer
from limbeck_runtime.encode import Arrays, Encoder
from limbeck_runtime.folder import GRAPH, NUMPY, TEXT_KINDS, Facts, UnusableError, read_facts
from limbeck_runtime.spans import Span, best_spans, chosen, confidence
from limbeck_runtime.static import StaticNetwork
from limbeck_runtime.tags import OUTSIDE, first_tokens, is_plain, tagged, words_of

Logits = NDArray[np.float32]
Text = str | Sequence[str]  # of a tagger also words
MASK = "[MASK]"  # as people write it, whatever a tokenizer calls it
WINDOW = 128  # tokens of a window of a tagger or reader, unless max_length says otherwise


def load(folder: Path | str, threads: int = 0, check: bool = True) -> Model:
    """Opens a folder that `limbeck export` wrote for ONNX Runtime or NumPy; one that is damaged is refused.

    `threads` 0 takes OMP_NUM_THREADS, or 1: a small model is done before a second thread has woken up. Without `check`
    the files are not compared with their checksums, which saves some milliseconds per 10 MB."""
    folder = Path(folder).expanduser()
    facts = read_facts(folder, check)
    if facts.engine == NUMPY:
        return Model(folder, facts, Encoder(folder, facts), StaticNetwork(folder))
    return Model(folder, facts, Encoder(folder, facts), _session(folder / GRAPH, facts, threads or _allowed_threads()))


def _allowed_threads() -> int:
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) else 1


def _session(path: Path, facts: Facts, threads: int) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise UnusableError(f"{path} is run by ONNX Runtime, which is not here", "pip install onnxruntime") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    # What an exporter left unfused is fused; the level above looks for layouts of images, which loads longer.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.add_session_config_entry("session.force_spinning_stop", "1")  # between calls, threads leave the cores alone
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of many classes of its own
        reason = str(error).strip().splitlines()[0]
        raise UnusableError(f"{path} cannot be opened: {reason}", "export the model again") from None
    wanted, given = {one.name for one in session.get_inputs()}, {one.name for one in session.get_outputs()}
    if wanted != set(facts.inputs) or not given >= set(facts.outputs):
        raise UnusableError(
            f"{path} takes {', '.join(sorted(wanted))} and gives {', '.join(sorted(given))}, not what its facts say",
            "copy both files from one export",
        )
    return session


@dataclass(frozen=True)
class Model:
    """`load("small-onnx").predict(["a lovely film"])`"""

    folder: Path
    facts: Facts
    encoder: Encoder
    session: Any

    @property
    def kind(self) -> str:
        """classify, multilabel, regress, tag, answer or mask-fill."""
        return self.facts.kind

    @property
    def labels(self) -> tuple[str, ...]:
        return self.facts.labels

    def run(self, arrays: Arrays) -> list[Logits]:
        """What the graph gives for a batch; arrays that it does not take are left out."""
        inputs = self.facts.inputs
        feeds = arrays if len(arrays) == len(inputs) else {name: arrays[name] for name in inputs}
        found: list[Logits] = self.session.run(self.facts.outputs, feeds)
        return found

    def logits(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, *, max_length: int = 0, batch_size: int = 32
    ) -> Logits:
        """[texts, outputs], in their order; texts of like length share a batch.

        Of models that answer for every token, [texts, length, outputs] of one batch as it comes; of readers
        [texts, 2, length], start and end."""
        self.encoder.limit_to(min(max_length or self.facts.max_length, self.facts.max_length))
        if len(texts) == 1 or self.kind not in TEXT_KINDS:
            found = self.run(self.encoder.batch(texts, pairs))
            return np.stack(found, axis=1) if self.kind == "answer" else found[0]
        encodings = self.encoder.encode(texts, pairs)
        logits = [np.empty((0, len(self.labels)), dtype=np.float32)]
        order = np.argsort([-len(one) for one in encodings], kind="stable")
        for start in range(0, len(order), batch_size):
            some = [encodings[row] for row in order[start : start + batch_size]]
            arrays = self.encoder.padded(some, self.facts.padding_side, self.facts.pad_type_id)
            logits.append(self.run(arrays)[0])
        return np.concatenate(logits)[np.argsort(order)]

    def predict(
        self,
        texts: Sequence[Text],
        pairs: Sequence[str] | None = None,
        *,
        max_length: int = 0,
        batch_size: int = 32,
        all_probabilities: bool = False,
        top: int = 5,
        stride: int = 32,
        longest_question: int = 64,
        longest_answer: int = 30,
        null_threshold: float | None = None,
    ) -> list[Answer]:
        """One answer for each text, or pair of texts: a label and its probability, labels and probabilities, a score,
        words with their tags and entities, the answer to a question (texts) in a context (pairs), or the `top` words
        for each [MASK].

        Taggers and readers read long texts in windows of `max_length` tokens that share `stride`. A question may be
        without an answer where a `null_threshold` says by how much that must score better."""
        if pairs is None and self.kind == "answer":
            raise UnusableError("a question needs a context", "give the contexts as the second texts")
        if not texts:
            return []
        if self.kind == "tag":
            return self._tag(texts, max_length or WINDOW, stride, batch_size)
        plain = [text if isinstance(text, str) else " ".join(text) for text in texts]
        if self.kind == "answer":
            spans = longest_question, longest_answer, null_threshold
            return self._answer(
                list(zip(plain, pairs or (), strict=True)), max_length or WINDOW, stride, batch_size, *spans
            )
        if self.kind == "mask-fill":
            return self._fill(plain, max_length, batch_size, top)
        logits = self.logits(plain, pairs, max_length=max_length, batch_size=batch_size).astype(np.float64)
        return [text_answer(self.kind, self.labels, row, all_probabilities) for row in logits]

    def _batches(self, encodings: Sequence[Any], size: int) -> Iterator[tuple[list[int], Arrays, list[Logits]]]:
        """The longest first; numbers in each, its arrays and what the graph gives."""
        order = np.argsort([-len(one) for one in encodings], kind="stable").tolist()
        for start in range(0, len(order), size):
            numbers = order[start : start + size]
            arrays = self.encoder.padded([encodings[number] for number in numbers])
            yield numbers, arrays, self.run(arrays)

    def _tag(self, texts: Sequence[Text], length: int, stride: int, size: int) -> list[Answer]:
        sentences = [words_of(text) if isinstance(text, str) else list(text) for text in texts]
        length = min(length, self.facts.max_length)
        stride = max(min(stride, length // 2 - self.encoder.tokenizer.num_special_tokens_to_add(False)), 0)
        cut = self.encoder.windows([" ".join(words) for words in sentences], length, stride, "longest_first")
        filler = OUTSIDE if OUTSIDE in self.labels else self.labels[0]  # of a word that the tokenizer drops
        tags, sure = [[filler] * len(words) for words in sentences], [[0.0] * len(words) for words in sentences]
        windows, places = [], []  # of each window: its sentence, and (token, word) of the words that are tagged there
        for sentence, (words, mine) in enumerate(zip(sentences, cut, strict=True)):
            seen = first_tokens(words, [(number, one.offsets) for number, one in enumerate(mine)]) if words else {}
            for number, one in enumerate(mine):
                if here := [(found.place, word) for word, found in seen.items() if found.window == number]:
                    windows.append(one)
                    places.append((sentence, here))
        for numbers, _, (logits, *_) in self._batches(windows, size):
            for number, row in zip(numbers, logits, strict=True):
                sentence, here = places[number]
                chances = np.exp(log_softmax(row[[place for place, _ in here]]))
                for (_, word), chance in zip(here, chances, strict=True):
                    tags[sentence][word] = self.labels[int(chance.argmax())]
                    sure[sentence][word] = float(chance.max())
        plain = is_plain(self.labels)
        return [tagged(*each, plain) for each in zip(sentences, tags, sure, strict=True)]

    def _answer(
        self,
        rows: Sequence[tuple[str, str]],
        length: int,
        stride: int,
        size: int,
        longest_question: int,
        longest_answer: int,
        null_threshold: float | None,
    ) -> list[Answer]:
        nullable, threshold = null_threshold is not None, null_threshold or 0.0
        length = min(length, self.facts.max_length)
        free = length - self.encoder.tokenizer.num_special_tokens_to_add(True)
        longest = min(longest_question, free // 2)
        stride = min(stride, (free - longest) // 2)
        short = [(self.encoder.shortened(question, longest), context) for question, context in rows]
        cut = self.encoder.windows(short, length, stride, "only_second")
        owned = [(row, one) for row, mine in enumerate(cut) for one in mine if 1 in one.sequence_ids]
        spans: list[list[tuple[Span, Any]]] = [[] for _ in rows]
        for numbers, arrays, (starts, ends, *_) in self._batches([one for _, one in owned], size):
            inside = np.zeros(arrays["input_ids"].shape, dtype=bool)
            for line, number in zip(inside, numbers, strict=True):
                sides = owned[number][1].sequence_ids
                line[: len(sides)] = [side == 1 for side in sides]
            inside[:, 0] |= nullable
            best = best_spans(starts, ends, inside, longest_answer, nullable)
            for number, span in zip(numbers, best, strict=True):
                row, window = owned[number]
                spans[row].append((span, window))
        found: list[Answer] = []
        for (_, context), mine in zip(rows, spans, strict=True):
            only = [span for span, _ in mine]
            number = chosen(only, threshold) if only else -1
            text = ""
            if number >= 0:
                span, window = mine[number]
                text = context[window.offsets[span.start][0] : window.offsets[span.end][1]].strip()
            found.append({"answer": text, "probability": confidence(only, threshold)})
        return found

    def _fill(self, texts: Sequence[str], length: int, size: int, top: int) -> list[Answer]:
        tokenizer, mask = self.encoder.tokenizer, self.facts.mask_token or MASK
        marked = [text.replace(MASK, mask) for text in texts]
        for text in (text for text, written in zip(texts, marked, strict=True) if mask not in written):
            raise UnusableError(
                f"the text {text[:60]!r} has no {MASK}", f"write {MASK} where a word is to be filled in"
            )
        length = min(length or self.facts.max_length, self.facts.max_length)
        self.encoder.limit_to(length)
        mask_id, vocabulary = tokenizer.token_to_id(mask), max(tokenizer.get_vocab().values()) + 1
        answers: list[Answer] = [{} for _ in texts]
        for numbers, arrays, (logits, *_) in self._batches(self.encoder.encode(marked), size):
            for number, ids, row in zip(numbers, arrays["input_ids"], logits, strict=True):
                masked = row[ids == mask_id][:, :vocabulary]
                if not len(masked):
                    raise UnusableError(
                        f"the text {texts[number][:60]!r} has its {MASK} beyond the {length} tokens that are read",
                        "shorten it",
                    )
                chances = np.exp(log_softmax(masked.astype(np.float64)))
                best = np.argsort(-chances, axis=1, kind="stable")[:, :top]
                words = [
                    [tokenizer.decode([token], skip_special_tokens=False).strip() for token in row] for row in best
                ]
                sure = np.take_along_axis(chances, best, axis=1).tolist()
                one = len(words) == 1
                answers[number] = {"words": words[0] if one else words, "probabilities": sure[0] if one else sure}
        return answers
