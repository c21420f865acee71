"""Folders, saved datasets, the hub, and what Python holds: all give the same corpus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest

from limbeck.core.errors import DataError
from limbeck.data.settings import DataSettings
from limbeck.data.text.examples import Corpus, read_texts

ROWS = [{"text": f"text number {n}", "label": ["bad", "good"][n % 2]} for n in range(300)]
COLUMNS = {name: [row[name] for row in ROWS] for name in ("text", "label")}


class Frame:
    """As much of a pandas DataFrame as Limbeck asks for; pandas itself is no dependency."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self._columns = columns
        self.columns = list(columns)
        self.iloc = None

    def __getitem__(self, name: str) -> np.ndarray:
        return np.array(self._columns[name], dtype=object)


@pytest.fixture(autouse=True)
def quiet_datasets() -> None:
    datasets.disable_progress_bars()


def same(one: Corpus, other: Corpus) -> bool:
    return one.task == other.task and all(
        np.array_equal(one.splits[name].uids, other.splits[name].uids)
        and np.array_equal(one.splits[name].labels, other.splits[name].labels)
        for name in one.splits
    )


def test_python_objects_and_files_give_one_corpus(tmp_path: Path) -> None:
    expected = read_texts(DataSettings(), ROWS)
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    saved = datasets.Dataset.from_list(ROWS)
    saved.save_to_disk(str(tmp_path / "saved"))
    for data in (COLUMNS, Frame(COLUMNS), saved, path, str(path), tmp_path / "saved", {"train": ROWS}):
        assert same(read_texts(DataSettings(), data), expected)
    assert same(read_texts(DataSettings(train=str(path))), expected)


def test_a_sliced_dataset_gives_its_own_rows() -> None:
    half = read_texts(DataSettings(), datasets.Dataset.from_list(ROWS).select(range(100, 250)))
    assert {text for part in half.splits.values() for text in part.texts} == set(COLUMNS["text"][100:250])


def test_dataset_dict_in_memory_and_saved(tmp_path: Path) -> None:
    named = datasets.ClassLabel(names=["zero", "another"])
    features = datasets.Features({"text": datasets.Value("string"), "label": named})
    parts = {
        key: datasets.Dataset.from_dict({"text": [f"{key} {n}" for n in range(6)], "label": labels}, features=features)
        for key, labels in {"train": [0, 1] * 3, "validation": [1, 0] * 3, "test": [1] * 6, "extra": [-1] * 6}.items()
    }
    corpus = read_texts(DataSettings(), datasets.DatasetDict(parts))
    assert corpus.task.labels == ("zero", "another")
    assert corpus.dev.labels.tolist() == [1, 0, 1, 0, 1, 0]
    assert corpus.card.splits["test"].per_class == {"zero": 0, "another": 6}
    assert any("extra (6 rows)" in note for note in corpus.card.notes)
    datasets.DatasetDict(parts).save_to_disk(str(tmp_path / "all"))
    assert same(read_texts(DataSettings(train=str(tmp_path / "all"))), corpus)


def test_class_names_survive_parquet(tmp_path: Path) -> None:
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes", "maybe"])}
    )
    rows = {"text": [f"t{n}" for n in range(200)], "label": [-1, 0, 1, 2] * 50}
    datasets.Dataset.from_dict(rows, features=features).to_parquet(str(tmp_path / "a.parquet"))
    corpus = read_texts(DataSettings(train=str(tmp_path / "a.parquet")))
    assert corpus.task.labels == ("no", "yes", "maybe")
    assert sum(split.rows - split.labelled for split in corpus.card.splits.values()) == 50


def write(path: Path, rows: list[str]) -> None:
    path.write_text("\n".join(rows) + "\n")


def test_folder_of_splits_with_other_column_names(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", ["label\tsentence", "0\ta", "1\tb"])
    write(tmp_path / "valid.tsv", ["label\tcontent", "1\tc"])
    write(tmp_path / "my-test.csv", ["content,label", "d,0"])
    corpus = read_texts(DataSettings(train=str(tmp_path)))
    assert [part.texts for part in corpus.splits.values()] == [["a", "b"], ["c"], ["d"]]
    assert corpus.card.columns["text"] == "sentence (dev: content, test: content)"
    flagged = read_texts(DataSettings(train=str(tmp_path), text_column="sentence"))
    assert same(flagged, corpus)


def test_hidden_labels_of_a_found_test_file_are_reported_and_of_a_named_one_refused(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", ["text\tlabel", *(f"t{n}\t{n % 2}" for n in range(300))])
    write(tmp_path / "test.tsv", ["text", "x", "y"])
    corpus = read_texts(DataSettings(train=str(tmp_path)))
    assert corpus.card.dropped == {"test without labels": 2}
    assert len(corpus.test) > 10
    named = DataSettings(train=str(tmp_path / "train.tsv"), test=str(tmp_path / "test.tsv"))
    with pytest.raises(DataError, match="has no labels"):
        read_texts(named)


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no train file"):
        read_texts(DataSettings(train=str(tmp_path)))
    write(tmp_path / "a-train.csv", ["text,label", "a,0"])
    write(tmp_path / "b-train.csv", ["text,label", "a,0"])
    with pytest.raises(DataError, match="several train files"):
        read_texts(DataSettings(train=str(tmp_path)))


def test_damaged_saved_dataset_is_refused(tmp_path: Path) -> None:
    datasets.Dataset.from_list(ROWS).save_to_disk(str(tmp_path / "saved"))
    arrow = next((tmp_path / "saved").glob("*.arrow"))
    arrow.write_bytes(arrow.read_bytes()[:100])
    with pytest.raises(DataError, match="damaged datasets folder"):
        read_texts(DataSettings(train=str(tmp_path / "saved")))


def test_hub_id_offline_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    with pytest.raises(DataError, match=r"the Hub gave no dataset(.|\n)*download it"):
        read_texts(DataSettings(train="nobody/nothing-of-that-name"))


def test_data_of_no_kind_is_refused() -> None:
    with pytest.raises(DataError, match="no data given"):
        read_texts(DataSettings())
    with pytest.raises(DataError, match="data of type generator cannot be read"):
        read_texts(DataSettings(), (row for row in ROWS))
    with pytest.raises(DataError, match="row 2 is a str"):
        read_texts(DataSettings(), [{"text": "a"}, "b"])
    with pytest.raises(DataError, match="different lengths"):
        read_texts(DataSettings(), {"text": ["a"], "label": [1, 2]})
