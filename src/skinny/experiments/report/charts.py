"""The figures of a study. Each function draws one, or gives None where there is nothing to draw."""

import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from skinny.experiments.comparison import Row
from skinny.experiments.report.curves import change_ratios, mean_curve, sparse_spans
from skinny.experiments.report.drawing import Drawing
from skinny.experiments.report.families import families
from skinny.experiments.report.palette import LIGHT, SERIES
from skinny.experiments.study import Result, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVES = 6  # arms whose learning curves are drawn
_LINES = len(SERIES)
_LONG = 28  # letters of a label, of which a figure's width has room for two
_LETTERS = 62  # of a label that has the figure's width to itself
_LINE, _FEW_LINES = 0.17, 4  # height of a legend's line, in inches; how many a figure has room for


def colours(study: Study) -> dict[str, str]:
    """Dense training is grey everywhere; the others have a colour each, as far as they last."""
    others = [arm.label for arm in study.arms if arm.config.method != "dense"]
    made = {label: SERIES[i % len(SERIES)] for i, label in enumerate(others)}
    return {arm.label: made.get(arm.label, LIGHT["dense"]) for arm in study.arms}


def accuracy_against_sparsity(study: Study, rows: Sequence[Row], name: str) -> Drawing | None:
    """Means with intervals; arms that differ in nothing but sparsity are joined."""
    pruned = [row for row in rows if row.error and row.arm.config.method not in ("dense", "dsd")]
    if not pruned:
        return None
    baseline = next((row for row in rows if row.error and row.arm.config.method == "dense"), None)
    if len({round(_removed(row.arm), 2) for row in pruned}) == 1:
        return None  # one above the other they would hide each other: see `accuracy_by_arm`
    broken = _broken_down(pruned)
    lines = families([row for row in pruned if row not in broken])
    tint = colours(study)

    def paint(axes: "Axes") -> None:
        if baseline is not None and baseline.error is not None:
            axes.axhline(
                100 - baseline.error.mean, color=LIGHT["dense"], ls="--", label=baseline.arm.label
            )
            if baseline.error.sd == baseline.error.sd:
                axes.axhspan(
                    100 - baseline.error.high, 100 - baseline.error.low,
                    color=LIGHT["dense"], alpha=0.12, lw=0,
                )  # fmt: skip
        for members in lines:
            members.sort(key=lambda row: _removed(row.arm))
            x = [100 * _removed(row.arm) for row in members]
            y = [100 - row.error.mean for row in members if row.error]
            half = [
                0.0 if row.error.high != row.error.high else row.error.high - row.error.mean
                for row in members
                if row.error
            ]
            first = members[0].arm.label
            label = first if len(members) == 1 else f"{first} to {members[-1].arm.label}"
            axes.errorbar(x, y, yerr=half, fmt="-o", capsize=3, color=tint[first], label=label)
        axes.set_xlabel("weights removed, %")
        axes.set_ylabel(f"{study.judged_by} accuracy, %")
        _within(axes.get_xlim, axes.set_xlim)
        _within(axes.get_ylim, axes.set_ylim)
        _legend(axes, len(lines) + 1)

    seen = ""
    if (best := _best(pruned, baseline)) is not None:
        seen = f"Best among the pruned: {best.arm.label}, {_accuracy(best):.2f} %"
        dense = next((row for row in rows if row.arm is best.against), baseline)
        seen += "" if dense is None else f", where {dense.arm.label} has {_accuracy(dense):.2f} %"
        seen += ". "
    left_out = [f"{row.arm.label}, {100 - row.error.mean:.2f} %" for row in broken if row.error]
    return Drawing(
        f"{name}-accuracy-sparsity",
        "Accuracy against sparsity",
        f"{seen}Means over seeds at the end of training with 95 % t intervals"
        + ("." if baseline is None else "; the dashed line and its band are dense training.")
        + (f" Broke down, and not drawn: {'; '.join(left_out)}." if left_out else ""),
        paint,
    )


def _best(rows: Sequence[Row], baseline: Row | None) -> Row | None:
    """The best of those that have all the baseline's seeds: a mean of fewer may be luck."""
    seeds = 0 if baseline is None else len(baseline.arm.runs)
    found = [row for row in rows if row.error and row.error.n >= seeds]
    return max(found, key=_accuracy, default=None)


def _accuracy(row: Row) -> float:
    return 100 - row.error.mean if row.error else float("nan")


def accuracy_by_arm(study: Study, rows: Sequence[Row], name: str) -> Drawing | None:
    """A line per arm: for studies in which all that are pruned have the same sparsity."""
    shown = [row for row in rows if row.error]
    if len(shown) < 2:
        return None
    tint = colours(study)
    baseline = next((row for row in shown if row.arm.config.method == "dense"), None)
    beyond = max(0, max(len(row.arm.label) for row in shown) - _LONG)

    def paint(axes: "Axes") -> None:
        if baseline is not None and baseline.error is not None:
            axes.axvline(100 - baseline.error.mean, color=LIGHT["dense"], ls="--", lw=1.2)
        for y, row in enumerate(reversed(shown)):
            assert row.error is not None
            half = row.error.high - row.error.mean if row.error.high == row.error.high else 0.0
            axes.errorbar(
                100 - row.error.mean, y, xerr=half, fmt="o", capsize=3, color=tint[row.arm.label]
            )
        axes.set_yticks(range(len(shown)), [row.arm.label for row in reversed(shown)])
        axes.tick_params(axis="y", length=0, labelcolor=LIGHT["ink"])
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(f"{study.judged_by} accuracy, %")
        _within(axes.get_xlim, axes.set_xlim)

    best = _best(shown, baseline)
    return Drawing(
        f"{name}-accuracy",
        "Accuracy by arm",
        ("" if best is None else f"Best: {best.arm.label}, {_accuracy(best):.2f} %. ")
        + "Means over seeds at the end of training with 95 % t intervals"
        + ("." if baseline is None else "; the dashed line is dense training."),
        paint,
        size=(4.9 + 0.07 * beyond, 1.1 + 0.26 * len(shown)),
    )


def error_against_bytes(study: Study, rows: Sequence[Row], name: str) -> Drawing | None:
    shown = [row for row in rows if row.error]
    if len(shown) < 2:
        return None
    from matplotlib.ticker import LogLocator

    tint = colours(study)
    crowded = len(shown) > 2 * _LINES  # more than a legend could tell apart
    columns = _columns([row.arm.label for row in shown])

    def paint(axes: "Axes") -> None:
        for row in shown:
            assert row.error is not None
            size = float(np.mean([run.packed_bytes for run in row.arm.runs]))
            axes.plot(
                size / 1000, row.error.mean, "o", ms=7, color=tint[row.arm.label],
                label=row.arm.label,
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set_xlabel("kilobytes on disk")
        axes.set_ylabel(f"{study.judged_by} error, %")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}" if x >= 1 else f"{x:g}")
        axes.xaxis.set_minor_formatter(lambda x, _: "")
        if not crowded:
            _legend(axes, len(shown))

    return Drawing(
        f"{name}-error-bytes",
        "Error against bytes",
        "Lower left is better. Bytes are those of the packed file, mean over seeds."
        + (" The table names the arms." if crowded else ""),
        paint,
        size=(4.9, 3.3 if crowded else 2.6 + 0.18 * max(4, len(shown) / columns)),
    )


def learning_curves(study: Study, arm: Result, name: str) -> Drawing | None:
    training = mean_curve(arm.runs, "train_accuracy")
    judged = mean_curve(arm.runs, "test_accuracy")
    if not training:
        return None
    spans = sparse_spans(arm.runs[0])

    def paint(axes: "Axes") -> None:
        for begin, end in spans:
            axes.axvspan(begin, end, color=LIGHT["span"], lw=0, zorder=0)
        for curve, colour, label, dashes in (
            (training, LIGHT["muted"], "training images", "--"),
            (judged, colours(study)[arm.label], f"{study.judged_by} images", "-"),
        ):
            x, y = [epoch for epoch, _ in curve], [100 * value for _, value in curve]
            dots = "o" if len(x) < 8 else None
            axes.plot(x, y, color=colour, label=label, ls=dashes, marker=dots)
        axes.set_xlim(0, max(epoch for epoch, _ in training))
        axes.set_xlabel("epoch")
        axes.set_ylabel("accuracy, %")
        _whole_epochs(axes)
        _legend(axes, 2)

    shaded = "; shaded: sparse spans" if spans else ""
    return Drawing(
        f"{name}-curves-{_slug(arm.label)}",
        arm.label,
        f"Mean of {_seeds(arm)}{shaded}.",
        paint,
        size=(4.0, 2.9),
    )


def change_ratio(study: Study, name: str) -> Drawing | None:
    """Figure 2: how much of the masks turned over at each mask update after the first."""
    curves = {arm.label: change_ratios(arm.runs) for arm in study.arms}
    curves = {label: curve for label, curve in curves.items() if curve}
    if not curves:
        return None
    tint = colours(study)

    def paint(axes: "Axes") -> None:
        for label, curve in list(curves.items())[:_LINES]:
            x, y = [at for at, _ in curve], [100 * ratio for _, ratio in curve]
            axes.plot(x, y, color=tint[label], label=label, marker="o" if len(x) < 30 else None)
        values = [100 * ratio for curve in curves.values() for _, ratio in curve if ratio > 0]
        if values and max(values) / min(values) > 50:
            axes.set_yscale("log")  # on which a ratio of zero is not drawn
        else:
            axes.set_ylim(bottom=0)
        _whole_epochs(axes)
        axes.set_xlabel("epoch")
        axes.set_ylabel("weights that changed sides, %")
        _legend(axes, len(curves))

    label, curve = max(curves.items(), key=lambda item: item[1][0][1])
    return Drawing(
        f"{name}-change-ratio",
        "Change ratio",
        f"Share of weights whose kept-or-truncated state differs between neighbouring "
        f"mask updates. Largest at first: {label}, {100 * curve[0][1]:.2f} %.",
        paint,
    )


def kept_by_layer(study: Study, name: str) -> Drawing | None:
    pruned = [arm for arm in study.arms if arm.runs and arm.config.method not in ("dense", "dsd")]
    if not pruned:
        return None
    tint = colours(study)
    layers = list(pruned[0].runs[0].result["weights"])

    def paint(axes: "Axes") -> None:
        for arm in pruned[:_LINES]:
            shares = [
                float(
                    np.mean(
                        [
                            weight["kept"] / weight["size"]
                            for run in arm.runs
                            if (weight := run.result["weights"].get(layer))
                        ]
                        or [np.nan]
                    )
                )
                for layer in layers
            ]
            axes.plot(
                range(len(layers)), [100 * share for share in shares], "-o",
                color=tint[arm.label], label=arm.label,
            )  # fmt: skip
        axes.set_xticks(
            range(len(layers)),
            [layer.removesuffix(".weight")[-14:] for layer in layers],
            rotation=40 if len(layers) > 5 else 0,
            ha="right" if len(layers) > 5 else "center",
        )
        axes.set_ylabel("weights kept, %")
        axes.set_ylim(bottom=0)
        _legend(axes, len(pruned))

    return Drawing(
        f"{name}-layers",
        "Where weights were kept",
        "Share of non-zero weights in each layer from the input to the output, mean over seeds. "
        "A flat line is the paper's rule: every layer at the same sparsity.",
        paint,
    )


def _broken_down(rows: Sequence[Row]) -> list[Row]:
    """Rows with ten times the errors of the best and five points more, beside which the differences
    of the others could not be seen."""
    best = min(row.error.mean for row in rows if row.error)
    most = max(10 * best, best + 5)
    return [row for row in rows if row.error and row.error.mean > most]


def _removed(arm: Result) -> float:
    return float(np.mean([1 - run.kept / run.size for run in arm.runs]))


def _legend(axes: "Axes", entries: int) -> None:
    from matplotlib.figure import Figure

    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    if entries > 1:
        handles, labels = axes.get_legend_handles_labels()
        columns = _columns(labels)
        if columns == 1:
            labels = [textwrap.fill(label, _LETTERS) for label in labels]
        lines = -(-sum(label.count("\n") + 1 for label in labels) // columns)
        width, height = figure.get_size_inches()
        figure.set_size_inches(width, height + _LINE * max(0, lines - _FEW_LINES))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def _columns(labels: Sequence[str]) -> int:
    """Of a legend: as many as fit."""
    if max(map(len, labels)) > _LONG:
        return 1
    return 2 if len(labels) > 3 else len(labels)


def _seeds(arm: Result) -> str:
    return f"{len(arm.runs)} seed{'' if len(arm.runs) == 1 else 's'}"


def _slug(text: str) -> str:
    kept = "".join(c if c.isascii() and c.isalnum() else " " for c in text.lower())
    return "-".join(kept.split())


def _whole_epochs(axes: "Axes") -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _within(get: Callable[[], tuple[float, float]], put: Callable[[float, float], object]) -> None:
    """Cut an axis of per cent to what can be: with few seeds an interval reaches beyond."""
    low, high = get()
    put(max(0.0, low), min(100.0, high))
