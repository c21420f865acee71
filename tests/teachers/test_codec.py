"""Few bytes say what the teacher said."""

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limbeck.core.errors import MismatchError
from limbeck.teachers.codec import SampledCodec, TopArrays, TopCodec

BERT, SMOLLM, QWEN = 30522, 49152, 151936
SHAPES = "zipf-0.5 zipf-1 zipf-2 zipf-3 zipf-4 zipf-6 flat-1 flat-2 flat-3 equal few almost certain".split()


def log_softmax(logits):
    logits = logits.astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def top_of(logits, k, temperature=1.0):
    log_p = log_softmax(logits)
    ids = np.argsort(-log_p, axis=1, kind="stable")[:, :k]
    log_sum = np.log(np.exp(logits.astype(np.float64)).sum(axis=1))
    softened = np.log(np.exp(log_p / temperature).sum(axis=1))
    values = np.take_along_axis(log_p, ids, 1)
    return TopArrays(ids, values.astype(np.float32), log_sum.astype(np.float32), softened.astype(np.float32))


def logits_like(shape, tokens=40, vocabulary=BERT, seed=0):
    """Logits of models' shapes: flat, steep, certain, and a few words that stand out."""
    chance = np.random.default_rng(seed)
    noise = chance.standard_normal((tokens, vocabulary))
    zipf = -np.log(np.arange(1, vocabulary + 1))
    if shape == "equal":
        return np.zeros((tokens, vocabulary))
    if shape in ("certain", "almost"):
        noise = 2 * noise + zipf
        noise[np.arange(tokens), chance.integers(0, vocabulary, tokens)] += 40 if shape == "certain" else 14
        return noise
    if shape == "few":
        words = chance.integers(0, vocabulary, (tokens, 20))
        noise[np.arange(tokens)[:, None], words] += 6 + chance.exponential(4, words.shape)
        return noise
    kind, scale = shape.split("-")
    return float(scale) * noise + (zipf if kind == "zipf" else 0)


@lru_cache
def long_top(shape):
    return top_of(logits_like(shape), 128)


def by_id(top, values):
    return np.take_along_axis(values, np.argsort(top.ids, axis=1), 1).astype(np.float64)


def kls(log_p, log_q):
    """Mean KL of the renormalised tops, and with the rest as one more outcome."""
    p, q = np.exp(log_p), np.exp(log_q)
    mass, other = p.sum(axis=1), q.sum(axis=1)
    inside = (p * (log_p - log_q)).sum(axis=1)
    rest, other_rest = np.maximum(1 - mass, 1e-12), np.maximum(1 - other, 1e-12)
    return (inside / mass - np.log(mass / other)).mean(), (inside + rest * np.log(rest / other_rest)).mean()


@pytest.mark.parametrize("k", [1, 8, 50, 128])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_divergence_from_the_true_top_is_under_a_thousandth_of_a_nat(shape, k):
    whole = long_top(shape)
    true = whole._replace(ids=whole.ids[:, :k], log_p=whole.log_p[:, :k])
    codec = TopCodec(k, BERT)
    kept = codec.decode(codec.encode(true))
    assert np.array_equal(np.sort(kept.ids, axis=1), np.sort(true.ids, axis=1))
    renormalised, tail = kls(by_id(true, true.log_p), by_id(kept, kept.log_p))
    assert -1e-6 < renormalised < 1e-3
    assert -1e-6 < tail < 1e-3
    assert np.abs(kept.log_sum - true.log_sum).max() < 0.02
    assert not kept.softened.any()


@pytest.mark.parametrize("temperature", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("shape", ["zipf-3", "few", "certain"])
def test_softened_answers_keep_their_shape_and_mass(shape, temperature):
    true = top_of(logits_like(shape), 50, temperature)
    codec = TopCodec(50, BERT, temperature)
    kept = codec.decode(codec.encode(true))
    soft = [by_id(top, top.log_p) / temperature - top.softened[:, None] for top in (true, kept)]
    assert max(kls(*soft)) < 1e-3
    assert (np.exp(soft[1]).sum(axis=1) <= 1 + 1e-5).all()


@pytest.mark.parametrize("shape", ["zipf-2", "flat-4", "almost", "equal"])
def test_the_whole_vocabulary_has_no_rest(shape):
    true = top_of(logits_like(shape, vocabulary=300), 300)
    codec = TopCodec(300, 300)
    kept = codec.decode(codec.encode(true))
    assert (np.sort(kept.ids, axis=1) == np.arange(300)).all()
    assert np.allclose(np.exp(kept.log_p.astype(np.float64)).sum(axis=1), 1, atol=1e-6)
    assert kls(by_id(true, true.log_p), by_id(kept, kept.log_p))[0] < 1e-3


@pytest.mark.parametrize(("k", "limit"), [(50, 110), (128, 280)])
@pytest.mark.parametrize("vocabulary", [BERT, SMOLLM])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_a_token_takes_few_bytes(k, limit, vocabulary, temperature):
    assert TopCodec(k, vocabulary, temperature).width <= limit - 1  # of which the store has less than one for itself


def test_a_vocabulary_of_150_thousand_words_takes_few_more():
    assert TopCodec(128, QWEN).width <= 279
    assert TopCodec(50, QWEN).width <= 120


@st.composite
def sets_of_ids(draw):
    vocabulary = draw(st.sampled_from([1, 2, 3, 17, 256, 1000, BERT, QWEN]))
    k = draw(st.integers(1, min(vocabulary, 60)))
    edges = [id_ for id_ in {0, vocabulary - 1} if draw(st.booleans())][:k]
    others = draw(st.lists(st.integers(0, vocabulary - 1), min_size=0, max_size=k, unique=True))
    filled = list(dict.fromkeys([*edges, *others, *range(k + 2)]))
    return vocabulary, [id_ for id_ in filled if id_ < vocabulary][:k]


@settings(deadline=None, max_examples=150)
@given(sets_of_ids(), st.integers(0, 2**31), st.floats(0, 12))
def test_ids_come_back_with_the_most_probable_first(case, seed, scale):
    vocabulary, ids = case
    chance = np.random.default_rng(seed)
    values = np.sort(log_softmax(scale * chance.standard_normal((1, len(ids)))))[:, ::-1] - (len(ids) < vocabulary)
    top = TopArrays(np.array([ids]), values.astype(np.float32), np.array([3.5], np.float32), np.zeros(1, np.float32))
    codec = TopCodec(len(ids), vocabulary)
    coded = codec.encode(top)
    assert coded.shape == (1, codec.width)
    kept = codec.decode(coded)
    assert sorted(kept.ids[0]) == sorted(ids)
    steps = np.diff(kept.log_p[0])
    assert (steps <= 0).all()
    assert (np.diff(kept.ids[0])[steps == 0] > 0).all()
    assert kept.log_sum[0] == 3.5


def test_what_differs_clearly_keeps_its_order():
    values = -np.arange(1, 11, dtype=np.float32)[None] / 2 - 1.5
    ids = np.array([[900, 3, 512, 0, 999, 77, 78, 511, 2, 1]])
    codec = TopCodec(10, 1000)
    kept = codec.decode(codec.encode(TopArrays(ids, values, np.zeros(1, np.float32), np.zeros(1, np.float32))))
    assert kept.ids.tolist() == ids.tolist()


def test_many_tokens_are_decoded_as_each_alone():
    true = top_of(logits_like("zipf-3", tokens=900, vocabulary=3000), 200)
    codec = TopCodec(200, 3000)
    coded = codec.encode(true)
    whole = codec.decode(coded)
    for token in (0, 1, 450, 899):
        alone = codec.decode(coded[token : token + 1])
        assert all(np.array_equal(one[0], all_[token]) for one, all_ in zip(alone, whole, strict=True))
    assert codec.decode(coded[:0]).ids.shape == (0, 200)


def test_impossible_words_stay_impossible():
    values = np.array([[np.log(0.75), np.log(0.25), -np.inf]], np.float32)
    codec = TopCodec(3, 100)
    zeros = np.zeros(1, np.float32)
    kept = codec.decode(codec.encode(TopArrays(np.array([[5, 7, 9]]), values, zeros, zeros)))
    assert np.allclose(np.exp(kept.log_p), [[0.75, 0.25, 0]], atol=0.01)


@pytest.mark.parametrize(
    ("ids", "value", "said"),
    [
        ([1, 1], -1.0, "distinct"),
        ([1, 100], -1.0, "0 to 99"),
        ([-1, 5], -1.0, "0 to 99"),
        ([1, 2, 3], -1.0, "top 2"),
        ([1, 2], np.nan, "not log-probabilities"),
        ([1, 2], 3.0, "not log-probabilities"),
    ],
)
def test_what_is_no_top_is_refused(ids, value, said):
    top = TopArrays(np.array([ids]), np.full((1, len(ids)), value, np.float32), np.zeros(1), np.zeros(1))
    with pytest.raises(MismatchError, match=said):
        TopCodec(2, 100).encode(top)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from([1, 5, 50, 64, 255]), st.sampled_from([2, 300, BERT, QWEN]), st.integers(0, 2**31))
def test_drawn_ids_and_their_counts_come_back(draws, vocabulary, seed):
    chance = np.random.default_rng(seed)
    drawn = [np.unique(chance.geometric(0.2, draws) % vocabulary, return_counts=True) for _ in range(7)]
    most = max(len(ids) for ids, _ in drawn)
    ids, weights = np.zeros((7, most), np.int64), np.zeros((7, most), np.float32)
    for row, (found, counts) in enumerate(drawn):
        ids[row, : len(found)], weights[row, : len(found)] = found, counts / draws
    codec = SampledCodec(draws, vocabulary)
    many, coded = codec.encode(ids, weights)
    kept_ids, kept_weights = codec.decode(many, coded)
    assert np.array_equal(kept_ids, ids)
    assert np.array_equal(kept_weights, weights)


@pytest.mark.parametrize("vocabulary", [BERT, SMOLLM, QWEN])
def test_a_drawn_id_takes_three_bytes(vocabulary):
    assert SampledCodec(50, vocabulary).width == 3


@pytest.mark.parametrize("weights", [[0.5, 0.25], [0.9, 0.1], [0.5, 0.5 + 1e-1]])
def test_weights_that_are_no_counts_are_refused(weights):
    with pytest.raises(MismatchError, match="4 draws"):
        SampledCodec(4, 100).encode(np.array([[3, 4]]), np.array([weights], np.float32))


def test_a_drawn_id_outside_the_vocabulary_or_twice_is_refused():
    for ids in ([3, 100], [3, 3], [-1, 3]):
        with pytest.raises(MismatchError, match="distinct"):
            SampledCodec(2, 100).encode(np.array([ids]), np.array([[0.5, 0.5]], np.float32))
