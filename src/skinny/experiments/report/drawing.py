"""Figures: one drawing, as SVG for the page and as SVG and PNG files."""

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from skinny.experiments.report.palette import LIGHT, themed
from skinny.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = (4.9, 3.3)  # inches: at this size text is readable on a phone without zooming


@dataclass(frozen=True)
class Drawing:
    """A figure and the sentence that says what is seen; it is drawn when it is first asked for.

    paint: fills the axes of a new figure.
    """

    name: str
    title: str
    caption: str
    paint: Callable[["Axes"], None]
    size: tuple[float, float] = _SIZE

    @cached_property
    def svg(self) -> str:
        out = io.StringIO()
        with _style(self.name):
            self._figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        text = out.getvalue()
        return re.sub(
            r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL
        )

    @cached_property
    def png(self) -> bytes:
        assert self.svg  # which lays the figure out
        out = io.BytesIO()
        with _style(self.name):
            self._figure.set_layout_engine("none")
            self._figure.savefig(out, format="png", dpi=160)
        return out.getvalue()

    @property
    def inline(self) -> str:
        return themed(self.svg)

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder / f"{self.name}.svg", "w") as file:
            file.write(self.svg)
        with atomic_write(folder / f"{self.name}.png") as file:
            file.write(self.png)

    @cached_property
    def _figure(self) -> "Figure":
        from matplotlib.figure import Figure

        with _style(self.name):
            figure = Figure(self.size, layout="constrained", facecolor=LIGHT["paper"])
            axes = figure.subplots()
            axes.spines[["top", "right"]].set_visible(False)
            self.paint(axes)
        return figure


@contextmanager
def _style(salt: str) -> Iterator[None]:
    """Our look, for one figure: nothing global is left changed."""
    import matplotlib

    with matplotlib.rc_context(
        {
            "svg.fonttype": "none",  # text stays text
            "svg.hashsalt": salt,  # ids differ between figures of a page and not between runs
            "font.size": 9.5,
            "text.color": LIGHT["ink"],
            "axes.labelcolor": LIGHT["ink"],
            "axes.edgecolor": LIGHT["muted"],
            "axes.facecolor": LIGHT["paper"],
            "axes.linewidth": 0.8,
            "axes.grid": True,
            "axes.axisbelow": True,
            "axes.titlesize": 10,
            "axes.titlelocation": "left",
            "grid.color": LIGHT["line"],
            "grid.linewidth": 0.8,
            "xtick.color": LIGHT["muted"],
            "ytick.color": LIGHT["muted"],
            "legend.frameon": False,
            "legend.fontsize": 8.5,
            "lines.linewidth": 1.8,
            "lines.markersize": 5,
        }
    ):
        yield
