"""The model card: Markdown that goes beside the weights."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from limbeck.core.record import Arm, Record, SplitCard
from limbeck.report import chain, summary
from limbeck.report import figures as n
from limbeck.report import models as m
from limbeck.report.published import markdown_published, table_of
from limbeck.report.table import escape_markdown, full, markdown_table
from limbeck.report.warnings import failure_sentences, warnings

_LOAD = """from transformers import {auto}, AutoTokenizer

name = {name}
tokenizer = AutoTokenizer.from_pretrained(name)
model = {auto}.from_pretrained(name).eval()
"""
_LOAD_COMPRESSED = """import limbeck

model, tokenizer = limbeck.load({name})
model.eval()
"""
_CLASSIFY = """with torch.no_grad():
    logits = model(**tokenizer({texts}, truncation=True, return_tensors="pt")).logits[0]
{read}"""
_READ = {
    "single_label_classification": "print(model.config.id2label[logits.argmax().item()])",
    "multi_label_classification": "print([model.config.id2label[i] for i, p in enumerate(logits.sigmoid().tolist()) "
    "if p > 0.5])",
    "regression": "print(logits.item())",
}
_ANSWER = """question, text = "What is asked?", "A text that holds the answer."
read = tokenizer(question, text, truncation="only_second", return_offsets_mapping=True, return_tensors="pt")
letters = read.pop("offset_mapping")[0]
inside = torch.tensor([side == 1 for side in read.sequence_ids(0)])
with torch.no_grad():
    said = model(**read)
scores = said.start_logits[0][:, None] + said.end_logits[0]
best = scores.masked_fill(~(inside[:, None] & inside).triu(), -torch.inf).argmax().item()
print(text[letters[best // len(inside)][0] : letters[best % len(inside)][1]])"""
_GENERATE = """start = tokenizer("The start of a text", return_tensors="pt", return_token_type_ids=False)
words = model.generate(**start, max_new_tokens=40)
print(tokenizer.decode(words[0], skip_special_tokens=True))"""
_TRANSLATE = """source = tokenizer("a text to translate", return_tensors="pt", return_token_type_ids=False)
length = 2 * source["input_ids"].shape[1] + 16
words = model.generate(**source, num_beams={beam}, max_new_tokens=length)
print(tokenizer.decode(words[0], skip_special_tokens=True))"""
_FILL = """from transformers import pipeline

fill = pipeline("fill-mask", model={name})
for guess in fill(f"a text with one {{fill.tokenizer.mask_token}} left out"):
    print(guess["token_str"], guess["score"])"""
_TAG = """from transformers import pipeline

tag = pipeline("token-classification", model={name}, aggregation_strategy="first")
for found in tag("a text with words to tag"):
    print(found["word"], found["entity_group"], found["score"])"""

_IMAGE = """import limbeck
import numpy as np

model, processor = limbeck.load({name})
image = np.zeros((processor.height, processor.width), dtype=np.uint8)  # grey, 0 is background
logits = model(**processor(image)).logits[0]
print(model.config.id2label[logits.argmax().item()])"""

# The Hub's tag → the model's class, and how to use it; a pipeline needs no class.
_SNIPPETS = {
    "text-classification": ("AutoModelForSequenceClassification", f"import torch\n{_LOAD}{_CLASSIFY}"),
    "image-classification": ("", _IMAGE),
    "fill-mask": ("", _FILL),
    "text-generation": ("AutoModelForCausalLM", f"{_LOAD}{_GENERATE}"),
    "token-classification": ("", _TAG),
    "question-answering": ("AutoModelForQuestionAnswering", f"import torch\n{_LOAD}{_ANSWER}"),
    "translation": ("AutoModelForSeq2SeqLM", f"{_LOAD}{_TRANSLATE}"),
}
_EXPORTED = """import limbeck_runtime  # needs no torch

model = limbeck_runtime.load({path})
print(model.predict(["a text"]))"""
_WITHOUT_TORCH = ("CTranslate2", "ONNX Runtime")
_TRANSLATION_LIMITS = (
    "BLEU and chrF count the words and characters shared with one reference; they mean little for a single sentence.",
    "Nobody has judged these translations by reading them. A translator may leave out what its source says, or invent.",
)


def model_card(record: Record, model_id: str = "") -> str:
    """A card for the student of the record, or for its only model. `model_id` is what from_pretrained is given."""
    subject = m.subject_of(record)
    parts = [
        _front_matter(record, subject),
        f"# {escape_markdown(model_id or record.name)}",
        escape_markdown(summary.headline(record)),
        _serious(record),
        escape_markdown(summary.conclusion(record)),
        _results(record),
        _list(summary.gap_sentences(record)),
        _list(_details(record)),
        _meanings(record, subject),
        f"## Use\n\n```python\n{_snippet(record, model_id)}\n```",
        *_exports(record),
        _training(record, subject) if subject else "",
        *_data_and_limits(record),
    ]
    return _paragraphs(*parts) + "\n"


def comparison_card(record: Record) -> str:
    """What was compared and what came of it; it belongs to no single model."""
    gains, failures = (
        [*summary.gain_sentences(record), *summary.gap_sentences(record)],
        failure_sentences(record),
    )
    parts = [
        f"# {escape_markdown(record.name)}",
        escape_markdown(summary.headline(record)),
        _serious(record),
        escape_markdown(summary.unlabelled(record)),
        _published(record),
        _results(record),
        f"## Against no teacher\n\n{_list(gains)}" if gains else "",
        f"## Came to nothing\n\n{_list(failures)}" if failures else "",
        f"## How\n\nMade by {_code(record.command)}.\n\n{_knobs(record)}".rstrip(),
        *_data_and_limits(record),
    ]
    return _paragraphs(*parts) + "\n"


def _published(record: Record) -> str:
    found = table_of(record)
    if found is None:
        return ""
    named = f"{found.what}; {found.sources}." if found.what else f"{found.sources}."
    return _paragraphs("## Published beside ours", escape_markdown(record.finding), named, markdown_published(found))


def _paragraphs(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {escape_markdown(line)}" for line in lines)


def _serious(record: Record) -> str:
    return "\n>\n".join(f"> **{escape_markdown(one.text)}**" for one in warnings(record) if one.serious)


def _code(text: str) -> str:
    return "`" + " ".join(text.replace("`", "'").split()) + "`"


def _front_matter(record: Record, subject: Arm | None) -> str:
    """YAML; its strings are written as JSON, which YAML reads."""
    names = [name for run in (subject.runs if subject else []) for name in (record.metric, *run.quality)]
    metrics = list(dict.fromkeys(hub for name in names if (hub := n.metric_named(record, name).hub)))
    kind = [record.task.problem_type] if record.task.problem_type else []
    tags = ["limbeck", *(["distillation"] if record.kind == "distill" and n.students_of(record) else []), *kind]
    lines = ["---", "library_name: transformers", f"pipeline_tag: {record.task.tag}"]
    for name, values in (("tags", tags), ("metrics", metrics)):
        lines += [f"{name}:", *(f"- {json.dumps(value)}" for value in values)] if values else []
    return "\n".join([*lines, "---"])


def _results(record: Record) -> str:
    """The table, and how its figures were taken."""
    seeds, speed = ", ".join(map(str, record.seeds)), summary.speed_conditions(record)
    conditions = f"± is one standard deviation over seeds {seeds}. " if len(record.seeds) > 1 else ""
    conditions += f"Speed: {speed}; {record.machine.processor}." if speed else ""
    return f"## Results\n\n{markdown_table([record], full(record))}\n\n{escape_markdown(conditions)}".rstrip()


def _meanings(record: Record, subject: Arm | None) -> str:
    """Every figure of the model, with its meaning."""
    names = dict.fromkeys(name for run in (subject.runs if subject else []) for name in run.quality)
    lines = [
        f"- {metric.title} {n.score(metric, figure.mean, figure.sd)}: {metric.meaning}"
        for metric in (n.metric_named(record, name) for name in names)
        if subject and metric.meaning and (figure := n.quality(subject, metric.name))
    ]
    title = escape_markdown(subject.title) if subject else ""
    return "\n".join([f"“{title}” in figures:\n", *map(escape_markdown, lines)]) if lines else ""


def _snippet(record: Record, model_id: str) -> str:
    """With transformers, which refuses a folder with layers that a pass made; `limbeck.load` opens it."""
    auto, snippet = _SNIPPETS[record.task.tag]
    if record.kind == "compress" and auto:
        snippet = snippet.replace(_LOAD, _LOAD_COMPRESSED)
    return snippet.format(
        auto=auto,
        name=json.dumps(model_id or "path/to/this/folder"),
        texts='"a text", "the text it is compared with"' if "pair" in record.data.columns else '"a text"',
        read=_READ.get(record.task.problem_type, ""),
        beam=n.beam_of([record]) or 1,
    )


def _details(record: Record) -> Iterator[str]:
    """What each pass and export says of itself."""
    for row in m.models(record):
        if told := chain.details(record, row):
            yield f"“{row.title}”: {' · '.join(told)}"


def _exports(record: Record) -> Iterator[str]:
    """Where the same model lies for another engine, its figures there, and how to use the last for ONNX Runtime."""
    metric, in_all, snippet = n.primary(record), m.counted_in_all([record]), ""
    for row in m.models(record):
        artifact, score = m.artifact_of(record, row), n.quality(row, metric.name)
        if artifact is None or artifact.step:
            continue
        figures = [f"{metric.title} {n.score(metric, score.mean, score.sd)}"] if score else []
        figures += [f"{n.megabytes(m.bytes_of(row, in_all))} {'in all' if in_all else 'on disk'}"] if row.size else []
        rate = f"{n.units(record).input}s/s"
        figures += [f"{n.figure(row.speed.sentences_per_second)} {rate}"] if row.speed else []
        light = ", which needs no torch" if artifact.engine in _WITHOUT_TORCH else ""
        came = f": {', '.join(figures)}" if figures else ""
        what = f"a student in {artifact.precision} for {artifact.engine}{light}"
        yield f"The folder {_code(artifact.path)} of the run holds {what}{came}."
        if artifact.engine == "ONNX Runtime":
            snippet = _EXPORTED.format(path=json.dumps(artifact.path))
    yield f"```python\n{snippet}\n```" if snippet else ""


def _training(record: Record, subject: Arm) -> str:
    lines = [f"- shape: {subject.shape.architecture}, {n.shape_text(subject.shape)}"] if subject.shape else []
    if subject.objective:
        lines.append(f"- objective: {_code(subject.objective)}")
    if n.students_of(record) and "teacher" in record.fingerprints:
        lines.append(f"- fingerprint of the teacher: {_code(record.fingerprints['teacher'])}")
    if record.command:
        lines.append(f"- made by: {_code(record.command)}")
    made = f"Limbeck {record.machine.versions.get('limbeck', '')}".strip()
    if record.kind in ("eval", "bench"):
        return _paragraphs(f"## Measuring\n\nMeasured with {made}.", "\n".join(lines), _knobs(record))
    done = "Compressed" if record.kind == "compress" else "Trained"
    return _paragraphs(f"## Training\n\n{done} with {made}.", "\n".join(lines), _knobs(record))


def _knobs(record: Record) -> str:
    knobs = "\n".join(f"{name} = {value}" for name, value in n.flat(record.knobs)).replace("```", "'''")
    return f"<details><summary>All knobs</summary>\n\n```text\n{knobs}\n```\n\n</details>" if knobs else ""


def _data_and_limits(record: Record) -> list[str]:
    parts = [f"## Data\n\n{_data(record)}", f"## Limits\n\n{_limits(record)}"]
    if record.citations:
        entries = "\n\n".join(citation.bibtex for citation in record.citations)
        texts = _list(citation.text for citation in record.citations)
        parts.append(f"## Citations\n\n{texts}\n\n```bibtex\n{entries}\n```")
    return parts


def _data(record: Record) -> str:
    data, unit = record.data, n.units(record)
    lines = [f"- source: {escape_markdown(data.source)}", f"- task: {escape_markdown(record.task.description)}"]
    if data.columns:
        roles = ", ".join(f"{role} from {_code(column)}" for role, column in data.columns.items())
        lines.append(f"- columns: {roles}")
    dropped = ", ".join(f"{n.count(rows)} {escape_markdown(reason)}" for reason, rows in data.dropped.items()) or "none"
    lines.append(
        f"- {unit.source}s read: {n.count(data.read)}; dropped: {dropped}; "
        f"repeated {unit.repeated}s, kept: {n.count(data.duplicates)}"
    )
    lines += [f"- {escape_markdown(one.sentence)}" for one in data.sources]
    if data.splits:
        splits = (f"{escape_markdown(name)} {_counts(record, split)}" for name, split in data.splits.items())
        lines.append("- splits: " + ", ".join(splits))
    if length := n.block_length(record):
        lines.append(f"- a test block has {n.plural(length, 'token')} on average")
    return "\n".join([*lines, *(f"- {escape_markdown(note)}" for note in data.notes)])


def _counts(record: Record, split: SplitCard) -> str:
    if not n.in_blocks(record):
        return n.count(split.rows)
    return f"{n.plural(split.rows, 'block')} ({n.plural(split.labelled, 'token')})"


def _limits(record: Record) -> str:
    limits = [
        *dict.fromkeys([*(one.text for one in warnings(record)), *summary.caveats(record)]),
        *record.notes,
        f"Measured on {'the file' if record.kind == 'eval' else 'the test split'} named above; "
        f"{n.units(record).untried} were not tried.",
    ]
    if n.students_of(record) and record.kind != "eval":
        limits.append("The student learned from the teacher, and repeats the teacher’s biases.")
    if n.units(record).decoded:
        limits += _TRANSLATION_LIMITS
    return _list(limits)
