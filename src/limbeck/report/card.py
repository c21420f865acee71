"""The model card: Markdown that goes beside the weights, and the table of models for a README."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from limbeck.core.metric import metric_of
from limbeck.core.record import Arm, Record, SplitCard
from limbeck.report import numbers as n
from limbeck.report.columns import brief, columns, full
from limbeck.report.gains import failure_text, gain_sentences, together
from limbeck.report.models import models, primary
from limbeck.report.sections import flat
from limbeck.report.summary import caveats, conclusion, headline, quality, speed_conditions, students_of, subject_of
from limbeck.report.units import beam_of, block_length, in_blocks, layers, units
from limbeck.report.writers import sentences

_READ = {
    "single_label_classification": "print(model.config.id2label[logits.argmax().item()])",
    "multi_label_classification": "print([model.config.id2label[i] for i, p in enumerate(logits.sigmoid().tolist()) "
    "if p > 0.5])",
    "regression": "print(logits.item())",
}
_SCORE = """import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

name = {name}
tokenizer = AutoTokenizer.from_pretrained(name)
model = AutoModelForSequenceClassification.from_pretrained(name).eval()
with torch.no_grad():
    logits = model(**tokenizer({texts}, truncation=True, return_tensors="pt")).logits[0]
{read}"""
_FILL = """from transformers import pipeline

fill = pipeline("fill-mask", model={name})
for guess in fill(f"a text with one {{fill.tokenizer.mask_token}} left out"):
    print(guess["token_str"], guess["score"])"""
_TAG = """from transformers import pipeline

tag = pipeline("token-classification", model={name}, aggregation_strategy="first")
for found in tag("a text with words to tag"):
    print(found["word"], found["entity_group"], found["score"])"""
_ANSWER = """import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

name = {name}
tokenizer = AutoTokenizer.from_pretrained(name)
model = AutoModelForQuestionAnswering.from_pretrained(name).eval()
question, text = "What is asked?", "A text that holds the answer."
read = tokenizer(question, text, truncation="only_second", return_offsets_mapping=True, return_tensors="pt")
letters = read.pop("offset_mapping")[0]
inside = torch.tensor([side == 1 for side in read.sequence_ids(0)])
with torch.no_grad():
    said = model(**read)
scores = said.start_logits[0][:, None] + said.end_logits[0]
best = scores.masked_fill(~(inside[:, None] & inside).triu(), -torch.inf).argmax().item()
print(text[letters[best // len(inside)][0] : letters[best % len(inside)][1]])"""
_GENERATE = """from transformers import AutoModelForCausalLM, AutoTokenizer

name = {name}
tokenizer = AutoTokenizer.from_pretrained(name)
model = AutoModelForCausalLM.from_pretrained(name).eval()
start = tokenizer("The start of a text", return_tensors="pt", return_token_type_ids=False)
words = model.generate(**start, max_new_tokens=40)
print(tokenizer.decode(words[0], skip_special_tokens=True))"""
_TRANSLATE = """from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

name = {name}
tokenizer = AutoTokenizer.from_pretrained(name)
model = AutoModelForSeq2SeqLM.from_pretrained(name).eval()
source = tokenizer("a text to translate", return_tensors="pt", return_token_type_ids=False)
length = 2 * source["input_ids"].shape[1] + 16
words = model.generate(**source, num_beams={beam}, max_new_tokens=length)
print(tokenizer.decode(words[0], skip_special_tokens=True))"""

_SNIPPETS = {
    "text-classification": _SCORE,
    "fill-mask": _FILL,
    "text-generation": _GENERATE,
    "token-classification": _TAG,
    "question-answering": _ANSWER,
    "translation": _TRANSLATE,
}
_WITHOUT_TORCH = ("CTranslate2", "ONNX Runtime")


_TRANSLATION_LIMITS = (
    "BLEU and chrF count the words and characters shared with one reference; they mean little for a single sentence.",
    "Nobody has judged these translations by reading them. A translator may leave out what its source says, or invent.",
)


def model_card(record: Record, model_id: str = "") -> str:
    """A card for the student of the record, or for its only model. `model_id` is what from_pretrained is given."""
    subject = subject_of(record)
    parts = [
        _front_matter(record, subject),
        f"# {_plain(model_id or record.name)}",
        _plain(headline(record)),
        _plain(conclusion(record)),
        f"## Results\n\n{markdown_table([record], full(record))}\n\n{_conditions(record)}".rstrip(),
        _list(sentences(record)),
        _meanings(record, subject),
        f"## Use\n\n```python\n{_snippet(record, model_id)}\n```",
        *_artifacts(record),
        *_training(record, subject),
        f"## Data\n\n{_data(record)}",
        f"## Limits\n\n{_limits(record)}",
        *_citations(record),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def comparison_card(record: Record) -> str:
    """What was compared and what came of it; it belongs to no single model."""
    said = [*gain_sentences(record), *filter(None, [together(record)]), *sentences(record)]
    failed = [failure_text(record, failure) for failure in record.failed]
    parts = [
        f"# {_plain(record.name)}",
        _plain(headline(record)),
        f"## Results\n\n{markdown_table([record], full(record))}\n\n{_conditions(record)}".rstrip(),
        f"## Against no teacher\n\n{_list(said)}" if said else "",
        f"## Came to nothing\n\n{_list(failed)}" if failed else "",
        f"## How\n\nMade by {_code(record.command)}.\n\n{_knobs(record)}".rstrip(),
        f"## Data\n\n{_data(record)}",
        f"## Limits\n\n{_limits(record)}",
        *_citations(record),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {_plain(line)}" for line in lines)


def markdown_table(records: Sequence[Record], keys: Sequence[str] = ()) -> str:
    """One row for each model of each record, with the columns of these keys or those that a README has room for."""
    many = len(records) > 1
    shown = columns(records, keys or brief(records))
    heads = [*(["run"] if many else []), "model", *(column.title for column in shown)]
    rules = ["---"] * (len(heads) - len(shown)) + ["---:"] * len(shown)
    rows = [
        [*([record.name] if many else []), arm.title, *(column.cell(record, arm).text for column in shown)]
        for record in records
        for arm in models(record)
    ]
    return "\n".join("| " + " | ".join(map(_cell, row)) + " |" for row in (heads, rules, *rows))


def _cell(text: str) -> str:
    return text if text.startswith("---") else _plain(text).replace("|", "\\|")


def _plain(text: str) -> str:
    """Text from outside as Markdown that means only itself: no tags, no emphasis, one line."""
    for sign in "\\`*_[]<":
        text = text.replace(sign, f"\\{sign}" if sign != "<" else "&lt;")
    return " ".join(text.split(" ")).replace("\r", " ").replace("\n", " ")


def _front_matter(record: Record, subject: Arm | None) -> str:
    """YAML; its strings are written as JSON, which YAML reads."""
    found = [name for run in (subject.runs if subject else []) for name in (record.metric, *run.quality)]
    metrics = list(dict.fromkeys(hub for name in found if (hub := metric_of(record.task, name).hub)))
    kind = [record.task.problem_type] if record.task.problem_type else []
    tags = ["limbeck", *(["distillation"] if record.kind == "distill" else []), *kind]
    lines = ["---", "library_name: transformers", f"pipeline_tag: {record.task.tag}"]
    for name, values in (("tags", tags), ("metrics", metrics)):
        lines += [f"{name}:", *(f"- {json.dumps(value)}" for value in values)] if values else []
    return "\n".join([*lines, "---"])


def _conditions(record: Record) -> str:
    over = (
        f"± is one standard deviation over seeds {', '.join(map(str, record.seeds))}. " if len(record.seeds) > 1 else ""
    )
    speed = speed_conditions(record)
    return _plain(over + (f"Speed: {speed}; {record.machine.processor}." if speed else ""))


def _meanings(record: Record, subject: Arm | None) -> str:
    """Every figure of the model, with its meaning."""
    names = dict.fromkeys(name for run in (subject.runs if subject else []) for name in run.quality)
    metrics = [metric_of(record.task, name) for name in names]
    lines = [
        f"- {metric.title} {n.score_with_sd(metric, figure.mean, figure.sd)}: {metric.meaning}"
        for metric in metrics
        if subject and metric.meaning and (figure := quality(subject, metric.name))
    ]
    return "\n".join([f"“{_plain(subject.title)}” in figures:\n", *map(_plain, lines)]) if subject and lines else ""


def _snippet(record: Record, model_id: str) -> str:
    name = json.dumps(model_id or "path/to/this/folder")
    texts = '"a text", "the text it is compared with"' if "pair" in record.data.columns else '"a text"'
    read = _READ.get(record.task.problem_type, "")
    return _SNIPPETS[record.task.tag].format(name=name, texts=texts, read=read, beam=beam_of([record]) or 1)


def _artifacts(record: Record) -> Iterator[str]:
    """Where the same student lies for another engine, and its figures there."""
    metric = primary(record)
    for artifact in record.artifacts:
        found = artifact.quality.get(metric.name)
        facts = [f"{metric.title} {n.score(metric, found)}"] if found is not None else []
        facts += [f"{n.megabytes(artifact.size.bytes_on_disk)} on disk"] if artifact.size else []
        rate = f"{record.task.units.input}s/s"
        facts += [f"{n.figure(artifact.speed.sentences_per_second)} {rate}"] if artifact.speed else []
        light = ", which needs no torch" if artifact.engine in _WITHOUT_TORCH else ""
        came = f": {', '.join(facts)}" if facts else ""
        what = f"a student in {artifact.precision} for {artifact.engine}{light}"
        yield f"The folder {_code(artifact.path)} of the run holds {what}{came}."


def _training(record: Record, subject: Arm | None) -> Iterator[str]:
    if subject is None:
        return
    lines = []
    if subject.shape:
        s = subject.shape
        lines.append(
            f"- shape: {s.architecture}, {layers(s)} × {s.hidden}, {n.plural(s.heads, 'head')}, "
            f"feed-forward {s.feed_forward}"
        )
    if subject.objective:
        lines.append(f"- objective: {_code(subject.objective)}")
    if students_of(record) and "teacher" in record.fingerprints:
        lines.append(f"- fingerprint of the teacher: {_code(record.fingerprints['teacher'])}")
    if record.command:
        lines.append(f"- made by: {_code(record.command)}")
    folded = _knobs(record)
    made = f"Limbeck {record.machine.versions.get('limbeck', '')}".strip()
    yield "\n\n".join(part for part in (f"## Training\n\nTrained with {made}.", "\n".join(lines), folded) if part)


def _knobs(record: Record) -> str:
    knobs = "\n".join(f"{name} = {value}" for name, value in flat(record.knobs)).replace("```", "'''")
    return f"<details><summary>All knobs</summary>\n\n```text\n{knobs}\n```\n\n</details>" if knobs else ""


def _code(text: str) -> str:
    return "`" + " ".join(text.replace("`", "'").split()) + "`"


def _data(record: Record) -> str:
    d, unit = record.data, units(record)
    lines = [f"- source: {_plain(d.source)}", f"- task: {_plain(str(record.task))}"]
    if d.columns:
        roles = ", ".join(f"{role} from {_code(column)}" for role, column in d.columns.items())
        lines.append(f"- columns: {roles}")
    dropped = ", ".join(f"{n.count(rows)} {_plain(reason)}" for reason, rows in d.dropped.items()) or "none"
    lines.append(
        f"- {unit.source}s read: {n.count(d.read)}; dropped: {dropped}; "
        f"repeated {unit.repeated}s, kept: {n.count(d.duplicates)}"
    )
    if d.splits:
        lines.append("- splits: " + ", ".join(f"{_plain(name)} {_counts(record, s)}" for name, s in d.splits.items()))
    if length := block_length(record):
        lines.append(f"- a test block has {n.plural(length, 'token')} on average")
    return "\n".join([*lines, *(f"- {_plain(note)}" for note in d.notes)])


def _counts(record: Record, split: SplitCard) -> str:
    if not in_blocks(record):
        return n.count(split.rows)
    return f"{n.plural(split.rows, 'block')} ({n.plural(split.labelled, 'token')})"


def _limits(record: Record) -> str:
    known = [
        *caveats(record),
        *record.notes,
        "Measured on the test split named above; other texts, other languages and other lengths were not tried.",
    ]
    if students_of(record):
        known.append("The student learned from the teacher, and repeats the teacher’s biases.")
    if record.task.units.decoded:
        known += _TRANSLATION_LIMITS
    return _list(known)


def _citations(record: Record) -> Iterator[str]:
    if record.citations:
        texts = "\n".join(f"- {_plain(c.text)}" for c in record.citations)
        entries = "\n\n".join(c.bibtex for c in record.citations)
        yield f"## Citations\n\n{texts}\n\n```bibtex\n{entries}\n```"
