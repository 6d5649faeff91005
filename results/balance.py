"""Where the method wins and where it loses, computed from the records."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import files_table
from beside_published import Beside
from files_table import Files
from readme import Line, p_text

from skinny.experiments.arms import times
from skinny.experiments.comparison import ALPHA, Row, compare, contrasts
from skinny.experiments.study import Result, Study
from skinny.training.config import identity

Compared = tuple[Study, float]  # and the points of accuracy that count as equal
_RUINED = 5.0  # points of error
_RANDOM = "random masks"
# of a setting that stands in more than one study, the first of these counts
_VERDICTS = ("better", "worse", "equivalent", "no worse", "undecided", "one seed")


def sentence(studies: Iterable[Compared], lines: Iterable[Line], where: str) -> str:
    """In a few words. studies: all that have dense training; lines: the rows of the README's table;
    where: the page that has the list of losses."""
    verdicts: dict[str, set[str]] = {}  # of each setting
    for study, margin in studies:
        for row in compare(study, margin):
            if _is_iht(row):
                setting = identity(replace(row.arm.config, seed=0))
                verdicts.setdefault(setting, set()).add(row.verdict)
    counted = [min(found, key=_VERDICTS.index) for found in verdicts.values()]
    better, worse, alike, no_worse, *_ = (counted.count(one) for one in _VERDICTS)
    alike += no_worse
    beside = [line for line in lines if line.rival is not None]
    ahead = sum(line.rival.ahead > 0 for line in beside if line.rival)
    return (
        f"Pruning costs accuracy: of {len(counted)} settings of IHT (LeNets, NIN, airnet, "
        f"AlexNet), {better or 'none'} {'are' if better > 1 else 'is'} significantly more accurate "
        f"than dense training of the same length, {worse} are significantly less accurate, {alike} "
        f"are equivalent, and {len(counted) - better - worse - alike} are not told apart; another "
        f"method of pruning has fewer errors in {ahead} of {len(beside)} rows of the table, "
        f"significantly in {sum(line.beaten for line in beside)} "
        f"([where it loses]({where}#where-it-loses))."
    )


def section(
    main: Mapping[str, Compared],
    methods: Sequence[tuple[str, Study]],
    everything: Iterable[tuple[str, Study]],
    published: Sequence[Beside],
    pretrained: Sequence[str],
    files: Files,
) -> str:
    """main: {network and data: its main study}; methods, everything: (network, study), those of
    methods, and all, for networks that broke down; pretrained: how many points IHT costs a
    pretrained network, at each sparsity."""
    dense = [f"{name}: {told}" for name, (study, m) in main.items() if (told := _lost(study, m))]
    dense += [f"MobileNetV2, Imagenette: {', '.join(pretrained)}"] if pretrained else []
    behind, ahead = (
        [f"{name}: {told}" for name, study in methods if (told := _others(study, sign))]
        for sign in (-1, 1)
    )
    best = _best_beside(published)
    random = [name for name, study in methods if _is_like_random(study)]
    lost = [
        "**Dense training of the same length** is significantly more accurate in these main "
        "studies (points of accuracy lost; the tables below have variants, too). "
        f"{'; '.join(dense)}.",
        "**Other methods** are significantly more accurate here (points, paired by seed; elsewhere "
        f"they have higher means, too, but not significantly). {'; '.join(behind)}."
        + (f" IHT is not significantly better than {_RANDOM} on: {'; '.join(random)}." if random
           else ""),
        *_defaults(study for study, _ in main.values()),
        *_published(best),
        f"**Broke down**, with more than {_RUINED:g} points more errors than dense training and "
        "more than ten times as many, in the mean over seeds of which some did: "
        f"{'; '.join(_broken(everything))}.",
        *_ruined(main, files),
    ]  # fmt: skip
    won = [
        "**Other methods** are significantly less accurate here (points, paired by seed). "
        f"{'; '.join(ahead)}.",
        "**Published results** with more errors than ours (our 95 % interval is below them): "
        f"{'; '.join(_against(one) for one in best if one.lower == 'Skinny' and one.fits)}.",
    ]
    told = ["## Where it wins", "", *_bullets(won), "", "## Where it loses", "", *_bullets(lost)]
    return "\n".join(told) + "\n"


def _bullets(texts: Iterable[str]) -> list[str]:
    return [f"- {text}" for text in texts]


def _is_iht(row: Row) -> bool:
    """Is it a network of IHT, but no ablation, beside a dense one that was trained as long?"""
    config = row.arm.config
    if config.method != "sdnn" or config.score != "magnitude" or config.reinit:
        return False
    if row.against is None or row.difference is None:
        return False
    return row.against.config.epochs == config.epochs


def _lost(study: Study, margin: float) -> str:
    """Of the arms, but not of their variants, which have a comma in their label."""
    variant = "defaults" if study.title.endswith(", defaults") else ""
    return ", ".join(
        f"{times(row.arm.config.sparsity).removeprefix('SDNN-')} {-row.difference.mean:.2f}"
        for row in compare(study, margin)
        if _is_iht(row) and row.verdict == "worse" and row.difference is not None
        if row.arm.label.partition(", ")[2] == variant
    )


def _others(study: Study, sign: int) -> str:
    """Methods that end as sparse or as small and differ from IHT by more than chance. sign: -1
    takes those that are ahead of it, 1 those that are behind."""
    theirs = {arm.label: arm.config.method for arm in study.arms}
    return ", ".join(
        f"at {one.first.removeprefix('SDNN-')} {one.second.partition(',')[0]} is "
        f"{abs(one.difference.mean):.2f} {'ahead' if sign < 0 else 'behind'} "
        f"(n = {one.difference.n}, {p_text(one.p)})"
        for one in contrasts(study)
        if sign * one.difference.mean > 0 and one.p < ALPHA
        if theirs[one.second] not in ("sdnn", "dsd") or _RANDOM in one.second
    )


def _is_like_random(study: Study) -> bool:
    return any(one.second == _RANDOM and one.p >= ALPHA for one in contrasts(study))


def _defaults(studies: Iterable[Study]) -> Iterator[str]:
    """Where settings that were searched for are significantly better than the defaults."""
    told = [
        f"{study.title.split(', ')[1]} at {one.second.removeprefix('SDNN-')} by "
        f"{-one.difference.mean:.2f} (n = {one.difference.n}, {p_text(one.p)})"
        for study in studies
        if study.title.endswith(", defaults")
        for one in contrasts(study)
        if one.difference.mean < 0 and one.p < ALPHA
    ]
    if told:
        yield (
            "**The defaults** of `skinny.IHT` are significantly less accurate than the settings "
            f"that were searched for, points: {'; '.join(told)}."
        )


def _best_beside(beside: Iterable[Beside]) -> list[Beside]:
    """For each published result the best of ours that stand beside it."""
    best: dict[tuple[str, str], Beside] = {}
    for one in beside:
        key = one.pair.network, one.theirs.model
        if key not in best or one.errors.mean < best[key].errors.mean:
            best[key] = one
    return [*best.values()]


def _against(one: Beside) -> str:
    return (
        f"{one.theirs.model} on {one.pair.network} ({one.theirs.error:.2f} %; {one.name}, "
        f"{one.epochs} epochs: {one.errors.mean:.2f} %)"
    )


def _published(best: Iterable[Beside]) -> Iterator[str]:
    """Published results that ours do not reach."""
    lower = [one for one in best if one.theirs.error < one.errors.mean or not one.fits]
    sure, unsure = (
        [_against(one) for one in lower if (one.lower == "published") == surely]
        for surely in (True, False)
    )
    if sure:
        yield f"**Published results** with fewer errors than ours: {'; '.join(sure)}." + (
            f" Lower, or in fewer bytes, but not told apart: {'; '.join(unsure)}." if unsure else ""
        )


def _broken(studies: Iterable[tuple[str, Study]]) -> list[str]:
    told = {}  # the same setting stands in more than one study
    for network, study in studies:
        for row in compare(study, 0.2):
            if row.against is None or not _is_iht(row):
                continue
            error, dense = files_table.error(row.arm), files_table.error(row.against)
            if error > max(dense + _RUINED, 10 * dense):
                setting = identity(replace(row.arm.config, seed=0))
                told[setting] = f"{network}, {row.arm.label} ({error:.1f} %)"
    return [*told.values()]


def _ruined(main: Mapping[str, Compared], files: Files) -> Iterator[str]:
    """Networks that rounding after training ruins."""
    told = [
        f"{name}, {arm.label}: {ways}"
        for name, (study, _) in main.items()
        for arm in study.arms
        if ", " not in arm.label and (ways := _ruining(arm, files))
    ]
    if told:
        yield (
            "**Rounded to few bits after training**, a network may be ruined: "
            f"{'; '.join(told)}. `skinny pack` prints the accuracy before it writes."
        )


def _ruining(arm: Result, files: Files) -> str:
    exact = files_table.point(arm, files, "exact")
    found = {bits: files_table.point(arm, files, f"codebook{bits}") for bits in (4, 3, 2)}
    ruined = {
        str(bits): f"{point[1]:.1f}"
        for bits, point in found.items()
        if exact is not None and point is not None and point[1] > exact[1] + _RUINED
    }
    if exact is None or not ruined:
        return ""
    errors = f"{', '.join(ruined.values())} % errors with {', '.join(ruined)} bits"
    return f"{errors}, {exact[1]:.1f} % as trained"
