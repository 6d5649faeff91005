"""The page: one file that opens offline and fetches nothing."""

import base64
import hashlib
from dataclasses import dataclass
from importlib import resources

import jinja2
from markupsafe import Markup

from skinny.experiments.report.drawing import Drawing
from skinny.experiments.report.filters import Picture
from skinny.experiments.report.palette import css_variables
from skinny.experiments.report.table import Table


@dataclass(frozen=True)
class Section:
    """A study, ready to be shown."""

    name: str
    title: str
    question: str
    finding: str
    note: str
    summary: Table
    contrasts: Table | None
    figures: tuple[Drawing, ...]
    curves: tuple[Drawing, ...]
    curves_left_out: int
    pictures: tuple[Picture, ...]
    classes: Table | None
    cited: Table | None
    missing: int


def render(
    sections: list[Section], *, heading: str, lead: str, facts: dict[str, str], notes: list[str]
) -> str:
    """HTML in which every text is escaped; only our own style, script and drawings are not."""
    script = _text("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.from_string(_text("page.html")).render(
        sections=sections,
        heading=heading,
        lead=lead,
        facts=facts,
        notes=notes,
        style=Markup(
            _text("style.css")
            .replace("/* light */", css_variables(dark=False))
            .replace("/* dark */", css_variables(dark=True))
        ),
        script=Markup(script),
        # nothing may be fetched, and no script runs but the one below
        policy=f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'",
        drawn=lambda drawing: Markup(drawing.inline),
    )


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
