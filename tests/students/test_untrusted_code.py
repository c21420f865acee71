"""Code that lies beside a model runs only if a person said so, whoever opens the folder."""

import json
import shutil
import sys

import pytest
import transformers.dynamic_module_utils as dynamic

from limbeck.core.task import TaskInfo
from limbeck.students.load import kind_saved, load, load_saved
from running import limbeck
from tiny import make_classifier, make_tokenizer
from tiny_language import byte_level, make_causal, make_masked
from tiny_places import TAGS, make_reader, make_tagger
from tiny_reverser import make_marian
from tiny_reverser import make_tokenizer as make_words

TWO = TaskInfo(kind="classify", labels=("negative", "positive"))
TAG = TaskInfo(kind="tag", labels=TAGS)
HEADS = (
    *("SequenceClassification", "TokenClassification", "QuestionAnswering", "PreTraining"),
    *("MaskedLM", "CausalLM", "Seq2SeqLM"),
)
MODELS = {
    "classifier": lambda: (make_classifier(layers=1), make_tokenizer()),
    "tagger": lambda: (make_tagger(layers=1), make_tokenizer()),
    "reader": lambda: (make_reader(layers=1), make_tokenizer()),
    "masked": lambda: (make_masked(layers=1), make_tokenizer()),
    "pairs": lambda: (make_masked(layers=1, pairs=True), make_tokenizer()),
    "causal": lambda: (make_causal(byte_level(), layers=1), byte_level()),
    "translator": lambda: (make_marian(), make_words()),
}
OPENERS = {
    "classifier": ("classifier", lambda where: load(where, "")),
    "classifier of a task": ("classifier", lambda where: load(where, "", TWO)),
    "encoder": ("classifier", lambda where: load(where, TWO.kind, TWO, new_head=True)),
    "tagger": ("tagger", lambda where: load(where, "tag")),
    "new tagger": ("classifier", lambda where: load(where, "tag", TAG, new_head=True)),
    "reader": ("reader", lambda where: load(where, "answer")),
    "new reader": ("classifier", lambda where: load(where, "answer", new_head=True)),
    "masked": ("masked", lambda where: load(where, "mask-fill")),
    "pairs": ("pairs", lambda where: load(where, "mask-fill", next_sentence=True)),
    "causal": ("causal", lambda where: load(where, "generate")),
    "translator": ("translator", lambda where: load(where, "translate")),
    **{f"saved {name}": (name, load_saved) for name in MODELS if name != "pairs"},
    "kind": ("classifier", kind_saved),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Folders of every kind of model, each written once."""
    place, done = tmp_path_factory.mktemp("saved"), {}

    def get(kind):
        if kind not in done:
            done[kind] = place / kind
            for part in MODELS[kind]():
                part.save_pretrained(done[kind])
        return done[kind]

    return get


@pytest.fixture
def planted(saved, tmp_path, monkeypatch):
    """Beside a plain model a module that every auto class is sent to, and the file that it writes once it runs."""
    monkeypatch.setattr(dynamic, "HF_MODULES_CACHE", str(tmp_path / "modules"))  # where it would be copied to
    monkeypatch.setattr(sys, "path", [*sys.path])

    def plant(kind, where):
        folder, marker = tmp_path / tmp_path.name, tmp_path / "it-ran"  # a module that was loaded before is not again
        shutil.copytree(saved(kind), folder)
        (folder / "planted.py").write_text(
            f"open({str(marker)!r}, 'w').close()\nclass Config: pass\nclass Model: pass\nclass Words: pass\n"
        )
        if where == "config":
            heads = {f"AutoModel{name}": "planted.Model" for name in ("", *(f"For{head}" for head in HEADS))}
            change(folder / "config.json", {"AutoConfig": "planted.Config", **heads})
        elif where == "weights":  # the config itself is plain
            change(folder / "config.json", {f"AutoModelFor{head}": "planted.Model" for head in HEADS})
        else:
            change(folder / "tokenizer_config.json", {"AutoTokenizer": ["planted.Words", "planted.Words"]})
        return folder, marker

    yield plant
    for name in [name for name in sys.modules if name.startswith("transformers_modules")]:
        del sys.modules[name]


def change(path, sent):
    path.write_text(json.dumps({**json.loads(path.read_text()), "auto_map": sent}))


def ran(marker, work):
    """Whether the planted code ran; whatever became of the work."""
    try:
        return work(), marker.exists()
    except Exception as error:
        return error, marker.exists()


@pytest.mark.parametrize("where", ["config", "weights", "tokenizer"])
@pytest.mark.parametrize("opener", OPENERS)
def test_code_beside_a_plain_model_never_runs(planted, opener, where):
    kind, work = OPENERS[opener]
    folder, marker = planted(kind, where)
    found, did = ran(marker, lambda: work(folder))
    assert not did
    assert not isinstance(found, Exception), found


@pytest.mark.parametrize("where", ["config", "weights", "tokenizer"])
def test_the_trap_works_where_a_person_says_so(planted, where):
    folder, marker = planted("classifier", where)
    assert ran(marker, lambda: load(folder, "", trust_remote_code=True))[1]


@pytest.mark.parametrize("where", ["config", "tokenizer"])
def test_the_command_line_runs_no_planted_code(planted, where, reviews):
    folder, marker = planted("classifier", where)
    said, did = ran(marker, lambda: limbeck("eval", folder, "--data", reviews))
    assert not did
    assert said.code == 0, said.err
