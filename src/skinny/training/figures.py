"""The figures of a run, drawn from what its folder holds."""

from typing import TYPE_CHECKING, Any

from skinny.files import atomic_write
from skinny.training import config as configs
from skinny.training.config import Config
from skinny.training.folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Band = tuple[float, float, float]  # a span: first epoch, end, sparsity

_TRAIN, _TEST, _SPARSITY, _CHANGE = "#4c78a8", "#e45756", "#54a24b", "#b279a2"
_SPARSE_SHADE = "#f2cf5b"
_MOST_BANDS = 100
_REMOVED, _KEPT = "#c9c9c9", "#4c78a8"


def draw(folder: RunFolder) -> list[str]:
    """Write learning-curves.png, sparsity.png and weights.png; the names of those that were."""
    from matplotlib.figure import Figure

    metrics, config = folder.metrics(), folder.config()
    title = folder.path.name
    drawn: dict[str, Figure] = {}
    if metrics:
        bands = spans_in_epochs(config, metrics)
        drawn["learning-curves.png"] = _learning_curves(Figure((8, 6)), metrics, bands, title)
        if any(record["mask_updates"] for record in metrics):
            unit = _units_per_epoch(config, metrics)
            drawn["sparsity.png"] = _sparsity(Figure((8, 5)), metrics, bands, unit, title)
    if (histograms := folder.histograms()) is not None:
        drawn["weights.png"] = _weights(histograms, title)
    folder.figures.mkdir(exist_ok=True)
    for name, figure in drawn.items():
        with atomic_write(folder.figures / name) as file:
            figure.savefig(file, dpi=120, format="png")
    return list(drawn)


def spans_in_epochs(config: Config, metrics: list[dict[str, Any]]) -> list[Band]:
    """The spans of a run so far: first epoch, end, sparsity."""
    unit = _units_per_epoch(config, metrics)
    timeline = configs.timeline(config, metrics[0]["steps"])
    return [
        (span.start / unit, min(span.end / unit, len(metrics)), span.sparsity)
        for span in timeline.spans
        if span.start / unit < len(metrics)
    ]


def _units_per_epoch(config: Config, metrics: list[dict[str, Any]]) -> int:
    return metrics[0]["steps"] if config.unit == "step" else 1


def _learning_curves(
    figure: "Figure", metrics: list[dict[str, Any]], bands: list[Band], title: str
) -> "Figure":
    figure.set_layout_engine("constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    epochs = [record["epoch"] + 1 for record in metrics]
    for axes, quantity, label in ((upper, "loss", "loss"), (lower, "accuracy", "accuracy, %")):
        scale = 100 if quantity == "accuracy" else 1
        shade(axes, bands, len(metrics))
        axes.plot(
            epochs,
            [scale * record[f"train_{quantity}"] for record in metrics],
            color=_TRAIN,
            label="training images",
        )
        tested = [record for record in metrics if record[f"test_{quantity}"] is not None]
        axes.plot(
            [record["epoch"] + 1 for record in tested],
            [scale * record[f"test_{quantity}"] for record in tested],
            color=_TEST,
            label="test images",
            marker="o" if len(tested) < 2 else None,
        )
        axes.set_ylabel(label)
    losses = [record["train_loss"] for record in metrics]
    if min(losses) > 0 and max(losses) / min(losses) > 30:
        upper.set_yscale("log")
    upper.set_title(title, loc="left")
    upper.legend(loc="upper right")
    lower.set_xlabel("epoch (shaded: sparse spans)")
    return figure


def _sparsity(
    figure: "Figure", metrics: list[dict[str, Any]], bands: list[Band], unit: int, title: str
) -> "Figure":
    figure.set_layout_engine("constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    shade(upper, bands, len(metrics))
    upper.step(
        [begin for begin, _, _ in bands] + [len(metrics)],
        [100 * sparsity for _, _, sparsity in (*bands, bands[-1])],
        where="post",
        color=_SPARSITY,
    )
    upper.set_ylabel("weights removed, %")
    upper.set_ylim(-3, 103)
    upper.set_title(title, loc="left")
    shade(lower, bands, len(metrics))
    per_epoch = [
        (done["at"] / unit, done["change_ratio"])
        for record in metrics
        for done in record["mask_updates"]
        if done["change_ratio"] is not None
    ]
    if per_epoch:
        lower.plot(
            [epoch for epoch, _ in per_epoch],
            [100 * ratio for _, ratio in per_epoch],
            color=_CHANGE,
            marker="o",
        )
        lower.set_ylim(0, 1.1 * max(100 * ratio for _, ratio in per_epoch) or 1)
    else:
        lower.text(0.5, 0.5, "one mask update: nothing to compare", ha="center", va="center",
                   transform=lower.transAxes, color="0.4")  # fmt: skip
        lower.set_yticks([])
    lower.set_ylabel("change ratio, %")
    lower.set_xlabel("epoch (shaded: sparse spans)")
    return figure


def _weights(histograms: dict[str, Any], title: str) -> "Figure":
    from matplotlib.figure import Figure

    layers = histograms["layers"]
    columns = min(3, len(layers))
    rows = -(-len(layers) // columns)
    figure = Figure((3.2 * columns, 2.2 * rows + 0.8), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, (name, counts) in zip(grid.flat, layers.items(), strict=False):
        bins = len(counts["all"])
        edges = [(2 * i / bins - 1) * counts["limit"] for i in range(bins + 1)]
        axes.stairs(counts["all"], edges, fill=True, color=_REMOVED, label="all")
        axes.stairs(counts["kept"], edges, fill=True, color=_KEPT, label="kept")
        axes.set_yscale("symlog")
        kept = sum(counts["kept"]) / max(1, sum(counts["all"]))
        axes.set_title(f"{name.removesuffix('.weight')}: {kept:.0%} kept", fontsize="medium")
    for axes in list(grid.flat)[len(layers) :]:
        axes.set_visible(False)
    grid[0, 0].legend(loc="upper right", fontsize="small")
    figure.suptitle(
        f"{title}: weights and what is kept of them, after {histograms['epoch']} epochs",
        fontsize="large",
    )
    return figure


def shade(axes: "Axes", bands: list[Band], epochs: int) -> None:
    """Colour behind the sparse spans, unless they are too many to be told apart."""
    for begin, end, sparsity in bands if len(bands) <= _MOST_BANDS else []:
        if sparsity:
            axes.axvspan(begin, end, color=_SPARSE_SHADE, alpha=0.25, lw=0)
    axes.set_xlim(0, epochs)
    axes.margins(x=0)
