"""Opening models: the good ones as they were saved, the bad ones refused by name with the remedy."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import huggingface_hub.constants
import pytest
import torch
import transformers as hf

from limbeck.core.errors import MismatchError, ModelError
from limbeck.core.task import TaskInfo
from limbeck.students.open import (
    fingerprint,
    open_classifier,
    open_encoder,
    quiet,
    shape_of,
    tokenizer_fingerprint,
    tokenizers_equal,
)
from limbeck.students.sizes import fitting
from students.tiny_encoders import LABELS, classifier, logits, tokenizer

TASK = TaskInfo(kind="classify", labels=tuple(LABELS.values()))
TWO = TaskInfo(kind="classify", labels=("no", "yes"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole classifier: BERT, three classes, with its tokenizer."""
    where = tmp_path / "teacher"
    with quiet():
        classifier("bert").save_pretrained(where)
        tokenizer(where).save_pretrained(where)
    return where


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    where = tmp_path / "encoder"
    with quiet():
        classifier("bert").bert.save_pretrained(where)
        tokenizer(where).save_pretrained(where)
    return where


def test_a_classifier_opens_as_it_was_saved_and_quietly(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    verbosity, bars = hf.logging.get_verbosity(), hf.logging.is_progress_bar_enabled()
    model, words = open_classifier(folder, task=TASK)
    assert torch.equal(logits(model), logits(classifier("bert")))
    assert not model.training
    assert words("word3 word4")["input_ids"] == [2, 8, 9, 3]
    assert capfd.readouterr() == ("", "")
    assert (hf.logging.get_verbosity(), hf.logging.is_progress_bar_enabled()) == (verbosity, bars)
    assert shape_of(model).model_dump() == {
        "architecture": "bert",
        "layers": 4,
        "hidden": 32,
        "heads": 4,
        "feed_forward": 64,
        "decoder_layers": 0,
    }


def test_half_precision_is_opened_in_float32(folder: Path) -> None:
    with quiet():
        classifier("bert").half().save_pretrained(folder)
    model, _ = open_classifier(str(folder))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_sharded_weights_open_and_a_missing_shard_is_named(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with quiet():
        classifier("bert").save_pretrained(folder, max_shard_size="40KB")
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 1
    assert torch.equal(logits(open_classifier(folder)[0]), logits(classifier("bert")))
    shards[1].unlink()
    with pytest.raises(ModelError, match=shards[1].name):
        open_classifier(folder)


def _cut_weights(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])


def _cut_header(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:50])


def _pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _no_tokenizer(folder: Path) -> None:
    for name in ("tokenizer.json", "vocab.txt"):
        (folder / name).unlink(missing_ok=True)


def _config(**changes: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **changes}))

    return change


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "model.safetensors").write_bytes(b""), "model.safetensors is empty"),
        (_cut_weights, r"model.safetensors is cut off: [\d,]+ bytes of"),
        (_cut_header, "model.safetensors is cut off or not a safetensors"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"abc"), "model.safetensors is cut off"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\x02" + 7 * b"\0" + b"{["), "header"),
        (lambda folder: (folder / "model.safetensors").unlink(), "has no weights"),
        (lambda folder: (folder / "config.json").unlink(), "no config.json"),
        (lambda folder: (folder / "config.json").write_text('{"model_type": "be'), "config.json is damaged"),
        (lambda folder: (folder / "config.json").write_text("[]"), "config.json is not a model config"),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), "tokenizer in .* cannot be opened"),
        (_pickle, "pytorch_model.bin is a pickle(.|\n)*convert"),
        (_no_tokenizer, "no tokenizer files(.|\n)*tokenizer.save_pretrained"),
        (_config(model_type="brandnew"), "cannot be opened(.|\n)*upgrade"),
        (_config(model_type="clip"), "no text classifier"),
        (
            _config(model_type="mine", auto_map={"AutoConfig": "mine.Config"}),
            "cannot be opened(.|\n)*--trust-remote-code",
        ),
        (_config(num_hidden_layers=5), "lacks 16 weights"),
        (_config(hidden_size=64), "lacks 6. weights"),
    ],
)
def test_bad_folders_are_refused(folder: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(folder)
    for attempt in (lambda: open_classifier(folder), lambda: open_encoder(folder, TASK)):
        with pytest.raises(ModelError, match=message) as refusal:
            attempt()
        assert refusal.value.remedy


def test_wrong_paths_are_refused_with_the_closest(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"did you mean {folder}"):
        open_classifier(tmp_path / "teachr")
    with pytest.raises(ModelError, match=f"no config.json(.|\n)*did you mean {folder}"):
        open_classifier(tmp_path)
    with pytest.raises(ModelError, match="is a file, not a model folder"):
        open_classifier(folder / "config.json")
    with pytest.raises(ModelError, match="no hub model can have that name"):
        open_classifier("my model")


def test_a_hub_name_without_the_hub_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match=r"hub cannot be reached(.|\n)*local model folder"):
        open_classifier("somebody/some-model")


def test_a_bare_encoder_is_no_teacher(encoder: Path) -> None:
    with pytest.raises(ModelError, match=r"bare encoder(.|\n)*limbeck train"):
        open_classifier(encoder)


def test_a_head_of_another_size_than_the_config_says_is_refused(folder: Path) -> None:
    _config(id2label={"0": "no", "1": "yes"})(folder)
    with pytest.raises(ModelError, match=r"such as classifier\.bias"):
        open_classifier(folder)


def test_the_task_must_be_the_teachers(folder: Path) -> None:
    with pytest.raises(MismatchError, match=r"3 outputs .*the data is 2 classes"):
        open_classifier(folder, task=TWO)
    with pytest.raises(MismatchError, match="answers with bad, fair, good; the data has good, fair, bad"):
        open_classifier(folder, task=TaskInfo(kind="classify", labels=("good", "fair", "bad")))
    with pytest.raises(MismatchError, match="single_label"):
        open_classifier(folder, task=TaskInfo(kind="multilabel", labels=TASK.labels))


def test_unnamed_classes_take_the_tasks_names(folder: Path) -> None:
    _config(id2label={str(number): f"LABEL_{number}" for number in range(3)}, problem_type=None)(folder)
    model, _ = open_classifier(folder, task=TASK)
    assert model.config.id2label == LABELS
    assert model.config.problem_type == "single_label_classification"


@pytest.mark.parametrize(
    "task",
    [TWO, TaskInfo(kind="multilabel", labels=("a", "b", "c", "d")), TaskInfo(kind="regress")],
    ids=lambda task: task.kind,
)
def test_an_encoder_gets_a_head_for_the_task(encoder: Path, task: TaskInfo) -> None:
    torch.manual_seed(3)
    model, _ = open_encoder(encoder, task)
    torch.manual_seed(3)
    again, _ = open_encoder(encoder, task)
    assert logits(model).shape == (3, task.outputs)
    assert model.config.problem_type == task.problem_type
    assert tuple(model.config.id2label.values()) == (task.labels or ("score",))
    assert torch.equal(model.bert.pooler.dense.weight, classifier("bert").bert.pooler.dense.weight)
    assert fingerprint(model) == fingerprint(again)


def test_a_classifier_of_other_labels_gets_a_fresh_head_and_one_of_the_same_keeps_it(folder: Path) -> None:
    old = classifier("bert").classifier.weight
    same, _ = open_encoder(folder, TASK)
    assert torch.equal(same.classifier.weight, old)
    other, _ = open_encoder(folder, TaskInfo(kind="classify", labels=("x", "y", "z")))
    assert not torch.equal(other.classifier.weight, old)
    fewer, _ = open_encoder(folder, TWO)
    assert fewer.classifier.weight.shape == (2, 32)
    assert torch.equal(fewer.bert.embeddings.word_embeddings.weight, same.bert.embeddings.word_embeddings.weight)


def test_an_encoder_saved_without_its_pooler_can_be_fine_tuned(tmp_path: Path) -> None:
    with quiet():
        hf.BertForMaskedLM(classifier("bert").config).save_pretrained(tmp_path)
        tokenizer(tmp_path).save_pretrained(tmp_path)
    model, _ = open_encoder(tmp_path, TWO)
    assert torch.isfinite(logits(model)).all()
    with pytest.raises(ModelError, match="bare encoder"):
        open_classifier(tmp_path)


def test_fingerprints_follow_the_answers(folder: Path, tmp_path: Path) -> None:
    model, _ = open_classifier(folder)
    name = fingerprint(model)
    assert len(name) == 16
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    _config(id2label={str(number): f"class {number}" for number in range(3)})(copy)
    assert fingerprint(open_classifier(copy)[0]) == name  # a name is no answer
    _config(layer_norm_eps=1e-5)(copy)
    assert fingerprint(open_classifier(copy)[0]) != name
    with torch.no_grad():
        weight = model.classifier.bias
        weight[0] = torch.nextafter(weight[0], torch.tensor(9.0))
    assert fingerprint(model) != name
    assert fingerprint(model.bfloat16()) != name


def test_tokenizer_fingerprints_ignore_padding_and_see_the_rules(folder: Path, tmp_path: Path) -> None:
    _, words = open_classifier(folder)
    name = tokenizer_fingerprint(words)
    words(["word1", "word2 word3"], padding="max_length", truncation=True, max_length=9)
    assert tokenizer_fingerprint(words) == name
    assert tokenizers_equal(words, tokenizer(tmp_path / "same"))
    cased = hf.BertTokenizerFast(vocab=str(folder / "vocab.txt"), do_lower_case=False)
    assert not tokenizers_equal(words, cased)
    words.add_tokens(["word95"])
    assert tokenizer_fingerprint(words) != name


def test_quiet_restores_what_it_found_after_an_error() -> None:
    def fail() -> None:
        with quiet():
            warnings.warn("not seen", stacklevel=1)
            raise KeyError

    hf.logging.set_verbosity_info()
    try:
        with pytest.raises(KeyError):
            fail()
        assert hf.logging.get_verbosity() == hf.logging.INFO
        assert hf.logging.is_progress_bar_enabled()
    finally:
        hf.logging.set_verbosity_warning()


def test_a_tokenizer_without_a_limit_takes_its_models(folder: Path) -> None:
    config = folder / "tokenizer_config.json"
    said = json.loads(config.read_text())
    config.write_text(json.dumps({name: value for name, value in said.items() if name != "model_max_length"}))
    model, found = open_classifier(folder)
    assert found.model_max_length == model.config.max_position_embeddings
    assert len(found("word " * 10_000, truncation=True)["input_ids"]) == found.model_max_length


def test_the_limit_of_a_tokenizer_in_hand_is_set_on_a_copy(folder: Path) -> None:
    model, mine = open_classifier(folder)
    mine.model_max_length = 10**9
    assert fitting(mine, model).model_max_length == model.config.max_position_embeddings
    assert mine.model_max_length == 10**9
