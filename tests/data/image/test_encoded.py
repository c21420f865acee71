"""Images as batches: what a collator gives row by row, a batch gives at once; jitter moves training images alone."""

import numpy as np
import pytest
import torch

from limbeck.core.errors import MismatchError
from limbeck.core.image_processor import ImageProcessor
from limbeck.core.task import TaskInfo
from limbeck.data.batches import Buckets, Collator, batches
from limbeck.data.image.encoded import EncodedImages, as_text, from_text, shifted, shifts
from limbeck.data.image.images import read_images
from limbeck.data.settings import DataSettings
from tiny_images import SIDE, make_images

PROCESSOR = ImageProcessor(SIDE, SIDE)
INFO = TaskInfo(kind="image", labels=("0", "1", "2", "3"))


@pytest.fixture(scope="module")
def images():
    return read_images(DataSettings(), {"train": make_images(400, 1), "test": make_images(60, 2)}).train


def test_pixels_lie_in_zero_to_one():
    values = PROCESSOR(np.full((SIDE, SIDE), 255, dtype=np.uint8))["pixel_values"]
    assert values.shape == (1, 1, SIDE, SIDE)
    assert values.dtype == torch.float32
    assert values.max() == 1.0
    every = PROCESSOR(np.arange(256, dtype=np.uint8).reshape(4, SIDE, SIDE))["pixel_values"].flatten()
    assert torch.allclose(every, torch.arange(256) / 255, rtol=1e-6)
    with pytest.raises(MismatchError, match="3 × 3 pixels, but the model reads 8 × 8"):
        PROCESSOR(np.zeros((2, 3, 3)))


@pytest.mark.parametrize("jitter", [0, 2])
def test_a_batch_is_what_the_collator_makes_of_its_rows(images, jitter):
    rows = EncodedImages(images, PROCESSOR, jitter, seed=3)
    chosen = np.random.default_rng(0).integers(0, (5 if jitter else 1) * len(rows), 50)
    one_by_one = Collator.of(PROCESSOR, INFO)([rows[int(index)] for index in chosen])
    at_once = rows.batch(chosen)
    assert at_once.keys() == one_by_one.keys()
    for name, column in one_by_one.items():
        assert torch.equal(at_once[name], column), name
        assert at_once[name].dtype == column.dtype, name


def test_evaluation_batches_hold_every_row_once(images):
    rows = EncodedImages(images, PROCESSOR)
    found = list(batches(rows, Collator.of(PROCESSOR, INFO), 64))
    assert sorted(uid for batch in found for uid in batch.uids.tolist()) == sorted(rows.uids.tolist())
    assert found[0].inputs["pixel_values"].shape == (64, 1, SIDE, SIDE)


def test_a_shift_moves_the_image_and_fills_with_background():
    image = np.arange(1, 65, dtype=np.uint8).reshape(1, SIDE, SIDE)
    moved = shifted(image, np.array([1]), np.array([-2]))[0]
    assert np.array_equal(moved[1:, :-2], image[0, :-1, 2:])
    assert not moved[0].any()
    assert not moved[:, -2:].any()
    assert np.array_equal(shifted(image, np.array([0]), np.array([0])), image)


@pytest.mark.parametrize("most", [1, 2, 4])
def test_every_shift_occurs_equally_often(images, most):
    """25 × 400 draws over 9 to 81 shifts: no count is further than 5 deviations from its mean."""
    rounds = np.repeat(np.arange(25), len(images))
    down, right = shifts(np.tile(images.uids, 25), rounds, most, seed=0)
    width = 2 * most + 1
    counts = np.bincount((down + most) * width + right + most, minlength=width**2)
    mean = len(rounds) / width**2
    assert len(counts) == width**2, "none is larger than asked for"
    assert np.abs(counts - mean).max() < 5 * np.sqrt(mean)


def test_a_shift_follows_from_seed_round_and_uid_alone(images):
    uids, first = images.uids, np.zeros(len(images), dtype=np.int64)
    whole = np.stack(shifts(uids, first, 2, 0))
    assert np.array_equal(whole[:, 7:9], np.stack(shifts(uids[7:9], first[7:9], 2, 0))), "whatever else is in a batch"
    for other in (shifts(uids, first + 1, 2, 0), shifts(uids, first, 2, 1)):
        assert (whole != np.stack(other)).any(0).mean() > 0.9  # 1 in 25 is the same by chance


def test_another_shift_comes_with_every_epoch(images):
    rows = EncodedImages(images, PROCESSOR, jitter=2)
    order = Buckets(rows.lengths, 10, seed=0, rounds=rows.rounds)
    order.set_epoch(3)
    index = next(iter(order))
    assert index // len(rows) == 3
    first, later = (rows[round_ * len(rows) + 5]["pixel_values"] for round_ in (0, 1))
    assert rows[5]["uids"] == rows[len(rows) + 5]["uids"] == images.uids[5]
    assert not np.array_equal(first, later)
    assert EncodedImages(images, PROCESSOR).rounds == 1, "without jitter there is one version"


def test_an_image_survives_as_text(images):
    assert np.array_equal(from_text(as_text(images.pixels[3])), images.pixels[3])
