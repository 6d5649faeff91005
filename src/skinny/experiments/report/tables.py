"""The tables of a study."""

from collections.abc import Sequence

import numpy as np

from skinny.experiments import comparison
from skinny.experiments.comparison import Row
from skinny.experiments.published import Cited
from skinny.experiments.report.table import Cell, Table, number, p_value
from skinny.experiments.study import Result, Study

_NOTHING = Cell("–", float("inf"), "number")
_CLASSES, _COLUMNS = 20, 8  # of the table of classes


def summary(study: Study, rows: Sequence[Row], margin: float, name: str) -> Table:
    """Every arm: error, size, and, where there is one, the difference from dense training at equal
    budget."""
    cited = any(row.arm.cited is not None for row in rows)
    compared = any(row.difference is not None for row in rows)
    head = ["arm", "n", "error ± sd, %", "95 % interval", "weights kept", "kB"]
    body = [[Cell(row.arm.label), *_arm_cells(row)] for row in rows]
    if compared:
        head.insert(1, "against dense")
        head += ["Δ accuracy, points", "95 % interval of Δ", "p", f"p of ±{margin:g}"]
        for cells, row in zip(body, rows, strict=True):
            cells.insert(1, _verdict(row))
            cells += _difference_cells(row)
    if cited:
        head.append("published, %")
        for cells, row in zip(body, rows, strict=True):
            cells.append(
                number(float("nan") if row.arm.cited is None else row.arm.cited)._replace(
                    kind="cited"
                )
            )
    top5 = "top-5 " if study.measure == "top5" else ""
    return Table(
        f"{name}-summary",
        f"{study.title}: {top5}{study.judged_by} error at the end of training, mean over n seeds"
        + (
            f"; Δ is paired by seed against {_dense(study)}, p by Holm's correction, p of "
            f"±{margin:g} by two one-sided tests."
            if compared
            else "."
        ),
        tuple(head),
        tuple(map(tuple, body)),
    )


def _dense(study: Study) -> str:
    found = study.compared_with
    return f"{found} at equal budget" if found == "dense training" else found


def _arm_cells(row: Row) -> list[Cell]:
    arm, error = row.arm, row.error
    n = len(arm.runs)
    told = f"{n}" if not arm.missing else f"{n} of {n + arm.missing}"
    if error is None:
        return [Cell(told, n, "number"), *[_NOTHING] * 4]
    kept = float(np.mean([run.kept for run in arm.runs]))
    share = float(np.mean([run.kept / run.size for run in arm.runs]))
    size = float(np.mean([run.packed_bytes for run in arm.runs]))
    return [
        Cell(told, n, "number"),
        Cell(f"{error.mean:.2f} ± {number(error.sd).text}", error.mean, "number"),
        _interval(error.low, error.high),
        Cell(f"{kept:,.0f} ({share:.1%})".replace("%", " %"), kept, "number"),
        Cell(f"{size / 1000:,.1f}", size, "number"),
    ]


def _difference_cells(row: Row) -> list[Cell]:
    if row.difference is None or row.equivalence is None:
        return [_NOTHING] * 4
    d = row.difference
    return [
        number(d.mean, sign=True),
        _interval(d.low, d.high, sign=True),
        p_value(row.p),
        p_value(row.equivalence.p),
    ]


def _verdict(row: Row) -> Cell:
    return Cell(row.verdict, kind=f"verdict {row.verdict.replace(' ', '-')}")


def _interval(low: float, high: float, *, sign: bool = False) -> Cell:
    if low != low:
        return _NOTHING
    texts = (number(value, sign=sign).text for value in (low, high))
    return Cell(" to ".join(texts), low, "number")


def contrasts(study: Study, name: str) -> Table | None:
    """Arms set against each other: the first's accuracy minus the second's."""
    found = comparison.contrasts(study)
    if not found:
        return None
    return Table(
        f"{name}-contrasts",
        "Arms against each other: accuracy of the first minus that of the second, paired by seed, "
        "p by Holm's correction",
        ("first", "second", "n", "Δ accuracy, points", "95 % interval of Δ", "p"),
        tuple(
            (
                Cell(one.first),
                Cell(one.second),
                Cell(str(one.difference.n), one.difference.n, "number"),
                number(one.difference.mean, sign=True),
                _interval(one.difference.low, one.difference.high, sign=True),
                p_value(one.p),
            )
            for one in found
        ),
    )


def cited(study: Study, name: str) -> Table | None:
    if not study.cited:
        return None
    known = "; ±: standard errors" if any(row.se is not None for row in study.cited) else ""
    return Table(
        f"{name}-published",
        f"As published, cited and not measured here{known}",
        ("model", "weights, millions", "error, %"),
        tuple(
            (Cell(row.model), Cell(row.weights, kind="number"), _published(row))
            for row in study.cited
        ),
    )


def _published(row: Cited) -> Cell:
    found = number(row.error)
    return found if row.se is None else found._replace(text=f"{found.text} ± {row.se:.2f}")


def classes(study: Study, name: str) -> Table | None:
    """Errors per class of each arm; of many classes, those that arms differ most on."""
    arms = [arm for arm in study.arms if arm.runs][:_COLUMNS]
    names = arms[0].runs[0].result["classes"] if arms else []
    if not names or any(run.result["classes"] != names for arm in arms for run in arm.runs):
        return None
    errors = np.array([_class_errors(arm) for arm in arms]).T  # [classes, arms], per cent
    spread = np.nan_to_num(errors.max(axis=1) - errors.min(axis=1))
    chosen = np.sort(np.argsort(-spread, kind="stable")[:_CLASSES])
    highest = max(1e-9, float(np.nanmax(np.nan_to_num(errors[chosen]))))
    left_out = len(names) - len(chosen)
    return Table(
        f"{name}-classes",
        "Errors per class, %, mean over seeds"
        + (f"; the {len(chosen)} classes that arms differ most on, of {len(names)}" if left_out
           else ""),
        ("class", *(arm.label for arm in arms)),
        tuple(
            (
                Cell(str(names[i])),
                *(
                    number(float(error), 1)._replace(shade=float(np.nan_to_num(error)) / highest)
                    for error in errors[i]
                ),
            )
            for i in chosen
        ),
    )  # fmt: skip


def _class_errors(arm: Result) -> list[float]:
    """Mean over runs of each class's error in per cent; NaN for a class without images."""
    with np.errstate(invalid="ignore"):
        per_run = [
            np.array(run.result["test_errors"]) / np.array(run.result["test_images"])
            for run in arm.runs
        ]
    return [float(100 * value) for value in np.mean(per_run, axis=0)]
