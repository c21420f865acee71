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
from limbeck.core.fingerprint import fingerprint, tokenizer_fingerprint, tokenizers_equal
from limbeck.core.task import TaskInfo
from limbeck.students.load import kind_of, kind_saved, load, load_saved
from limbeck.students.model_folder import find_folder, quiet
from limbeck.students.sizes import clip_max_length, shape_of
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
    model, words = load(folder, "", TASK)
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
        "text": "",
    }


def test_half_precision_is_opened_in_float32(folder: Path) -> None:
    with quiet():
        classifier("bert").half().save_pretrained(folder)
    model, _ = load(str(folder), "")
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_sharded_weights_open_and_a_missing_shard_is_named(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with quiet():
        classifier("bert").save_pretrained(folder, max_shard_size="40KB")
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 1
    assert torch.equal(logits(load(folder, "")[0]), logits(classifier("bert")))
    shards[1].unlink()
    with pytest.raises(ModelError, match=shards[1].name):
        load(folder, "")


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
        (_config(model_type="clip"), "no text-classification head"),
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
    for attempt in (lambda: load(folder, ""), lambda: load(folder, TASK.kind, TASK, new_head=True)):
        with pytest.raises(ModelError, match=message) as refusal:
            attempt()
        assert refusal.value.remedy


def test_wrong_paths_are_refused_with_the_closest(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"did you mean {folder}"):
        load(tmp_path / "teachr", "")
    with pytest.raises(ModelError, match=f"no config.json(.|\n)*did you mean {folder}"):
        load(tmp_path, "")
    with pytest.raises(ModelError, match="is a file, not a model folder"):
        load(folder / "config.json", "")
    with pytest.raises(ModelError, match="no hub model can have that name"):
        load("my model", "")


def test_a_hub_name_without_the_hub_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match=r"hub cannot be reached(.|\n)*local model folder"):
        load("somebody/some-model", "")


def test_a_bare_encoder_is_no_teacher(encoder: Path) -> None:
    with pytest.raises(ModelError, match=r"has no text-classification head(.|\n)*limbeck train"):
        load(encoder, "")


def test_a_head_of_another_size_than_the_config_says_is_refused(folder: Path) -> None:
    _config(id2label={"0": "no", "1": "yes"})(folder)
    with pytest.raises(ModelError, match=r"such as classifier\.bias"):
        load(folder, "")


def test_the_task_must_be_the_teachers(folder: Path) -> None:
    with pytest.raises(MismatchError, match=r"3 outputs .*the data is 2 classes"):
        load(folder, "", TWO)
    with pytest.raises(MismatchError, match="has the labels bad, fair, good; the data has good, fair, bad"):
        load(folder, "", TaskInfo(kind="classify", labels=("good", "fair", "bad")))
    with pytest.raises(MismatchError, match="single_label"):
        load(folder, "", TaskInfo(kind="multilabel", labels=TASK.labels))


def test_unnamed_classes_take_the_tasks_names(folder: Path) -> None:
    _config(id2label={str(number): f"LABEL_{number}" for number in range(3)}, problem_type=None)(folder)
    model, _ = load(folder, "", TASK)
    assert model.config.id2label == LABELS
    assert model.config.problem_type == "single_label_classification"


@pytest.mark.parametrize(
    "task",
    [TWO, TaskInfo(kind="multilabel", labels=("a", "b", "c", "d")), TaskInfo(kind="regress")],
    ids=lambda task: task.kind,
)
def test_an_encoder_gets_a_head_for_the_task(encoder: Path, task: TaskInfo) -> None:
    torch.manual_seed(3)
    model, _ = load(encoder, task.kind, task, new_head=True)
    torch.manual_seed(3)
    again, _ = load(encoder, task.kind, task, new_head=True)
    assert logits(model).shape == (3, task.outputs)
    assert model.config.problem_type == task.problem_type
    assert tuple(model.config.id2label.values()) == (task.labels or ("score",))
    assert torch.equal(model.bert.pooler.dense.weight, classifier("bert").bert.pooler.dense.weight)
    assert fingerprint(model) == fingerprint(again)


def test_a_classifier_of_other_labels_gets_a_fresh_head_and_one_of_the_same_keeps_it(folder: Path) -> None:
    old = classifier("bert").classifier.weight
    same, _ = load(folder, TASK.kind, TASK, new_head=True)
    assert torch.equal(same.classifier.weight, old)
    other, _ = load(folder, "classify", TaskInfo(kind="classify", labels=("x", "y", "z")), new_head=True)
    assert not torch.equal(other.classifier.weight, old)
    fewer, _ = load(folder, TWO.kind, TWO, new_head=True)
    assert fewer.classifier.weight.shape == (2, 32)
    assert torch.equal(fewer.bert.embeddings.word_embeddings.weight, same.bert.embeddings.word_embeddings.weight)


def test_an_encoder_saved_without_its_pooler_can_be_fine_tuned(tmp_path: Path) -> None:
    with quiet():
        hf.BertForMaskedLM(classifier("bert").config).save_pretrained(tmp_path)
        tokenizer(tmp_path).save_pretrained(tmp_path)
    model, _ = load(tmp_path, TWO.kind, TWO, new_head=True)
    assert torch.isfinite(logits(model)).all()
    with pytest.raises(ModelError, match="has no text-classification head"):
        load(tmp_path, "")


def test_fingerprints_follow_the_answers(folder: Path, tmp_path: Path) -> None:
    model, _ = load(folder, "")
    name = fingerprint(model)
    assert len(name) == 16
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    _config(id2label={str(number): f"class {number}" for number in range(3)})(copy)
    assert fingerprint(load(copy, "")[0]) == name  # a name is no answer
    _config(layer_norm_eps=1e-5)(copy)
    assert fingerprint(load(copy, "")[0]) != name
    with torch.no_grad():
        weight = model.classifier.bias
        weight[0] = torch.nextafter(weight[0], torch.tensor(9.0))
    assert fingerprint(model) != name
    assert fingerprint(model.bfloat16()) != name


def test_tokenizer_fingerprints_ignore_padding_and_see_the_rules(folder: Path, tmp_path: Path) -> None:
    _, words = load(folder, "")
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
    model, found = load(folder, "")
    assert found.model_max_length == model.config.max_position_embeddings
    assert len(found("word " * 10_000, truncation=True)["input_ids"]) == found.model_max_length


def test_the_limit_of_a_tokenizer_in_hand_is_set_on_a_copy(folder: Path) -> None:
    model, mine = load(folder, "")
    mine.model_max_length = 10**9
    assert clip_max_length(mine, model).model_max_length == model.config.max_position_embeddings
    assert mine.model_max_length == 10**9


KINDS = {
    "classify": "BertForSequenceClassification",
    "tag": "BertForTokenClassification",
    "answer": "BertForQuestionAnswering",
    "mask-fill": "BertForMaskedLM",
    "generate": "BertLMHeadModel",
    "translate": "MarianMTModel",
}


@pytest.mark.parametrize("kind", ["", "multilabel", "regress", *KINDS])
def test_code_in_a_folder_is_refused_unless_asked_for(folder: Path, kind: str) -> None:
    _config(model_type="mine", auto_map={"AutoConfig": "mine.Config"})(folder)
    (folder / "mine.py").write_text("raise SystemExit('its code ran')")
    for attempt in (lambda: load(folder, kind, TASK), lambda: load(folder, kind, TASK, new_head=True)):
        with pytest.raises(ModelError, match=r"cannot be opened(.|\n)*--trust-remote-code"):
            attempt()
    for attempt in (lambda: load_saved(folder), lambda: kind_saved(folder)):
        with pytest.raises(ModelError, match="--trust-remote-code"):
            attempt()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, kind if kind != "classify" else None) for kind, name in KINDS.items()),
        ("BertForPreTraining", "mask-fill"),
        ("SharedBertForMaskedLM", "mask-fill"),
        ("GPT2LMHeadModel", "generate"),
        ("Qwen3ForCausalLM", "generate"),
        ("T5ForConditionalGeneration", "translate"),
        ("BertModel", None),
    ],
)
def test_the_kind_of_a_saved_model_follows_from_its_head(folder: Path, name: str, kind: str | None) -> None:
    _config(architectures=[name])(folder)
    assert kind_saved(folder) == kind
    network = type(name, (hf.BertModel,), {})(classifier("bert").config)
    assert kind_of(network) == (kind or "classify")  # its config names a problem type


def test_a_saved_model_opens_with_its_own_head(folder: Path) -> None:
    with quiet():
        hf.BertForPreTraining(classifier("bert").config).save_pretrained(folder)
    assert type(load_saved(folder)[0]) is hf.BertForMaskedLM
    with quiet():
        classifier("bert").save_pretrained(folder)
    assert torch.equal(logits(load_saved(folder)[0]), logits(classifier("bert")))


def test_a_new_head_needs_to_know_its_labels(folder: Path) -> None:
    with pytest.raises(ValueError, match="TaskInfo"):
        load(folder, "classify", new_head=True)


def test_the_folder_of_a_run_stands_for_its_model(teacher_folder, tmp_path):
    for name, files in {"small": ["student"], "taught": ["model"], "both": ["student", "model"]}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.toml").touch()
        for model in files:
            (tmp_path / name / model).symlink_to(teacher_folder)
        assert find_folder(tmp_path / name) == tmp_path / name / files[0]
    assert load_saved(tmp_path / "small")[0].num_parameters() == load_saved(teacher_folder)[0].num_parameters()
    assert find_folder(teacher_folder) == teacher_folder


def test_a_run_without_its_one_model_is_refused(tmp_path):
    (tmp_path / "run.toml").touch()
    with pytest.raises(ModelError, match=r"holds an unfinished run\n.*--resume"):
        load_saved(tmp_path)
    (tmp_path / "record.json").touch()
    (tmp_path / "arms" / "hinton-seed0" / "model").mkdir(parents=True)
    with pytest.raises(ModelError, match=r"a comparison of several models\n.*arms/hinton-seed0/model"):
        load_saved(tmp_path)
