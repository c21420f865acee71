"""MLP and LeNet-5: how many parameters, where they start, how they are saved, and the norm that training holds."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from transformers import AutoModelForImageClassification

import limbeck
from limbeck.core.compress import in_head, prunable
from limbeck.core.errors import KnobError, MismatchError, ModelError
from limbeck.core.image_processor import ImageProcessor
from limbeck.core.task import TaskInfo
from limbeck.students.image import NetworkSettings, new_image_network
from limbeck.students.load import kind_of, kind_saved, load
from limbeck.students.model_folder import save_folder
from limbeck.students.sizes import shape_of
from limbeck.training.callbacks import HoldNorm

INFO = TaskInfo(kind="image", labels=tuple("0123456789"))
MNIST = ImageProcessor(28, 28)


def built(seed=0, processor=MNIST, info=INFO, **knobs):
    torch.manual_seed(seed)
    return new_image_network(NetworkSettings(**knobs), processor, info)


@pytest.mark.parametrize(
    ("hidden", "parameters", "text"),
    [
        ("1200,1200", 2_395_210, "784-1200-1200-10"),
        ("800,800", 1_276_810, "784-800-800-10"),
        ("300,100", 266_200 + 410, "784-300-100-10"),
    ],
)
def test_parameters_are_those_of_the_papers(hidden, parameters, text):
    network = built(hidden=hidden)
    assert network.num_parameters() == parameters
    assert shape_of(network).text == text


def test_lenet_300_100_has_266_200_weights_to_prune():
    weights = prunable(built())
    assert [weight.numel() for weight in weights.values()] == [784 * 300, 300 * 100, 100 * 10]
    assert sum(weight.numel() for weight in weights.values()) == 266_200
    assert in_head(built()) == {"classifier.weight"}


def test_lenet_5_has_the_parameters_of_caffe():
    network = built(name="lenet")
    assert network.num_parameters() == 520 + 25_050 + 400_500 + 5_010 == 431_080
    assert [tuple(weight.shape) for weight in prunable(network).values()] == [
        (20, 1, 5, 5),
        (50, 20, 5, 5),
        (500, 800),
        (10, 500),
    ]
    assert network(**MNIST(np.zeros((3, 28, 28)))).logits.shape == (3, 10)


def test_the_mlp_computes_what_it_says():
    network = built(hidden="5,4", input_dropout=0.5, dropout=0.5)
    images = np.random.default_rng(0).integers(0, 256, (3, 28, 28)).astype(np.uint8)
    states = images.reshape(3, -1) / 255
    weights = {name: weight.detach().double().numpy() for name, weight in network.named_parameters()}
    for layer in ("body.0", "body.1"):
        states = np.maximum(states @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"], 0)
    expected = states @ weights["classifier.weight"].T + weights["classifier.bias"]
    assert np.allclose(network(**MNIST(images)).logits.detach().numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["mlp", "lenet"])
def test_weights_start_as_gaussian_glorot(name):
    network = built(name=name)
    for key, weight in prunable(network).items():
        field = weight[0, 0].numel() if weight.dim() == 4 else 1
        deviation = (2 / (field * (weight.shape[0] + weight.shape[1]))) ** 0.5
        assert abs(weight.std().item() / deviation - 1) < 5 / (2 * weight.numel()) ** 0.5, key
    if name == "mlp":  # a Gaussian has tails, which a uniform distribution of that deviation has not
        assert network.body[0].weight.abs().max() > 3 * network.body[0].weight.std()
    assert not any(value.any() for key, value in network.named_parameters() if key.endswith("bias"))


def test_a_seed_draws_its_own_start():
    assert torch.equal(built(seed=1).body[0].weight, built(seed=1).body[0].weight)
    assert not torch.equal(built(seed=1).body[0].weight, built(seed=2).body[0].weight)


@pytest.mark.parametrize("name", ["mlp", "lenet"])
def test_what_is_saved_opens_to_the_bit(tmp_path, name):
    network = built(name=name, dropout=0.5, input_dropout=0.2, max_norm=3.0)
    save_folder(network, MNIST, tmp_path)
    assert (tmp_path / "preprocessor_config.json").is_file()
    for opened, processor in (load(tmp_path, "image", INFO), limbeck.load(tmp_path)):
        assert kind_of(opened) == kind_saved(tmp_path) == "image"
        assert processor == MNIST
        assert (opened.config.dropout, opened.config.max_norm) == (0.5, 3.0)
        for key, value in network.state_dict().items():
            assert torch.equal(opened.state_dict()[key], value), key
    assert not AutoModelForImageClassification.from_pretrained(tmp_path).training


def test_a_folder_opens_without_limbeck(tmp_path):
    network = built(hidden="5")
    save_folder(network, MNIST, tmp_path)
    code = (
        "import sys, torch; sys.modules['limbeck'] = None\n"
        "from transformers import AutoModelForImageClassification as Auto\n"
        f"model = Auto.from_pretrained({str(tmp_path)!r}, trust_remote_code=True)\n"
        "print(model(torch.zeros(1, 1, 28, 28)).logits.tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert np.allclose(eval(done.stdout), network(torch.zeros(1, 1, 28, 28)).logits.tolist())


def test_a_damaged_processor_is_refused(tmp_path):
    save_folder(built(hidden="5"), MNIST, tmp_path)
    (tmp_path / "preprocessor_config.json").write_text("{")
    with pytest.raises(ModelError, match=r"preprocessor_config\.json is missing or damaged"):
        load(tmp_path, "image")
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.raises(ModelError, match="no tokenizer files"):
        load(tmp_path, "image")


def test_labels_of_another_data_set_are_refused_or_get_a_new_head(tmp_path):
    network = built(hidden="5")
    save_folder(network, MNIST, tmp_path)
    other = TaskInfo(kind="image", labels=("a", "b"))
    with pytest.raises(MismatchError):
        load(tmp_path, "image", other)
    opened, _ = load(tmp_path, "image", other, new_head=True)
    assert opened.classifier.weight.shape == (2, 5)
    assert torch.equal(opened.body[0].weight, network.body[0].weight), "the hidden layers stay"


def test_shapes_that_cannot_be_are_refused():
    for hidden in ("", "300,", "300,0", "wide"):
        with pytest.raises(KnobError, match="hidden"):
            NetworkSettings(hidden=hidden)
    with pytest.raises(KnobError, match="too small for LeNet-5"):
        built(name="lenet", processor=ImageProcessor(12, 28))
    with pytest.raises(KnobError, match=r"network\.hidden.*no effect"):
        built(name="lenet", hidden="50")


def test_max_norm_shortens_long_vectors_of_hidden_units_alone():
    network = built(hidden="6,4")
    with torch.no_grad():
        network.body[0].weight[:3] *= 100
        network.classifier.weight *= 100
    before = {name: weight.detach().clone() for name, weight in network.named_parameters()}
    held = HoldNorm(2.0)
    held.on_train_begin(None, None, None, model=network)
    held.on_optimizer_step(None, None, None)
    assert torch.allclose(network.body[0].weight[:3].norm(dim=1), torch.full((3,), 2.0))
    assert torch.equal(network.body[0].weight[3:], before["body.0.weight"][3:]), "short ones stay, to the bit"
    assert torch.equal(network.classifier.weight, before["classifier.weight"])
