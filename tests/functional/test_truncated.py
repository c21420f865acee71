"""The truncated softmax and drawn targets against numbers computed by hand and by float64."""

import pytest
import torch

from limbeck.core.errors import MismatchError
from limbeck.core.trace import Top
from limbeck.functional.divergence import kl
from limbeck.functional.truncated import draw, drawn_cross_entropy, top_of, truncated_loss

V = torch.tensor([[3.0, 2, 1, 0, -1]], dtype=torch.float64)
Z = torch.tensor([[2.0, 2.5, 0, 0.5, -1]], dtype=torch.float64)
FORMS = ("raw", "renorm", "renorm-both", "tail")


def value(form, k, teacher=V, student=Z, temperature=1.0):
    top = top_of(teacher, k, temperature)
    return truncated_loss(form, top, (student / temperature).log_softmax(-1), temperature)


def gradient(form, k, teacher=V, student=Z, temperature=1.0):
    student = student.clone().requires_grad_()
    value(form, k, teacher, student, temperature).sum().backward()
    return student.grad


def reference(form, teacher, student, k, temperature):
    """Token by token, from probabilities."""
    found = []
    for t, s in zip(teacher, student, strict=True):
        p, q = (t / temperature).softmax(0), (s / temperature).softmax(0)
        kept = sorted(range(len(t)), key=lambda i: (-t[i].item(), i))[:k]
        m, r = p[kept].sum(), q[kept].sum()
        shares = p[kept] / m
        found.append(
            {
                "raw": -(p[kept] * q[kept].log()).sum(),
                "renorm": (shares * (shares / q[kept]).log()).sum(),
                "renorm-both": (shares * (shares / (q[kept] / r)).log()).sum(),
                "tail": (p[kept] * (p[kept] / q[kept]).log()).sum()
                + ((1 - m) * ((1 - m) / (1 - r)).log() if k < len(t) else 0),
            }[form]
        )
    return torch.stack(found)


@pytest.mark.parametrize(
    ("form", "k", "expected"),
    [
        ("raw", 2, 0.855692),
        ("renorm", 2, 0.400752),
        ("renorm-both", 2, 0.257403),
        ("tail", 2, 0.224150),
        ("tail", 3, 0.254164),
        ("tail", 4, 0.255145),
    ],
)
def test_the_table(form, k, expected):
    assert value(form, k).item() == pytest.approx(expected, abs=1e-6)


def test_the_mass_and_the_renormalised_cross_entropy_of_the_table():
    top = top_of(V, 2)
    mass = top.log_p.exp().sum()
    assert mass.item() == pytest.approx(0.870530, abs=1e-6)
    shares = top.log_p.exp() / mass
    cross_entropy = value("renorm", 2) - (shares * shares.log()).sum()
    assert cross_entropy.item() == pytest.approx(0.982955, abs=1e-6)
    assert (value("raw", 2) / mass).item() == pytest.approx(cross_entropy.item(), abs=1e-12)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("k", [1, 4, 20])
@pytest.mark.parametrize("form", FORMS)
def test_any_row_equals_the_reference(form, k, temperature):
    torch.manual_seed(k)
    teacher, student = 2 * torch.randn(2, 6, 20, dtype=torch.float64)
    expected = reference(form, teacher, student, k, temperature)
    assert torch.allclose(value(form, k, teacher, student, temperature), expected, atol=1e-12)
    in_float = value(form, k, teacher.float(), student.float(), temperature)
    assert torch.allclose(in_float.double(), expected, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_the_whole_vocabulary_is_the_full_loss(form):
    full = kl(V, Z)
    assert full.item() == pytest.approx(0.255145, abs=1e-6)
    entropy = 1.255118 - 0.255145 if form == "raw" else 0.0
    assert value(form, 5).item() == pytest.approx(full.item() + entropy, abs=1e-6)
    assert value(form, 9).item() == value(form, 5).item()


def test_the_tail_grows_with_k_to_the_full_kl():
    torch.manual_seed(0)
    teacher, student = torch.randn(2, 30, 12, dtype=torch.float64)
    curve = torch.stack([value("tail", k, teacher, student) for k in range(1, 13)])
    assert (curve.diff(dim=0) >= -1e-12).all()
    assert torch.allclose(curve[-1], kl(teacher, student), atol=1e-12)
    assert torch.allclose(curve[-2], kl(teacher, student), atol=1e-12)


def test_one_word():
    assert value("renorm", 1).item() == pytest.approx(-Z.log_softmax(-1)[0, 0].item(), abs=1e-12)
    assert value("renorm-both", 1).item() == 0
    assert gradient("renorm-both", 1).abs().max() == 0


def test_the_gradient_of_raw():
    p, q = V.softmax(-1), Z.softmax(-1)
    kept = torch.tensor([[1.0, 1, 0, 0, 0]], dtype=torch.float64)
    found = gradient("raw", 2)
    assert torch.allclose(found, (p * kept).sum() * q - p * kept, atol=1e-12)
    assert found.sum().item() == pytest.approx(0, abs=1e-12)


def test_where_each_form_has_its_minimum():
    p = V.softmax(-1)
    inside = p[:, :2].sum()
    moved = p.clone()
    moved[:, 2:] = (1 - inside) / 3  # the right top and the right mass of the rest, but another rest
    assert value("tail", 2, student=moved.log()).item() == pytest.approx(0, abs=1e-12)
    assert gradient("tail", 2, student=moved.log()).abs().max() < 1e-12
    overconfident = torch.tensor([[3.0, 2, -60, -60, -60]], dtype=torch.float64)  # p/m inside, nothing outside
    for form in ("renorm", "renorm-both"):
        assert value(form, 2, student=overconfident).item() == pytest.approx(0, abs=1e-12)
        assert gradient(form, 2, student=overconfident).abs().max() < 1e-12
    assert gradient("raw", 2, student=overconfident).abs().max() < 1e-12
    assert gradient("renorm", 2, student=V).abs().max() > 0.01


# ties


def test_equals_are_taken_by_the_lower_id():
    logits = torch.tensor([[1.0, 2, 1, 2, 1, 0], [0, 0, 0, 0, 0, 0], [5, 1, 1, 1, 9, 9], [0, 1, 2, 3, 4, 5]])
    assert top_of(logits, 3).ids.tolist() == [[1, 3, 0], [0, 1, 2], [4, 5, 0], [5, 4, 3]]
    assert top_of(logits, 6).ids.tolist()[:2] == [[1, 3, 0, 2, 4, 5], [0, 1, 2, 3, 4, 5]]


@pytest.mark.parametrize("k", [1, 3, 8, 50, 64])
def test_the_choice_is_that_of_a_stable_sort(k):
    torch.manual_seed(k)
    logits = torch.randint(0, 9, (40, 64)).float()  # many ties
    logits[::7] = -torch.inf
    logits[::7, 5] = 0.0
    stable = logits.sort(dim=-1, descending=True, stable=True).indices[:, :k]
    assert torch.equal(top_of(logits, k).ids, stable)


def test_what_a_top_holds():
    torch.manual_seed(0)
    logits = torch.randn(4, 10, dtype=torch.float64)
    top = top_of(logits, 3, temperature=2.0)
    assert torch.allclose(top.log_sum, logits.exp().sum(-1).log())
    assert torch.allclose(top.log_p.exp(), logits.softmax(-1).gather(-1, top.ids))
    softened = (logits / 2).softmax(-1).gather(-1, top.ids)
    assert torch.allclose((top.log_p / 2 - top.softened[:, None]).exp(), softened)
    assert top_of(logits.half(), 3).log_p.dtype == torch.float32


# temperature


def test_renormalised_forms_serve_any_temperature_the_others_only_the_stored_one():
    made_at_two, log_q = top_of(V, 3, 2.0), (Z / 5).log_softmax(-1)
    for form in ("renorm", "renorm-both"):
        assert torch.equal(truncated_loss(form, made_at_two, log_q, 5.0), value(form, 3, temperature=5.0))
    for form in ("raw", "tail"):
        assert torch.equal(truncated_loss(form, made_at_two, Z.log_softmax(-1), 1.0), value(form, 3))
        with pytest.raises(MismatchError, match="T = 1 and T = 2, not at T = 5"):
            truncated_loss(form, made_at_two, log_q, 5.0)


# the edges of the tail


@pytest.mark.parametrize("gap", [5.0, 20.0, 100.0, 1e4])
def test_a_student_that_leaves_nothing_to_the_rest_is_still_told_so(gap):
    """1 − Σ q over the top is 0 in float32 long before the student's rest is."""
    student = torch.tensor([[gap, gap, 0.0, 0.5, -1.0]])
    exact = reference("tail", V, student.double(), 2, 1.0)
    if gap < 30:  # beyond, float64 has no digits left either
        assert value("tail", 2, V.float(), student).item() == pytest.approx(exact.item(), rel=1e-4)
    p, q = V.softmax(-1), student.double().softmax(-1)
    rest = student.double()[:, 2:].softmax(-1)
    expected = torch.cat([q[:, :2] - p[:, :2], q[:, 2:] - p[:, 2:].sum() * rest], -1)
    assert torch.allclose(gradient("tail", 2, V.float(), student).double(), expected, atol=1e-4)


def test_a_teacher_that_leaves_nothing_to_the_rest():
    teacher = torch.tensor([[200.0, 199, 0, 0, 0]])
    for student in (teacher, Z.float()):
        assert torch.isfinite(value("tail", 2, teacher, student)).all()
        assert torch.isfinite(gradient("tail", 2, teacher, student)).all()
    assert value("tail", 2, teacher, teacher).item() == pytest.approx(0, abs=1e-6)


def test_a_mass_rounded_above_one_does_no_harm():
    top = top_of(V.float(), 4)
    log_p = top.log_p - top.log_p.logsumexp(-1, keepdim=True) + 1e-3
    found = truncated_loss("tail", Top(top.ids, log_p, top.log_sum, top.softened), Z.float().log_softmax(-1))
    assert torch.isfinite(found).all()


# drawn targets


def test_drawn_targets_are_unbiased_and_so_is_their_gradient():
    times = 200_000
    p = V.softmax(-1)[0]
    drawn = draw(V.expand(times, -1), 4, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(drawn.weights.sum(-1), torch.ones(times, dtype=torch.float64))
    target = torch.zeros(times, 5, dtype=torch.float64).scatter_add_(-1, drawn.ids, drawn.weights)
    assert torch.equal((target * 4).round(), target * 4)
    assert (target.mean(0) - p).abs().max() < 0.001
    student = Z.clone().requires_grad_()
    drawn_cross_entropy(drawn, student.log_softmax(-1).expand(times, -1)).mean().backward()
    assert (student.grad[0] - (Z.softmax(-1)[0] - p)).abs().max() < 0.001


def test_cutting_at_the_top_is_biased_by_exactly_what_it_drops():
    kept = torch.zeros(5, dtype=torch.float64)
    top = top_of(V, 2)
    kept[top.ids[0]] = top.log_p[0].exp()
    assert torch.allclose(V.softmax(-1)[0] - kept, torch.tensor([0, 0, *V.softmax(-1)[0, 2:]], dtype=torch.float64))


def test_drawn_ids_are_distinct_and_softened():
    torch.manual_seed(0)
    drawn = draw(torch.randn(50, 30), 20, temperature=2.0)
    assert drawn.temperature == 2.0
    for ids, weights in zip(drawn.ids, drawn.weights, strict=True):
        used = ids[weights > 0]
        assert len(used.unique()) == len(used)
    cold = draw(V.expand(100, -1), 10, temperature=0.01)
    assert cold.ids.shape == (100, 1)
    assert (cold.ids == 0).all()


def test_one_generator_one_draw():
    one, two, other = (draw(V.expand(9, -1), 5, generator=torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(one.ids, two.ids)
    assert one.ids.shape != other.ids.shape or not torch.equal(one.ids, other.ids)


def test_nothing_to_draw_from():
    assert len(draw(torch.empty(0, 5), 3)) == 0
    assert len(top_of(torch.empty(0, 5), 3)) == 0
