"""The report as Markdown: what a repository shows without a browser."""

from collections.abc import Mapping, Sequence

from skinny.experiments.report.drawing import Drawing
from skinny.experiments.report.page import Section
from skinny.experiments.report.table import Table, escape_markdown, markdown


def render(
    sections: Sequence[Section],
    *,
    heading: str,
    lead: str,
    facts: Mapping[str, str],
    notes: Sequence[str] = (),
) -> str:
    """The findings, tables and first figures of all studies; figures are in figures/ beside it."""
    blocks = [f"# {escape_markdown(heading)}", escape_markdown(lead), *notes]
    blocks += body(sections)
    blocks += ["## How to read this"]
    blocks += [f"**{name}**: {escape_markdown(text)}" for name, text in facts.items()]
    return "\n\n".join(block.strip() for block in blocks if block) + "\n"


def body(sections: Sequence[Section], level: int = 2) -> list[str]:
    """Headings, findings, tables and first figures of all studies, a block of text each."""
    blocks, question = [], ""
    for section in sections:
        blocks += _section(section, level, "" if section.question == question else section.question)
        question = section.question
    return [block.strip() for block in blocks if block]


def figures(section: Section) -> tuple[Drawing, ...]:
    """Those of a study that the page shows."""
    return section.figures[:1]


def _section(section: Section, level: int, question: str) -> list[str]:
    title, finding = escape_markdown(section.title), escape_markdown(section.finding)
    blocks = [f"{'#' * level} {title}", question, f"**{finding}**", section.note]
    if section.missing:
        blocks.append(
            "Planned runs without a result (not trained, or diverged), not in the numbers: "
            f"{section.missing}."
        )
    found: list[Table | None] = [section.summary, section.contrasts, section.cited]
    blocks += [markdown(table) for table in found if table is not None]
    for drawing in figures(section):
        blocks.append(f"![{escape_markdown(drawing.title)}](figures/{drawing.name}.svg)")
        blocks.append(escape_markdown(drawing.caption))
    return blocks
