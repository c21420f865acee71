"""A student that starts from another model than its teacher: of which family it is, and what does not go together."""

import pytest
import torch
from transformers import BertTokenizerFast

from limbeck.core.errors import MismatchError
from limbeck.core.progress import Silent
from limbeck.jobs.plan import plan_arm
from limbeck.jobs.settings import Run
from limbeck.tasks.base import Model, task_of
from tiny import VOCABULARY, make_classifier, make_rows, make_tokenizer
from tiny_language import make_masked, make_text, save

PLAIN = {"augment": {"kind": "none"}}
FAMILIES = {"albert": "albert", "mobilebert": "mobilebert", "bilstm": "limbeck-bilstm"}


@pytest.fixture(scope="module")
def setup():
    teacher = Model(make_classifier(), make_tokenizer())
    return task_of(Run(), teacher).prepare(make_rows(120), teacher, Silent())


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return save(make_classifier(seed=9), make_tokenizer(), tmp_path_factory.mktemp("other") / "bert")


def planned(setup, in_hand=None, **knobs):
    return plan_arm("student", Run(**knobs, **PLAIN), setup, Silent(), in_hand)


def words_of(network):
    return network.get_input_embeddings().weight


@pytest.mark.parametrize("recipe", FAMILIES)
def test_the_family_of_a_recipe_is_made_from_the_model_given(setup, other, recipe):
    arm = planned(setup, recipe=recipe, student_from=str(other))
    torch.manual_seed(0)
    for network in (arm.start.network, arm.start.build()):
        assert network.config.model_type == FAMILIES[recipe]
    assert arm.run.student.family == recipe
    made = planned(setup, recipe=recipe, student={"family": recipe}).start
    assert made.network.num_parameters() == arm.start.network.num_parameters()
    assert not torch.equal(words_of(made.network), words_of(arm.start.network))
    assert str(other) in arm.start.origin


@pytest.mark.parametrize("recipe", FAMILIES)
def test_a_model_that_is_of_the_family_stays_as_it_is(setup, tmp_path, recipe):
    own = planned(setup, recipe=recipe).start.network
    place = save(own, make_tokenizer(), tmp_path / recipe)
    start = planned(setup, recipe=recipe, student_from=str(place)).start
    again, kept = start.build().state_dict(), own.state_dict()
    assert again.keys() == kept.keys()
    assert all(torch.equal(again[name], kept[name]) for name in kept)


@pytest.mark.parametrize("recipe", FAMILIES)
def test_a_model_in_hand_becomes_one_of_the_family(setup, recipe):
    start = planned(setup, Model(make_classifier(seed=9), make_tokenizer()), recipe=recipe).start
    assert start.build().config.model_type == FAMILIES[recipe]
    assert start.origin.startswith("From the given model")


@pytest.mark.parametrize(("keep", "layers"), [("first", 4), ("last", 4), ("every-2", 2), ("0,1,3", 3)])
def test_layers_named_are_kept_of_the_model_given(setup, other, keep, layers):
    arm = planned(setup, recipe="hinton", student_from=str(other), student={"keep": keep})
    assert arm.start.network.config.num_hidden_layers == layers


@pytest.mark.parametrize(
    ("knobs", "family", "layers"),
    [({"recipe": "mobilebert"}, "mobilebert", 2), ({"student": {"layers": 1}}, "bert", 1), ({}, "bert", 2)],
)
def test_on_running_text_too_the_model_given_is_shrunk_or_taken_as_it_is(tmp_path, knobs, family, layers):
    teacher = Model(make_masked(layers=2, seed=1), make_tokenizer())
    start = save(make_masked(layers=2, seed=2), make_tokenizer(), tmp_path / "start")
    run = Run(data={"task": "mask-fill"}, blocks={"length": 16}, student_from=str(start), **knobs)
    setup = task_of(run, teacher).prepare(make_text(60), teacher, Silent())
    arm = plan_arm("student", run, setup, Silent())
    torch.manual_seed(0)
    for network in (arm.start.network, arm.start.build()):
        assert (network.config.model_type, network.config.num_hidden_layers) == (family, layers)
    assert str(start) in arm.start.origin


@pytest.fixture
def foreign():
    """A student with a tokenizer of its own."""
    vocabulary = [*VOCABULARY[:5], *reversed(VOCABULARY[5:])]
    tokenizer = BertTokenizerFast(vocab={word: index for index, word in enumerate(vocabulary)}, model_max_length=64)
    return Model(make_classifier(layers=2), tokenizer)


@pytest.mark.parametrize(("recipe", "compared"), [("minilmv2", "queries, keys, values"), ("tinybert", "hidden")])
def test_tokens_of_different_tokenizers_cannot_be_compared(setup, foreign, recipe, compared):
    with pytest.raises(MismatchError, match=rf"compares {compared}.* token by token.*\n.*--recipe logits"):
        planned(setup, foreign, recipe=recipe)
    with pytest.raises(MismatchError, match="token by token"):
        planned(setup, foreign, recipe=recipe, teacher_cache={"live": True})


def test_what_the_remedy_names_serves_different_tokenizers(setup, foreign):
    for recipe in ("logits", "hinton", "pkd-skip"):
        assert planned(setup, foreign, recipe=recipe).start.network is foreign.network
    with pytest.raises(MismatchError, match=r"one batch cannot serve both\n.*--teacher-cache.live"):
        planned(setup, foreign, recipe="hinton", teacher_cache={"live": True})
