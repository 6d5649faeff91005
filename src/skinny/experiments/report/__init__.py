"""The report: one page that opens offline, the same as Markdown, figures and tables as files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skinny.errors import SkinnyError
from skinny.experiments.comparison import compare, finding
from skinny.experiments.report import charts, filters, markdown, page, table, tables
from skinny.experiments.report.drawing import Drawing
from skinny.experiments.study import Study
from skinny.files import atomic_write


def write_report(
    studies: Sequence[Study],
    out: Path,
    *,
    margin: float = 1.0,
    scale: str | None = None,
    unfinished: int = 0,
) -> Path:
    """Write report.html, report.md, figures/ and tables/ into `out`; the path of the page.

    margin: points of accuracy within which two arms count as equivalent.
    """
    pages = make_pages(studies, margin=margin, scale=scale, unfinished=unfinished)
    try:
        out.mkdir(parents=True, exist_ok=True)
        for section in pages.sections:
            _write_files(section, out)
        for name, text in (("report.md", pages.markdown()), ("report.html", pages.html())):
            with atomic_write(out / name, "w") as file:
                file.write(text)
    except OSError as error:
        raise SkinnyError(f"cannot write to {out}: {error.strerror or error}") from error
    return out / "report.html"


@dataclass(frozen=True)
class Pages:
    """A report before it is written: its figures are not drawn yet."""

    sections: list[page.Section]
    heading: str
    lead: str
    facts: dict[str, str]
    notes: list[str]

    def html(self) -> str:
        return page.render(**vars(self))

    def markdown(self) -> str:
        return markdown.render(**vars(self))


def make_pages(
    studies: Sequence[Study],
    *,
    margin: float = 1.0,
    scale: str | None = None,
    unfinished: int = 0,
) -> Pages:
    told = [study for study in studies if any(arm.runs for arm in study.arms)]
    if not told:
        raise SkinnyError("there is no finished run to report on")
    if not 0 < margin < 100:
        raise SkinnyError(f"the margin is {margin} points; it must lie between 0 and 100")
    sections = [_section(study, f"study{i}", margin) for i, study in enumerate(told, 1)]
    runs = {run.name for study in told for arm in study.arms for run in arm.runs}
    if len(told) == 1:
        heading, lead = told[0].title, sections[0].finding
    else:
        heading = "Skinny against dense training"
        lead = f"{len(told)} studies, {len(runs)} runs. What each one found is below."
    notes = []
    if scale == "smoke":
        notes.append(
            "This is the smoke scale: a hundred images and a few epochs. It proves that everything "
            "runs, and its numbers say nothing about the method."
        )
    if unfinished:
        notes.append(f"{unfinished} unfinished runs were passed over.")
    return Pages(sections, heading, lead, _facts(told, margin, len(runs)), notes)


def _section(study: Study, name: str, margin: float) -> page.Section:
    rows = compare(study, margin)
    figures: list[Drawing | None] = [
        charts.accuracy_against_sparsity(study, rows, name)
        or charts.accuracy_by_arm(study, rows, name),
        charts.error_against_bytes(study, rows, name),
        charts.change_ratio(study, name),
        charts.kept_by_layer(study, name),
    ]
    units = [arm.config.unit for arm in study.arms if arm.config.method != "dense"]
    if units and 2 * units.count("step") >= len(units):  # the question is how often
        figures.insert(0, figures.pop(2))
    trained = [arm for arm in study.arms if arm.runs]
    curves = [charts.learning_curves(study, arm, name) for arm in trained[: charts.CURVES]]
    return page.Section(
        name,
        study.title,
        study.question,
        finding(study, rows, margin),
        study.note,
        tables.summary(study, rows, margin, name),
        tables.contrasts(study, name),
        tuple(drawing for drawing in figures if drawing is not None),
        tuple(drawing for drawing in curves if drawing is not None),
        max(0, len(trained) - charts.CURVES),
        tuple(filters.gallery(study)),
        tables.classes(study, name),
        tables.cited(study, name),
        sum(arm.missing for arm in study.arms),
    )


def _write_files(section: page.Section, out: Path) -> None:
    for drawing in (*section.figures, *section.curves):
        drawing.write(out / "figures")
    (out / "tables").mkdir(exist_ok=True)
    for one in (section.summary, section.contrasts, section.classes, section.cited):
        if one is not None:
            for suffix, text in ((".md", table.markdown(one)), (".tex", table.latex(one))):
                with atomic_write(out / "tables" / f"{one.name}{suffix}", "w") as file:
                    file.write(text)


def _facts(studies: Sequence[Study], margin: float, runs: int) -> dict[str, str]:
    made = {
        "Error": "On images never trained on, with the weights of the last epoch: no epoch is "
        "chosen by looking at them.",
        "Interval": "95 %, from the t distribution over seeds, not corrected for the number of "
        "arms.",
        "Δ and p": "Accuracy minus that of dense training of the same network with the same "
        "epochs, data and settings (tuned methods: with the settings chosen for it), unless a "
        "table names another arm; paired by seed; two-sided paired t test, corrected for the "
        "number of arms in the study (Holm).",
        f"p of ±{margin:g}": "Two one-sided paired t tests: below 0.05, the two differ by less "
        f"than {margin:g} in points of accuracy.",
        "Against dense": f"better or worse: p below 0.05. equivalent: p of ±{margin:g} below 0.05. "
        "no worse: the same for the lower side alone. undecided: none of these, though the "
        "interval of Δ, which is not corrected, may leave out 0. one seed: there is no interval.",
        "Runs": f"{runs}. " + "; ".join(sorted({_made_by(study) for study in studies})) + ".",
    }
    if any(study.cited for study in studies):
        sources = dict.fromkeys(study.source for study in studies if study.cited)
        made["Published"] = f"{'. '.join(sources)}. Cited numbers were not measured here."
    return made


def _made_by(study: Study) -> str:
    result = next(run.result for arm in study.arms for run in arm.runs)
    versions = result.get("versions", {})
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{told}, on {result.get('device', 'an unknown device')}"
