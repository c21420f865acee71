"""The chunked loss is the dense loss, without the tensor the dense one needs."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from limbeck.core.trace import Projection
from limbeck.functional.chunked import chunked
from limbeck.functional.divergence import kl_family
from limbeck.functional.softmax import chunk_size, log_softmax, pick
from limbeck.functional.truncated import top_of, truncated_loss

TOKENS, WIDTH, VOCABULARY = 23, 6, 41


def inputs(dtype=torch.float32, bias=True, tokens=TOKENS):
    torch.manual_seed(0)
    features = torch.randn(tokens, WIDTH, dtype=dtype, requires_grad=True)
    weight = torch.randn(VOCABULARY, WIDTH, dtype=dtype, requires_grad=True)
    added = torch.randn(VOCABULARY, dtype=dtype, requires_grad=True) if bias else torch.empty(0, dtype=dtype)
    words = torch.randint(VOCABULARY, (tokens,))
    teacher = torch.randn(tokens, VOCABULARY, dtype=dtype)
    return Projection(features, weight, added), words, teacher


def two_terms(words, teacher):
    """Sums of a sparse and a dense term."""

    def each(logits, tokens):
        log_q = log_softmax(logits)
        language = -pick(log_q, words[tokens, None]).sum()
        whole = kl_family(teacher[tokens].log_softmax(-1), log_q).sum()
        return torch.stack([language, whole])

    return each


def dense(student, words, teacher, weights):
    logits = student.logits()
    language = F.cross_entropy(logits, words, reduction="sum")
    whole = F.kl_div(logits.log_softmax(-1), teacher.log_softmax(-1), reduction="sum", log_target=True)
    return weights[0] * language + weights[1] * whole


def gradients(total, student):
    leaves = [x for x in (student.features, student.weight, student.bias) if x.requires_grad]
    return torch.autograd.grad(total, leaves)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("size", [1, 7, TOKENS, 1000, 0])
@pytest.mark.parametrize("weights", [(0.7, 0.3), (1.0, 0.0), (0.0, 2.0)])
def test_loss_and_gradients_are_the_dense_ones(bias, size, weights):
    student, words, teacher = inputs(bias=bias)
    weights = torch.tensor(weights) / TOKENS
    total, terms = chunked(student, two_terms(words, teacher), weights, size)
    expected = dense(student, words, teacher, weights)
    assert torch.allclose(total, expected, atol=1e-6)
    assert torch.allclose((weights * terms).sum(), total, atol=1e-6)
    assert not terms.requires_grad
    for found, wanted in zip(gradients(total, student), gradients(expected, student), strict=True):
        assert torch.allclose(found, wanted, atol=1e-6)


def test_float64_gradients_by_finite_differences():
    student, words, teacher = inputs(torch.float64, tokens=5)

    def total(features, weight, bias):
        projection = Projection(features, weight, bias)
        return chunked(projection, two_terms(words, teacher), torch.tensor([0.7, 0.3], dtype=torch.float64), 2)[0]

    assert torch.autograd.gradcheck(total, (student.features, student.weight, student.bias), fast_mode=True)


def test_a_tied_weight_gets_both_gradients():
    student, words, teacher = inputs()
    weights = torch.tensor([0.7, 0.3]) / TOKENS
    found = []
    for way in ("chunked", "dense"):
        student.weight.grad = None
        tied = Projection(torch.tanh(student.weight[words]), student.weight, student.bias)
        if way == "chunked":
            chunked(tied, two_terms(words, teacher), weights, 7)[0].backward()
        else:
            dense(tied, words, teacher, weights).backward()
        found.append(student.weight.grad.clone())
    assert torch.allclose(*found, atol=1e-6)


@pytest.mark.parametrize("asked", ["features", "weight", "bias"])
def test_only_what_is_asked_for_is_computed(asked):
    student, words, teacher = inputs()
    frozen = Projection(*(getattr(student, n) if n == asked else getattr(student, n).detach() for n in vars(student)))
    weights = torch.tensor([1.0, 1.0])
    (found,) = gradients(chunked(frozen, two_terms(words, teacher), weights, 7)[0], frozen)
    (wanted,) = gradients(dense(frozen, words, teacher, weights), frozen)
    assert torch.allclose(found, wanted, atol=1e-5)


def test_without_gradients():
    student, words, teacher = inputs()
    weights = torch.tensor([1.0, 1.0])
    with torch.no_grad():
        total, _ = chunked(student, two_terms(words, teacher), weights, 7)
        assert torch.allclose(total, dense(student, words, teacher, weights), rtol=1e-6)
    assert not total.requires_grad


def test_no_tokens_give_zero_and_zero_gradients():
    student, words, teacher = inputs(tokens=0)
    total, terms = chunked(student, two_terms(words, teacher), torch.tensor([1.0, 1.0]))
    assert total.item() == 0
    assert terms.tolist() == [0, 0]
    assert all((g == 0).all() for g in gradients(total, student))


def test_logits_that_are_there_already_are_taken_as_they_are():
    student, words, teacher = inputs()
    weights = torch.tensor([0.7, 0.3]) / TOKENS
    for tokens in (slice(None), slice(0)):
        logits = student.logits().detach()[tokens].requires_grad_()
        total, terms = chunked(Projection(logits), two_terms(words[tokens], teacher[tokens]), weights)
        part = Projection(student.features[tokens], student.weight, student.bias)
        assert torch.allclose(total, dense(part, words[tokens], teacher[tokens], weights), atol=1e-6)
        assert torch.allclose((weights * terms).sum(), total, atol=1e-6)
        assert torch.autograd.grad(total, logits)[0].shape == logits.shape


def test_a_scaled_loss_scales_its_gradients():
    student, words, teacher = inputs()
    each, weights = two_terms(words, teacher), torch.tensor([1.0, 1.0])
    once = gradients(chunked(student, each, weights, 7)[0], student)
    scaled = gradients(128 * chunked(student, each, weights, 7)[0], student)
    assert all(torch.equal(128 * a, b) for a, b in zip(once, scaled, strict=True))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_sums_in_float32(dtype):
    """Many chunks: a sum kept in half precision would stop growing."""
    torch.manual_seed(0)
    features = torch.randn(4000, WIDTH).to(dtype).requires_grad_()
    weight = torch.randn(VOCABULARY, WIDTH).to(dtype).requires_grad_()
    words = torch.zeros(4000, dtype=torch.int64)
    student = Projection(features, weight, torch.empty(0, dtype=dtype))
    weights = torch.tensor([1 / 4000])
    total, _ = chunked(student, lambda z, t: -pick(log_softmax(z), words[t, None]).sum()[None], weights, 4)
    wide = Projection(*(x.detach().float().requires_grad_() for x in (features, weight)), torch.empty(0))
    expected = F.cross_entropy(wide.logits(), words)
    assert total.item() == pytest.approx(expected.item(), rel=1e-2)
    for found, wanted in zip(gradients(total, student), gradients(expected, wide), strict=True):
        assert found.dtype == dtype
        assert (found.float() - wanted).norm() < 0.02 * wanted.norm()


def test_under_autocast_it_projects_as_a_linear_layer_does():
    student, words, teacher = inputs()
    weights = torch.tensor([1.0, 1.0]) / TOKENS
    with torch.autocast("cpu", dtype=torch.bfloat16):
        total, _ = chunked(student, two_terms(words, teacher), weights, 7)
        logits = F.linear(student.features, student.weight, student.bias)
    assert logits.dtype == torch.bfloat16
    expected = weights[0] * F.cross_entropy(logits.float(), words, reduction="sum")
    expected = expected + weights[1] * kl_family(teacher.log_softmax(-1), logits.float().log_softmax(-1)).sum()
    assert total.item() == pytest.approx(expected.item(), rel=1e-3)
    for found, wanted in zip(gradients(total, student), gradients(expected, student), strict=True):
        assert found.dtype == torch.float32
        assert (found - wanted).norm() < 0.03 * wanted.norm()


def test_behind_a_model_in_mixed_precision_it_projects_as_its_head_did():
    """The trainer leaves autocast with the forward pass: half-precision features meet float32 weights."""
    student, words, teacher = inputs()
    weights = torch.tensor([1.0, 1.0]) / TOKENS
    half = replace(student, features=student.features.bfloat16())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected, _ = chunked(student, two_terms(words, teacher), weights, 7)
    total, _ = chunked(half, two_terms(words, teacher), weights, 7)
    assert total.item() == expected.item()
    assert all(torch.equal(*pair) for pair in zip(gradients(total, student), gradients(expected, student), strict=True))
    assert torch.equal(half.logits(), replace(student, features=half.features.float()).logits())


class Largest(TorchDispatchMode):
    """The most elements of any tensor an operation gave."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else (out,):
            if isinstance(x, torch.Tensor):
                self.elements = max(self.elements, x.numel())
        return out


def test_no_tensor_of_tokens_by_vocabulary_is_made():
    torch.manual_seed(0)
    tokens, vocabulary, size = 64, 500, 8
    features, weight = torch.randn(tokens, 4, requires_grad=True), torch.randn(vocabulary, 4, requires_grad=True)
    student, words = Projection(features, weight, torch.zeros(vocabulary)), torch.randint(vocabulary, (tokens,))
    top = top_of(torch.randn(tokens, vocabulary), 5)

    def each(logits, part):
        log_q = log_softmax(logits)
        return torch.stack([-pick(log_q, words[part, None]).sum(), truncated_loss("tail", top.rows(part), log_q).sum()])

    with Largest() as seen:
        chunked(student, each, torch.tensor([1.0, 1.0]), size)[0].backward()
    assert seen.elements == size * vocabulary
    with Largest() as seen:
        F.cross_entropy(student.logits(), words).backward()
    assert seen.elements == tokens * vocabulary


def test_chunks_are_large_enough_for_fast_products():
    assert [chunk_size(v) for v in (100, 30_522, 151_936, 10**7)] == [50_000, 160, 32, 32]


# log_softmax and pick


@pytest.mark.parametrize("temperature", [1.0, 0.5, 3.0])
@pytest.mark.parametrize("use", ["picked", "twice", "whole", "mixed"])
def test_log_softmax_is_that_of_torch(temperature, use):
    torch.manual_seed(0)
    ids, others = torch.randint(30, (2, 5, 4))
    factors = torch.randn(5, 30, dtype=torch.float64)

    def total(log_q):
        parts = []
        if use != "whole":
            parts.append((factors[:, :4] * pick(log_q, ids)).sum())
        if use == "twice":
            parts.append(pick(log_q, others).square().sum())
        if use in ("whole", "mixed"):
            parts.append((factors * log_q.exp()).sum())
        return sum(parts)

    ours, torchs = (torch.randn(5, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) for _ in "ab")
    found = total(log_softmax(ours.requires_grad_(), temperature))
    expected = total((torchs.requires_grad_() / temperature).log_softmax(-1))
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)
    found.backward()
    expected.backward()
    assert torch.allclose(ours.grad, torchs.grad, atol=1e-12)


def test_log_softmax_refuses_a_second_backward_pass():
    logits = torch.randn(3, 5, requires_grad=True)
    picked = pick(log_softmax(logits), torch.zeros(3, 1, dtype=torch.int64)).sum()
    picked.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="inplace"):
        picked.backward()


def test_log_softmax_widens_halves():
    logits = torch.full((1, 30_000), 5.0, dtype=torch.float16)
    assert log_softmax(logits, 0.01)[0, 0].item() == pytest.approx(-math.log(30_000), rel=1e-5)
