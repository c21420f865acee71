"""One table, all of it to be measured on: nothing is cut, and a model's labels are given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from limbeck.core.errors import DataError
from limbeck.core.progress import Silent, Watcher
from limbeck.core.record import DataCard
from limbeck.core.task import Kind
from limbeck.data.columns import choose
from limbeck.data.corpus import Corpus, build_examples, relabel, split_card
from limbeck.data.draft import draft, uids
from limbeck.data.labels import scheme_of
from limbeck.data.settings import DataSettings
from limbeck.data.sources import gather

_FILLER = (
    "The morning train was late again, so half the office walked in together, shaking umbrellas and trading theories "
    "about the weather, the signals and the new timetable, while the coffee machine hummed, the first meeting waited, "
    "and somebody opened a window to let in the smell of rain, wet leaves and fresh bread from the bakery below."
)
_CHOICE = ("test", "dev", "train")  # of a source with several splits, the first that has labels


def load_single(
    settings: DataSettings,
    labels: Sequence[str],
    kind: Kind | None = None,
    data: object | None = None,
    watcher: Watcher = Silent(),  # noqa: B008
) -> Corpus:
    """The rows of `settings.train` as the test split of a corpus whose other splits are empty."""
    settings = settings.but(task=kind) if kind and settings.task == "auto" else settings
    given = gather(settings, data)
    drafts = {name: draft(table, choose(table, settings)) for name, table in given.tables.items()}
    name = next((name for name in _CHOICE if name in drafts and drafts[name].labels.given), "")
    if not name:
        source = next(iter(given.tables.values())).source
        raise DataError(
            f"{source} has no labels, so nothing can be measured on it", "name the column with --label-column"
        )
    part = drafts[name]
    scheme = scheme_of(part.labels, settings, part.table, part.roles)
    examples = build_examples(part, uids([part])[0], scheme)
    nothing = examples.take(np.arange(0))
    card = DataCard(
        source=part.table.source,
        columns={"text": part.roles.text, "pair": part.roles.pair, "label": ", ".join(part.roles.labels)},
        read=len(part.table) + part.table.blank,
        dropped=dict(part.dropped),
        splits={"test": split_card(scheme.task, examples, part.source)},
    )
    corpus = Corpus(scheme.task, nothing, nothing, examples, card)
    if scheme.task.kind != "regress":
        corpus = relabel(corpus, labels, whose="the model", ordered=bool(settings.classes))
    roles = ", ".join(f"{role} from {column}" for role, column in card.columns.items() if column)
    watcher.say(f"data: {card.source}, {name} split, {len(examples):,} rows; {roles}")
    return corpus


def load_texts(settings: DataSettings) -> list[tuple[str, str]]:
    """(text, pair) of every row, labelled or not; without a file, sentences of 4 to 60 words."""
    if not settings.train:
        words = _FILLER.split()
        return [(" ".join(words[: 4 + 7 * (number % 9)]), "") for number in range(64)]
    table = gather(settings).tables["train"]
    return draft(table, choose(table, settings)).keys
