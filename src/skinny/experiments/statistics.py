"""What several seeds say: means with intervals, paired differences, equivalence.

Pure: numbers in, numbers out. Where too few numbers were given to say something (one seed, or
differences that do not vary at all), the answer is NaN, never a guess.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from skinny.errors import SkinnyError

_NAN = float("nan")


@dataclass(frozen=True)
class Summary:
    """n values: their mean, sample standard deviation, and the t interval [low, high] of the mean.

    half-width = t_{n-1, (1 + confidence) / 2} sd / sqrt(n).
    """

    n: int
    mean: float
    sd: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference(Summary):
    """A summary of differences paired by seed, and p of the two-sided paired t test."""

    p: float


@dataclass(frozen=True)
class Equivalence:
    """Is the mean difference within (-margin, margin)? Two one-sided t tests (Schuirmann 1987).

    p is the larger of the two; below 0.05 the two are equivalent by this margin. p_worse alone
    tests non-inferiority: below 0.05 the first is not worse than the second by `margin` or more.
    """

    margin: float
    p: float
    p_worse: float


def summarise(values: Sequence[float], confidence: float = 0.95) -> Summary:
    x = _array(values)
    mean = float(x.mean())
    if len(x) < 2:
        return Summary(len(x), mean, _NAN, _NAN, _NAN)
    sd = float(x.std(ddof=1))
    half = _t_quantile((1 + _fraction(confidence)) / 2, len(x) - 1) * sd / math.sqrt(len(x))
    return Summary(len(x), mean, sd, mean - half, mean + half)


def paired(
    first: Mapping[int, float], second: Mapping[int, float], confidence: float = 0.95
) -> Difference | None:
    """first - second over the seeds that both have; None when they share none.

    Pairing takes out what a seed does to both (the initial weights, the order of images).
    """
    differences = _differences(first, second)
    if not differences:
        return None
    s = summarise(differences, confidence)
    if not s.sd > _rounding(differences):
        return Difference(s.n, s.mean, s.sd, _NAN, _NAN, _NAN)
    t = s.mean / (s.sd / math.sqrt(s.n))
    return Difference(s.n, s.mean, s.sd, s.low, s.high, 2 * _t_below(-abs(t), s.n - 1))


def equivalence(
    first: Mapping[int, float], second: Mapping[int, float], margin: float
) -> Equivalence | None:
    """Paired by seed, for values of which more is better; None when they share no seed.

    The margin must be stated before looking: it is what one is willing to call "as good as".
    """
    if not 0 < margin < math.inf:
        raise SkinnyError(f"the margin is {margin}; it must be above 0")
    differences = _differences(first, second)
    if not differences:
        return None
    s = summarise(differences)
    if not s.sd > _rounding(differences):
        return Equivalence(margin, _NAN, _NAN)
    error = s.sd / math.sqrt(s.n)
    p_worse = _t_below(-(s.mean + margin) / error, s.n - 1)
    p_better = _t_below((s.mean - margin) / error, s.n - 1)
    return Equivalence(margin, max(p_worse, p_better), p_worse)


def bootstrap(
    values: Sequence[float], confidence: float = 0.95, resamples: int = 9999, seed: int = 0
) -> tuple[float, float]:
    """An interval of the mean by resampling (BCa, Efron 1987): no normal distribution is assumed.

    With a handful of seeds it is too narrow; the t interval is then the better one.
    """
    x = _array(values)
    if len(x) < 2 or not x.std() > _rounding(values):
        return _NAN, _NAN
    from scipy import stats  # takes longer to import than anything else here does

    found = stats.bootstrap(
        (x,),
        np.mean,
        confidence_level=_fraction(confidence),
        n_resamples=resamples,
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return float(found.low), float(found.high)


def holm(p_values: Sequence[float]) -> list[float]:
    """p values corrected for being several (Holm 1979): p_(i) becomes max_{j<=i} (m - j + 1) p_(j).

    NaNs stay NaN and do not count.
    """
    order = sorted((p, i) for i, p in enumerate(p_values) if not math.isnan(p))
    corrected = [_NAN] * len(p_values)
    highest = 0.0
    for rank, (p, i) in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p))
        corrected[i] = highest
    return corrected


def _t_below(t: float, freedom: int) -> float:
    """P(T <= t), and so P(T >= -t), of Student's distribution."""
    return float(special.stdtr(freedom, t))


def _t_quantile(p: float, freedom: int) -> float:
    return float(special.stdtrit(freedom, p))


def _differences(first: Mapping[int, float], second: Mapping[int, float]) -> list[float]:
    return [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]


def _rounding(values: Sequence[float]) -> float:
    """Spread that rounding alone can cause among equal values."""
    return 1e-12 * max(1e-300, *(abs(value) for value in values))


def _array(values: Sequence[float]) -> NDArray[np.float64]:
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or len(x) == 0:
        raise SkinnyError("statistics need at least one value")
    return x


def _fraction(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise SkinnyError(f"the confidence is {confidence}; it must lie between 0 and 1")
    return confidence
