"""Gradient hard thresholding pursuit: the convex ancestor of the method (section 2 of the paper).

Solves min f(x) subject to ||x||_0 <= k for a smooth convex f (Yuan, Li, Zhang 2013) by repeating

    S1   x~ = x(t-1) - eta grad f(x(t-1))
    S2   F  = supp(x~, k),  x~ = O_k(x~)
    S3   x(t) = argmin { f(x) : supp(x) within F }

until F no longer changes. Nothing here knows about networks: there S3 cannot be solved, and
thresholding every iteration would never let a truncated weight grow back (section 3.2).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from skinny.errors import SkinnyError
from skinny.iht.threshold import magnitude_mask


@dataclass(frozen=True)
class Objective:
    """A smooth convex f, and how to minimise it on a support.

    value:     x -> f(x), a scalar that torch can differentiate
    minimise:  (x~, F as a bool tensor) -> argmin { f(x) : supp(x) within F }, started from x~
    """

    value: Callable[[Tensor], Tensor]
    minimise: Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class GHTResult:
    """The solution, its support F (bool, exactly k True), and f after 0, 1, 2, ... iterations.

    `converged` is False when `max_iterations` ended the search before the support settled.
    """

    x: Tensor
    support: Tensor
    values: tuple[float, ...]
    converged: bool

    @property
    def iterations(self) -> int:
        return len(self.values) - 1


def ght(
    objective: Objective | Callable[[Tensor], Tensor],
    x0: Tensor,
    k: int,
    *,
    step_size: float | None = None,
    max_iterations: int = 100,
    tolerance: float = 1e-6,
) -> GHTResult:
    """min f(x) subject to ||x||_0 <= k, from x0 (of any shape; zeros will do).

    `objective` is `least_squares(...)`, `logistic(...)`, or any function of x that returns a
    differentiable scalar; S3 is then solved by L-BFGS on the support.

    `step_size` is eta of S1. Without it each iteration finds its own: the largest eta, up to a
    factor of two, at which f lies below the quadratic model that S1 and S2 minimise,

        f(x~) <= f(x) + <grad f(x), x~ - x> + ||x~ - x||^2 / (2 eta).

    As x~ - x has at most 2k non-zeros this follows the curvature of f on sparse directions, which
    may be far below that of f at large. Where F then settles, step sizes two, four and eight times
    as large are tried, and the first that lowers f after S3 is taken: they leave poor fixed points.
    f never increases. A given step size is used as it is: one that is too large may cycle between
    supports for ever, one that is too small stops at a poor fixed point.

    Converged means: F is what it was an iteration ago, and x moved by at most `tolerance` times
    max(1, ||x||).
    """
    if not isinstance(objective, Objective):
        objective = Objective(objective, _lbfgs(objective))
    _check(objective, x0, k, step_size, max_iterations)
    now = _Iterate(x0.detach().clone(), None, float(_value(objective, x0.detach())))
    values = [now.value]
    eta = step_size
    for _ in range(max_iterations):
        gradient = _gradient(objective, now.x)
        if step_size is None:
            eta = _find_step_size(objective, now, gradient, k, eta)
        assert eta is not None
        after = _iterate(objective, now.x, gradient, k, eta)
        settled = _settled(now, after, tolerance)
        if settled and step_size is None:
            worth = 1e-6 * abs(after.value) + torch.finfo(x0.dtype).eps * abs(values[0])
            longer = (_iterate(objective, now.x, gradient, k, c * eta) for c in (2, 4, 8))
            better = next((other for other in longer if other.value < after.value - worth), None)
            after, settled = better or after, better is None
        values.append(after.value)
        if not math.isfinite(after.value):
            raise SkinnyError(
                f"the objective is {after.value} after {len(values) - 1} iterations; "
                "give a smaller step_size, or none"
            )
        now = after
        if settled:
            break
    assert now.support is not None
    return GHTResult(now.x, now.support, tuple(values), settled)


def least_squares(A: Tensor, b: Tensor) -> Objective:
    """f(x) = ||A x - b||^2 / (2 m), with A of shape [m, d] and b of shape [m]; S3 in closed form.

    Where the columns of a support are linearly dependent, S3 takes the solution of least norm.
    """
    _check_data(A, b, "b")
    b = b.to(A.dtype)

    def value(x: Tensor) -> Tensor:
        _check_variable(x, A)
        return (A @ x - b).square().sum() / (2 * A.shape[0])

    def minimise(x: Tensor, support: Tensor) -> Tensor:
        # not lstsq: off the CPU it has no driver for dependent columns
        solution = torch.zeros_like(x)
        solution[support] = torch.linalg.pinv(A[:, support]) @ b
        return solution

    return Objective(value, minimise)


def logistic(A: Tensor, y: Tensor, l2: float = 1e-4) -> Objective:
    """f(x) = mean_i log(1 + exp(-y_i <a_i, x>)) + l2/2 ||x||^2, with A [m, d] and y [m].

    Labels are -1 and 1, or 0 and 1. Without the second term there is no minimiser where k columns
    separate the classes.
    """
    _check_data(A, y, "y")
    if not (math.isfinite(l2) and l2 >= 0):
        raise SkinnyError(f"l2 is {l2}, but must be at least 0")
    if bool(((y != 0) & (y != 1)).any()) and bool(((y != -1) & (y != 1)).any()):
        raise SkinnyError("y must hold labels -1 and 1, or 0 and 1, and nothing else")
    sign = torch.where(y > 0, 1.0, -1.0).to(A.dtype)

    def value(x: Tensor) -> Tensor:
        _check_variable(x, A)
        loss = torch.nn.functional.softplus(-sign * (A @ x)).mean()
        return loss + l2 / 2 * x.square().sum()

    return Objective(value, _lbfgs(value))


def _lbfgs(value: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    def minimise(x: Tensor, support: Tensor) -> Tensor:
        free = x[support].clone().requires_grad_()
        optimizer = torch.optim.LBFGS(
            [free],
            max_iter=200,
            tolerance_grad=1e-9,
            tolerance_change=1e-12,
            history_size=20,
            line_search_fn="strong_wolfe",
        )

        def full() -> Tensor:
            return torch.zeros_like(x).masked_scatter(support, free)

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = value(full())
            loss.backward()
            return loss

        with torch.enable_grad():
            optimizer.step(closure)
        return full().detach()

    return minimise


@dataclass(frozen=True)
class _Iterate:
    x: Tensor
    support: Tensor | None  # None at the start, which need not be sparse
    value: float


def _iterate(objective: Objective, x: Tensor, gradient: Tensor, k: int, eta: float) -> _Iterate:
    """S1, S2 and S3."""
    support, thresholded = _threshold(x, gradient, k, eta)
    refined = objective.minimise(thresholded, support).detach()
    value, fallback = _value(objective, refined), _value(objective, thresholded)
    if value <= fallback:
        return _Iterate(refined, support, value)
    return _Iterate(thresholded, support, fallback)  # L-BFGS may fail where f is flat


def _settled(before: _Iterate, after: _Iterate, tolerance: float) -> bool:
    if before.support is None or after.support is None:
        return False
    moved = float(torch.linalg.vector_norm(after.x - before.x))
    allowed = tolerance * max(1.0, float(torch.linalg.vector_norm(after.x)))
    return moved <= allowed and torch.equal(before.support, after.support)


def _threshold(x: Tensor, gradient: Tensor, k: int, eta: float) -> tuple[Tensor, Tensor]:
    """S1 and S2: F and O_k(x - eta grad f(x))."""
    moved = x - eta * gradient
    if not bool(moved.isfinite().all()):
        raise SkinnyError(f"a step size of {eta} leaves the range of {x.dtype}; give a smaller one")
    support = magnitude_mask(moved, k)
    return support, torch.where(support, moved, moved.new_zeros(()))


def _find_step_size(
    objective: Objective, now: _Iterate, gradient: Tensor, k: int, last: float | None
) -> float:
    """The largest eta, up to a factor of two, at which f(x~) lies below the quadratic model."""
    x, value = now.x, now.value
    slack = 16 * torch.finfo(x.dtype).eps * abs(value)  # near the solution, rounding decides

    def fits(eta: float) -> bool:
        if not bool((x - eta * gradient).isfinite().all()):
            return False
        _, thresholded = _threshold(x, gradient, k, eta)
        difference = thresholded - x
        slope, length = float((gradient * difference).sum()), float(difference.square().sum())
        return _value(objective, thresholded) <= value + slope + length / (2 * eta) + slack

    eta = 1.0 if last is None else last
    doublings = 60 if last is None else 4  # at first nothing is known of f's scale
    if fits(eta):
        while doublings and fits(2 * eta):
            eta, doublings = 2 * eta, doublings - 1
        return eta
    for _ in range(120):
        eta /= 2
        if fits(eta):
            break
    return eta


def _value(objective: Objective, x: Tensor) -> float:
    with torch.no_grad():
        return float(objective.value(x))


def _gradient(objective: Objective, x: Tensor) -> Tensor:
    with torch.enable_grad():
        variable = x.clone().requires_grad_()
        value = objective.value(variable)
        if not value.requires_grad:
            raise SkinnyError("the objective does not depend on x in a way torch can differentiate")
        (gradient,) = torch.autograd.grad(value, variable)
    if not bool(gradient.isfinite().all()):
        raise SkinnyError("the gradient of the objective has NaN or infinite entries")
    return gradient


def _check(
    objective: Objective, x0: Tensor, k: int, step_size: float | None, max_iterations: int
) -> None:
    if not x0.is_floating_point():
        raise SkinnyError(f"x0 must hold floating-point numbers, not {x0.dtype}")
    if not bool(x0.isfinite().all()):
        raise SkinnyError("x0 has NaN or infinite entries")
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= x0.numel():
        raise SkinnyError(
            f"k is {k!r}, but must be a whole number in [1, {x0.numel()}], the size of x0"
        )
    if step_size is not None and not (math.isfinite(step_size) and step_size > 0):
        raise SkinnyError(f"step_size is {step_size}, but must be above 0")
    if max_iterations < 1:
        raise SkinnyError(f"max_iterations is {max_iterations}, but must be at least 1")
    value = objective.value(x0.detach())
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise SkinnyError("the objective must return a tensor with one value")
    if not math.isfinite(float(value)):
        raise SkinnyError(f"the objective is {float(value)} at x0")


def _check_data(A: Tensor, b: Tensor, name: str) -> None:
    if A.dim() != 2 or b.shape != A.shape[:1]:
        raise SkinnyError(
            f"A must have shape [m, d] and {name} shape [m], "
            f"got {list(A.shape)} and {list(b.shape)}"
        )
    if not A.is_floating_point() or A.numel() == 0:
        raise SkinnyError("A must hold floating-point numbers, at least one")
    if not (bool(A.isfinite().all()) and bool(b.isfinite().all())):
        raise SkinnyError(f"A or {name} has NaN or infinite entries")


def _check_variable(x: Tensor, A: Tensor) -> None:
    if x.shape != A.shape[1:] or x.dtype != A.dtype or x.device != A.device:
        raise SkinnyError(
            f"x must have shape [{A.shape[1]}] and be {A.dtype} on {A.device} like A, "
            f"got {list(x.shape)}, {x.dtype} on {x.device}"
        )
