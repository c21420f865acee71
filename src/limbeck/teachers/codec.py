"""A teacher's distributions as few bytes: the top k of a vocabulary, or ids drawn from it.

A top of k ids takes the same number of bytes for every token, so that any token can be read without its neighbours.

- The ids are sorted. Each is cut in two: the low bits are kept as they are, the high parts, which never fall, as a row
  of bits in which the one of the i-th id stands at its high part + i (Elias–Fano).
- The probabilities follow in the order of the ids, in whole steps of r^(1/4), where r is the ratio to the largest. An
  error e in log p costs p·e²/2 nats, so steps are fine where p is large and coarse in the far tail; of the powers
  between 1/5 and 1/3, which all cost much the same, the mean is taken. Under a temperature T it is r^(1/4T). Most of a
  top lies close to its lower end, so the steps above the end are kept as a Rice code: two low bits, and the rest unary
  in the same kind of row of bits. That row is of fixed length, and each token takes the finest step that fits it.
- The log-odds of the whole top are kept apart, to 3e-4, and the probabilities rescaled to them: the mass of the rest is
  not touched by the steps. Ids of the same step come back with equal probabilities, the lower id first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from limbeck.core.errors import MismatchError

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]

STEPS = (0.0005 * 1.03 ** np.arange(256)).astype(np.float32)  # of r^(1/4): the largest cuts [0, 1] in two
RICE_BITS = 2
FARTHEST = -80.0  # of log r; what is farther from the largest is as good as impossible
ODDS_LIMIT, ODDS_STEP, CERTAIN = 20.0, 40.0 / 65534, 65535  # log-odds in 16 bits; the last code: there is no rest
BITS_AT_ONCE = 2**21  # decoded at a time, so that what is at work stays in the processor's cache


class TopArrays(NamedTuple):
    """`core.topk.Top` in numpy."""

    ids: Ints  # [tokens, k] most probable first
    log_p: Floats  # [tokens, k]
    log_sum: Floats  # [tokens]
    softened: Floats  # [tokens]


class TopCodec:
    """[tokens, width] bytes for the k most probable of a vocabulary."""

    def __init__(self, k: int, vocabulary: int, temperature: float = 1.0) -> None:
        self.k, self.vocabulary, self.temperature = k, vocabulary, temperature
        self.low = min(range(vocabulary.bit_length()), key=lambda bits: k * bits + ((vocabulary - 1) >> bits))
        self.id_row = k + ((vocabulary - 1) >> self.low)
        # The sum of the unary parts. A large share of a vocabulary is not crowded at its lower end and needs more.
        self.steps_at_most = max(24, 7 * k // 5 if 8 * k <= vocabulary else 4 * k)
        self.step_row = k + self.steps_at_most
        self.power = 1 / (4 * max(temperature, 1.0))
        self.bits = k * self.low + self.id_row + k * RICE_BITS + self.step_row
        self.softens = temperature != 1.0
        self.packed = -(-self.bits // 8)
        self.width = self.packed + 1 + 2 * (3 if self.softens else 2)  # step; log-sum and log-odds

    def encode(self, top: TopArrays) -> Bytes:
        self._check(top)
        order = np.argsort(top.ids, axis=1)
        ids = np.take_along_axis(top.ids, order, 1).astype(np.int64)
        log_p = np.take_along_axis(top.log_p, order, 1).astype(np.float32)
        step, codes = self._quantise(log_p)
        bits = np.concatenate(
            [
                _planes(ids & ((1 << self.low) - 1), self.low),
                _ones_at(ids >> self.low, self.id_row),
                _planes(codes, RICE_BITS),
                _ones_at(np.cumsum(codes >> RICE_BITS, axis=1), self.step_row),
            ],
            axis=1,
        )
        numbers = [np.clip(top.log_sum, -6e4, 6e4).astype("<f2").view("<u2"), self._odds(_log_sum_exp(log_p))]
        if self.softens:
            numbers.append(self._odds(self._softened_sum(log_p) - top.softened))
        tail = np.stack(numbers, axis=1).view(np.uint8)
        return np.concatenate([np.packbits(bits, axis=1), step.astype(np.uint8)[:, None], tail], axis=1)

    def decode(self, coded: Bytes) -> TopArrays:
        size = max(1, BITS_AT_ONCE // self.bits)
        parts = [self._decode(coded[start : start + size]) for start in range(0, max(len(coded), 1), size)]
        return TopArrays(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def _decode(self, coded: Bytes) -> TopArrays:
        k = self.k
        bits = np.unpackbits(coded[:, : self.packed], axis=1, count=self.bits)
        ends = np.cumsum([k * self.low, self.id_row, k * RICE_BITS])
        id_low, id_row, step_low, step_row = np.split(bits, ends, axis=1)
        ids = (_positions(id_row, k) << self.low) | _from_planes(id_low, self.low, k)
        above = np.diff(_positions(step_row, k), axis=1, prepend=np.int32(0))
        codes = (above << RICE_BITS) | _from_planes(step_low, RICE_BITS, k)
        down = codes.max(axis=1, keepdims=True, initial=0) - codes
        order = np.argsort(down.astype(np.int16), axis=1, kind="stable")
        numbers = np.ascontiguousarray(coded[:, self.packed + 1 :]).view("<u2")
        z = np.take_along_axis(down, order, 1).astype(np.float32) * STEPS[coded[:, self.packed]][:, None]
        log_r = self._log_ratio(z)
        log_p = log_r + (_log_mass(numbers[:, 1]) - _log_sum_exp(log_r))[:, None]
        softened = np.zeros(len(coded), np.float32)
        if self.softens:
            softened = self._softened_sum(log_p) - _log_mass(numbers[:, 2])
        log_sum = numbers[:, 0].copy().view("<f2").astype(np.float32)
        return TopArrays(np.take_along_axis(ids, order, 1).astype(np.int64), log_p, log_sum, softened)

    def _softened_sum(self, log_p: Floats) -> Floats:
        return _log_sum_exp(log_p / np.float32(self.temperature))

    def _log_ratio(self, z: Floats) -> Floats:
        least = np.float32(np.exp(FARTHEST * self.power))
        return np.log(np.maximum(np.float32(1) - z, least)) / np.float32(self.power)

    def _quantise(self, log_p: Floats) -> tuple[Ints, Ints]:
        """The finest step of each token that fits, and how many steps each id lies above the lowest."""
        log_r = np.maximum(log_p - log_p.max(axis=1, keepdims=True), np.float32(FARTHEST))
        z = -np.expm1(log_r * np.float32(self.power))  # 0 for the largest, 1 for the impossible
        finest, step = np.zeros(len(z), np.int64), np.full(len(z), len(STEPS) - 1)
        for _ in range(8):  # halves the 256 candidates
            middle = (finest + step) // 2
            fits = (_steps_up(z, middle) >> RICE_BITS).sum(axis=1) <= self.steps_at_most
            step, finest = np.where(fits, middle, step), np.where(fits, finest, np.minimum(middle + 1, step))
        return step, _steps_up(z, step)

    def _odds(self, log_mass: Floats) -> NDArray[np.uint16]:
        """The code of log(mass / rest)."""
        mass = np.exp(log_mass.astype(np.float64))
        rest = np.zeros_like(mass) if self.k == self.vocabulary else 1 - mass
        with np.errstate(divide="ignore"):
            odds = np.log(mass) - np.log(np.maximum(rest, 0))
        inside = np.rint((np.clip(odds, -ODDS_LIMIT, ODDS_LIMIT) + ODDS_LIMIT) / ODDS_STEP)
        return np.where(odds > ODDS_LIMIT, CERTAIN, inside).astype("<u2")

    def _check(self, top: TopArrays) -> None:
        if top.ids.shape != (len(top.log_sum), self.k) or top.log_p.shape != top.ids.shape:
            raise MismatchError(
                f"the cache keeps the top {self.k}, but was given ids {top.ids.shape} and values {top.log_p.shape}",
                "give it the k it was made for",
            )
        _check_ids(top.ids, np.ones(top.ids.shape, np.bool_), self.vocabulary)
        if (
            not (np.isfinite(top.log_sum).all() and np.isfinite(top.log_p.max(axis=1)).all())
            or (top.log_p > 1e-3).any()
        ):
            raise MismatchError(
                "the teacher's answers are not log-probabilities (NaN, infinite, or above 0)",
                "look at the teacher: its weights may be damaged, or overflow in half precision",
            )


class SampledCodec:
    """Distinct ids with how often each was drawn: `width` bytes per distinct id, and how many there are per token."""

    def __init__(self, draws: int, vocabulary: int) -> None:
        self.draws, self.vocabulary = draws, vocabulary
        self.count_bits = (draws - 1).bit_length()
        self.width = max(1, -(-((vocabulary - 1).bit_length() + self.count_bits) // 8))

    def encode(self, ids: Ints, weights: Floats) -> tuple[Bytes, Bytes]:
        """[tokens] how many distinct ids, and [their sum, width] each with its count."""
        counts = np.rint(weights * self.draws).astype(np.int64)
        if (counts.sum(axis=1) != self.draws).any() or np.abs(counts - weights * self.draws).max(initial=0) > 1e-2:
            raise MismatchError(
                f"the cache keeps ids of {self.draws} draws each, but was given weights that are not such counts",
                "give it the number of draws it was made for",
            )
        used = counts > 0
        _check_ids(ids, used, self.vocabulary)
        entries = (ids[used].astype(np.int64) << self.count_bits) | (counts[used] - 1)
        return used.sum(axis=1).astype(np.uint8), _as_bytes(entries, self.width)

    def decode(self, many: Bytes, coded: Bytes) -> tuple[Ints, Floats]:
        """[tokens, most] ids and weights; unused slots are 0."""
        used = np.arange(many.max(initial=0)) < many[:, None]
        entries = (coded.astype(np.int64) << (8 * np.arange(self.width))).sum(axis=1)
        ids, weights = np.zeros(used.shape, np.int64), np.zeros(used.shape, np.float32)
        ids[used] = entries >> self.count_bits
        weights[used] = ((entries & ((1 << self.count_bits) - 1)) + 1) / self.draws
        return ids, weights


def _check_ids(ids: Ints, used: NDArray[np.bool_], vocabulary: int) -> None:
    apart = np.sort(np.where(used, ids, -1 - np.arange(ids.shape[1])), axis=1)  # unused slots differ from all
    inside = (ids[used] >= 0) & (ids[used] < vocabulary)
    if not inside.all() or (np.diff(apart, axis=1) == 0).any():
        raise MismatchError(
            f"a token's ids are not distinct numbers from 0 to {vocabulary - 1}",
            "the vocabulary of the cache is not that of the teacher; give another folder",
        )


def _steps_up(z: Floats, step: Ints) -> Ints:
    """Whole steps above the lowest. The lowest is rounded towards the largest, so that z stays under 1."""
    width = STEPS[step][:, None]
    down = np.minimum(np.rint(z / width), np.floor(z.max(axis=1, keepdims=True) / width)).astype(np.int64)
    return down.max(axis=1, keepdims=True) - down


def _planes(numbers: Ints, bits: int) -> Bytes:
    """[tokens, bits · k]: the highest bit of every number, then the next."""
    shifts = np.arange(bits)[::-1, None]
    return ((numbers[:, None, :] >> shifts) & 1).astype(np.uint8).reshape(len(numbers), bits * numbers.shape[1])


def _from_planes(planes: Bytes, bits: int, k: int) -> NDArray[np.int32]:
    numbers = np.zeros((len(planes), k), np.int32)
    for plane in range(bits):
        numbers <<= 1
        numbers |= planes[:, plane * k : (plane + 1) * k]
    return numbers


def _ones_at(rising: Ints, length: int) -> Bytes:
    """[tokens, length] bits with a one at each of the never falling numbers + its index."""
    row = np.zeros((len(rising), length), np.uint8)
    np.put_along_axis(row, rising + np.arange(rising.shape[1]), 1, axis=1)
    return row


def _positions(row: Bytes, k: int) -> NDArray[np.int32]:
    ones = np.flatnonzero(row).reshape(len(row), k)
    return (ones - (np.arange(len(row)) * row.shape[1])[:, None] - np.arange(k)).astype(np.int32)


def _log_mass(code: NDArray[np.uint16]) -> Floats:
    odds = code * ODDS_STEP - ODDS_LIMIT
    return np.where(code == CERTAIN, 0.0, -np.log1p(np.exp(-odds))).astype(np.float32)


def _log_sum_exp(x: Floats) -> Floats:
    largest = x.max(axis=1, keepdims=True)
    return (largest[:, 0] + np.log(np.exp(x - largest).sum(axis=1))).astype(np.float32)


def _as_bytes(numbers: Ints, width: int) -> Bytes:
    return ((numbers[:, None] >> (8 * np.arange(width))) & 255).astype(np.uint8)
