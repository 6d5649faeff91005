import itertools
import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, OrthogonalMatchingPursuit

from skinny.errors import SkinnyError
from skinny.iht.ght import ght, least_squares, logistic

D = 200


def sparse_vector(seed, k, d=D):
    """k entries of magnitude 1 to 2 and either sign, at random places."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.zeros(d, dtype=torch.float64)
    places = torch.randperm(d, generator=generator)[:k]
    signs = torch.randint(0, 2, (k,), generator=generator) * 2 - 1
    x[places] = signs * (1 + torch.rand(k, generator=generator, dtype=torch.float64))
    return x


def gaussian(seed, m, d=D):
    generator = torch.Generator().manual_seed(1000 + seed)
    return torch.randn(m, d, generator=generator, dtype=torch.float64)


def zeros(d=D):
    return torch.zeros(d, dtype=torch.float64)


@pytest.mark.parametrize("seed", range(25))
def test_least_squares_recovers_the_support_exactly(seed):
    truth, A = sparse_vector(seed, k=10), gaussian(seed, m=100)
    found = ght(least_squares(A, A @ truth), zeros(), 10)
    assert found.converged
    assert torch.equal(found.support, truth != 0)
    torch.testing.assert_close(found.x, truth)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_scale_of_the_data_does_not_matter(scale):
    truth, A = sparse_vector(0, k=10), scale * gaussian(0, m=100)
    found = ght(least_squares(A, A @ truth), zeros(), 10)
    assert torch.equal(found.support, truth != 0)


@pytest.mark.parametrize("seed", range(10))
def test_noise_moves_the_values_but_not_the_support(seed):
    truth, A = sparse_vector(seed, k=10), gaussian(seed, m=120)
    noise = 0.1 * gaussian(seed + 50, m=120, d=1)[:, 0]
    found = ght(least_squares(A, A @ truth + noise), zeros(), 10)
    assert torch.equal(found.support, truth != 0)
    support = truth != 0
    expected = np.linalg.lstsq(A[:, support].numpy(), (A @ truth + noise).numpy())[0]
    np.testing.assert_allclose(found.x[support].numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_the_error_decreases_geometrically(seed):
    """||x(t) - x*|| <= rho ||x(t-1) - x*|| with rho < 1, until it is zero."""
    truth, A = sparse_vector(seed, k=30), gaussian(seed, m=150)
    objective = least_squares(A, A @ truth)
    errors = [float(truth.norm())]
    while errors[-1] > 1e-9 and len(errors) < 20:
        x = ght(objective, zeros(), 30, max_iterations=len(errors)).x
        errors.append(float((x - truth).norm()))
    assert errors[-1] <= 1e-9
    assert len(errors) > 3  # else this would be about a single lucky step
    assert all(after <= 0.9 * before for before, after in itertools.pairwise(errors))


@pytest.mark.parametrize("seed", range(10))
def test_the_step_size_it_finds_does_not_stop_where_a_short_one_would(seed):
    """Near the limit of recovery, where a small step size stops at a poor fixed point."""
    truth, A = sparse_vector(seed, k=20), gaussian(seed, m=100)
    found = ght(least_squares(A, A @ truth), zeros(), 20)
    short = ght(least_squares(A, A @ truth), zeros(), 20, step_size=0.1)
    assert torch.equal(found.support, truth != 0)
    assert found.values[-1] <= short.values[-1]


@pytest.mark.parametrize("seed", range(10))
def test_the_objective_never_increases(seed):
    A, b = gaussian(seed, m=60), gaussian(seed + 100, m=60, d=1)[:, 0]
    values = ght(least_squares(A, b), zeros(), 15).values
    assert len(values) > 1
    assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(values))


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_orthogonal_matching_pursuit_on_sparse_signals(seed):
    truth, A = sparse_vector(seed, k=8), gaussian(seed, m=120)
    peer = OrthogonalMatchingPursuit(n_nonzero_coefs=8, fit_intercept=False)
    peer.fit(A.numpy(), (A @ truth).numpy())
    found = ght(least_squares(A, A @ truth), zeros(), 8)
    np.testing.assert_allclose(found.x.numpy(), peer.coef_, atol=1e-9)


@pytest.mark.parametrize("k", [1, 5, 20, 40])
def test_agrees_with_orthogonal_matching_pursuit_on_any_signal_if_columns_are_orthonormal(k):
    A = torch.linalg.qr(gaussian(k, m=80, d=40)).Q
    b = gaussian(k + 100, m=80, d=1)[:, 0]
    peer = OrthogonalMatchingPursuit(n_nonzero_coefs=k, fit_intercept=False)
    peer.fit(A.numpy(), b.numpy())
    found = ght(least_squares(A, b), zeros(40), k)
    np.testing.assert_allclose(found.x.numpy(), peer.coef_, atol=1e-10)


@pytest.mark.parametrize(("seed", "labels"), [(0, (-1, 1)), (1, (0, 1)), (2, (0, 1)), (3, (-1, 1))])
def test_logistic_loss_recovers_the_support(seed, labels):
    truth, A = sparse_vector(seed, k=5, d=60), gaussian(seed, m=1000, d=60)
    generator = torch.Generator().manual_seed(seed)
    positive = torch.rand(1000, generator=generator) < torch.sigmoid(A @ truth)
    y = torch.where(positive, labels[1], labels[0])
    found = ght(logistic(A, y), zeros(60), 5)
    assert found.converged
    assert torch.equal(found.support, truth != 0)


def test_logistic_values_are_those_of_scikit_learn_on_the_support():
    truth, A = sparse_vector(0, k=5, d=60), gaussian(0, m=500, d=60)
    y = (A @ truth + gaussian(1, m=500, d=1)[:, 0] > 0).double()
    found = ght(logistic(A, y, l2=1e-2), zeros(60), 5)
    peer = LogisticRegression(C=1 / (500 * 1e-2), fit_intercept=False, tol=1e-10, max_iter=1000)
    peer.fit(A[:, found.support].numpy(), y.numpy())
    np.testing.assert_allclose(found.x[found.support].numpy(), peer.coef_[0], rtol=1e-5)


def test_any_torch_objective_of_any_shape():
    """Huber regression of a [20, 10] matrix; every tenth measurement is grossly wrong."""
    truth, A = sparse_vector(3, k=6), gaussian(3, m=150)
    b = A @ truth
    b[::10] += 50

    def huber(x):
        return torch.nn.functional.huber_loss(A @ x.flatten(), b, delta=0.5)

    found = ght(huber, zeros().view(20, 10), 6)
    assert torch.equal(found.support, (truth != 0).view(20, 10))
    assert float((found.x.flatten() - truth).norm()) < 0.2
    # squares, in contrast, chase the outliers
    assert float((ght(least_squares(A, b), zeros(), 6).x - truth).norm()) > 0.5


def test_single_precision_is_kept():
    truth, A = sparse_vector(0, k=10).float(), gaussian(0, m=100).float()
    found = ght(least_squares(A, A @ truth), torch.zeros(D), 10)
    assert found.x.dtype == torch.float32
    assert torch.equal(found.support, truth != 0)


@pytest.mark.parametrize("k", [1, 7, D])
def test_exactly_k_entries_are_free_and_the_rest_is_zero(k):
    A, b = gaussian(0, m=50), gaussian(1, m=50, d=1)[:, 0]
    found = ght(least_squares(A, b), zeros(), k)
    assert int(found.support.sum()) == k
    assert not found.x[~found.support].any()


def test_more_columns_than_rows_on_the_support_fit_exactly():
    A, b = gaussian(0, m=20), gaussian(1, m=20, d=1)[:, 0]
    assert ght(least_squares(A, b), zeros(), 50).values[-1] < 1e-20


def test_a_given_step_size_is_that_of_s1():
    """One iteration by hand: F is where |x0 - eta grad f(x0)| is largest, then least squares."""
    A, b = gaussian(0, m=100), gaussian(1, m=100, d=1)[:, 0]
    x0, eta = sparse_vector(5, k=10), 0.3
    moved = x0 - eta * A.T @ (A @ x0 - b) / 100
    F = moved.abs().topk(10).indices.sort().values
    found = ght(least_squares(A, b), x0, 10, step_size=eta, max_iterations=1)
    assert torch.equal(found.support.nonzero()[:, 0], F)
    expected = np.linalg.lstsq(A[:, F].numpy(), b.numpy())[0]
    np.testing.assert_allclose(found.x[F].numpy(), expected, rtol=1e-9)
    assert (found.converged, found.iterations) == (False, 1)


def test_the_start_is_left_alone_and_a_solution_stays_one():
    truth, A = sparse_vector(0, k=10), gaussian(0, m=100)
    start = truth.clone()
    found = ght(least_squares(A, A @ truth), start, 10)
    assert torch.equal(start, truth)
    torch.testing.assert_close(found.x, truth)


A, B = gaussian(0, m=5, d=4), gaussian(1, m=5, d=1)[:, 0]
NAN = torch.tensor([math.nan, 0, 0, 0], dtype=torch.float64)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ght(least_squares(A, B), zeros(4), 0), r"k is 0, .* in \[1, 4\]"),
        (lambda: ght(least_squares(A, B), zeros(4), 5), r"k is 5, .* in \[1, 4\]"),
        (lambda: ght(least_squares(A, B), zeros(4), 1.5), r"k is 1.5"),
        (lambda: ght(least_squares(A, B), zeros(3), 1), r"x must have shape \[4\] .* got \[3\]"),
        (lambda: ght(least_squares(A, B), torch.zeros(4), 1), "got .*float32"),
        (lambda: ght(least_squares(A, B), torch.zeros(4, dtype=torch.int), 1), "floating-point"),
        (lambda: ght(least_squares(A, B), NAN, 1), "x0 has NaN"),
        (lambda: ght(least_squares(A, B), zeros(4), 1, step_size=0.0), "step_size is 0.0"),
        (lambda: ght(least_squares(A, B), zeros(4), 1, max_iterations=0), "max_iterations is 0"),
        (lambda: least_squares(A, B[:3]), r"got \[5, 4\] and \[3\]"),
        (lambda: least_squares(A[0], B), r"got \[4\] and \[5\]"),
        (lambda: least_squares(A, B * math.nan), "A or b has NaN"),
        (lambda: least_squares(A.long(), B), "floating-point"),
        (lambda: logistic(A, torch.tensor([0, 1, 2, 1, 0])), "labels -1 and 1, or 0 and 1"),
        (lambda: logistic(A, torch.tensor([0, 1, -1, 1, 0])), "labels -1 and 1, or 0 and 1"),
        (lambda: logistic(A, B > 0, l2=-1), "l2 is -1"),
        (lambda: ght(lambda x: x, zeros(4), 1), "one value"),
        (lambda: ght(lambda x: x.log().sum(), zeros(4), 1), "objective is -inf at x0"),
        (lambda: ght(lambda x: x.detach().sum(), zeros(4), 1), "differentiate"),
        (lambda: ght(lambda x: x.abs().sqrt().sum(), zeros(4), 1), "gradient .* NaN"),
        (
            lambda: ght(least_squares(1e9 * A, B), zeros(4), 1, step_size=1e308),
            "a step size of 1e\\+308 leaves",
        ),
    ],
)
def test_bad_inputs_are_clear_errors(call, message):
    with pytest.raises(SkinnyError, match=message):
        call()
