"""What a study says: error per arm with intervals, and each arm against dense training."""

from dataclasses import dataclass, replace

from skinny.experiments.statistics import (
    Difference,
    Equivalence,
    Summary,
    equivalence,
    holm,
    paired,
    summarise,
)
from skinny.experiments.study import Result, Study, reference

ALPHA = 0.05


@dataclass(frozen=True)
class Row:
    """An arm's error in per cent, and its accuracy minus that of `against` in points.

    `p` is corrected for the number of arms that the study compares (Holm).
    """

    arm: Result
    error: Summary | None  # None: no run is finished
    against: Result | None = None
    difference: Difference | None = None
    equivalence: Equivalence | None = None
    p: float = float("nan")

    @property
    def verdict(self) -> str:
        """One of: better, worse, equivalent, no worse, undecided, one seed; empty where nothing is
        said."""
        if self.difference is None:
            return ""
        if self.difference.n < 2:
            return "one seed"
        if self.p < ALPHA:
            return "better" if self.difference.mean > 0 else "worse"
        assert self.equivalence is not None
        if self.equivalence.p < ALPHA:
            return "equivalent"
        return "no worse" if self.equivalence.p_worse < ALPHA else "undecided"


def compare(study: Study, margin: float) -> list[Row]:
    """A row per arm. margin: how many points of accuracy count as "as good as"."""
    rows = []
    for arm in study.arms:
        values = arm.values(study.measure)
        error = summarise([100 - value for value in values.values()]) if values else None
        row = Row(arm, error)
        against = reference(arm, study)
        if against is not None and values:
            others = against.values(study.measure)
            difference = paired(values, others)
            if difference is not None:
                row = Row(arm, error, against, difference, equivalence(values, others, margin))
        rows.append(row)
    corrected = holm([row.difference.p if row.difference else float("nan") for row in rows])
    return [replace(row, p=p) for row, p in zip(rows, corrected, strict=True)]


@dataclass(frozen=True)
class Contrast:
    """Accuracy of one arm minus that of another, in points, paired by seed.

    `p` is corrected for the number of contrasts in the study (Holm).
    """

    first: str
    second: str
    difference: Difference
    p: float = float("nan")


def contrasts(study: Study) -> list[Contrast]:
    """The pairs of arms that the study sets against each other, where both have been trained."""
    values = {arm.label: arm.values(study.measure) for arm in study.arms}
    found = [
        (first, second, paired(values.get(first, {}), values.get(second, {})))
        for first, second in study.contrasts
    ]
    made = [Contrast(a, b, difference) for a, b, difference in found if difference is not None]
    corrected = holm([contrast.difference.p for contrast in made])
    return [replace(contrast, p=p) for contrast, p in zip(made, corrected, strict=True)]


def finding(study: Study, rows: list[Row], margin: float) -> str:
    """The study in a sentence: its verdicts or, without dense training to compare with, what it
    sets against each other, or which arm has the fewest errors."""
    if not any(row.arm.config.method == "dense" for row in rows):
        return _contrasted(contrasts(study)) or _best(rows)
    told = [row for row in rows if row.difference is not None]
    if not told:
        return "No arm can be compared with dense training at the same budget yet."
    if all(row.p != row.p for row in told):
        return "There are too few seeds to tell a difference from dense training from chance."
    dense = study.compared_with
    groups = {
        verdict: [row.arm.label for row in told if row.verdict == verdict]
        for verdict in ("better", "equivalent", "no worse", "worse", "undecided", "one seed")
    }
    told_as = {
        "better": f"more accurate than {dense}",
        "equivalent": f"equivalent to it within {_points(margin)}",
        "no worse": f"not worse by {_points(margin)}",
        "worse": "less accurate",
        "undecided": "undecided with these seeds",
        "one seed": "with one seed only",
    }
    clauses = [
        f"{told_as[verdict]}: {', '.join(map(_quoted, labels))}"
        for verdict, labels in groups.items()
        if labels
    ]
    text = "; ".join(clauses) + "."
    if not groups["better"]:
        text = text.replace("to it", f"to {dense}", 1).replace(
            "less accurate", f"less accurate than {dense}", 1
        )
    return text[0].upper() + text[1:]


def _quoted(label: str) -> str:
    """A label that could be read as two would be ambiguous among others."""
    return f"“{label}”" if "," in label else label


def _contrasted(found: list[Contrast]) -> str:
    told = [
        f"{one.first} minus {one.second}: {one.difference.mean:+.2f} points of accuracy"
        f" (p = {one.p:.3f}, n = {one.difference.n})"
        for one in found
    ]
    return f"{'; '.join(told)}." if told else ""


def _best(rows: list[Row]) -> str:
    """What can be said where there is no dense training to compare with."""
    found = [(row.error.mean, row.arm) for row in rows if row.error is not None]
    if not found:
        return "No run is finished yet."
    error, arm = min(found, key=lambda pair: pair[0])
    fewest = "The fewest errors: " if len(rows) > 1 else ""
    return f"{fewest}{arm.label}, {error:.2f} % (n = {len(arm.runs)})."


def _points(margin: float) -> str:
    return f"{margin:g} point{'' if margin == 1 else 's'}"
