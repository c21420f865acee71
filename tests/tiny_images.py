"""Tiny images whose class is the quarter that is bright, and IDX files of them."""

import gzip
import struct

import numpy as np

SIDE = 8
NAMES = {"train": "train", "test": "t10k"}


def make_images(count, seed=0, classes=4):
    """uint8 [count, 8, 8] and their labels, with noise."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, classes, count).astype(np.uint8)
    images = draw.integers(0, 120, (count, SIDE, SIDE)).astype(np.uint8)
    half = SIDE // 2
    for image, label in zip(images, labels, strict=True):
        down, right = divmod(int(label), 2)
        image[down * half : (down + 1) * half, right * half : (right + 1) * half] += 100
    return images, labels


def idx(array):
    """The bytes of an IDX file."""
    array = np.asarray(array, dtype=np.uint8)
    return struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape) + array.tobytes()


def write_idx(folder, zipped=True, dot=False, **splits):
    """train=(images, labels), test=…, under MNIST's names."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, parts in splits.items():
        for what, number, part in zip(("images", "labels"), (3, 1), parts, strict=True):
            name = f"{NAMES.get(split, split)}-{what}{'.' if dot else '-'}idx{number}-ubyte"
            data = idx(part)
            path = folder / (f"{name}.gz" if zipped else name)
            path.write_bytes(gzip.compress(data) if zipped else data)
    return folder


def make_folder(folder, train=400, test=120, **how):
    return write_idx(folder, train=make_images(train, 1), test=make_images(test, 2), **how)
