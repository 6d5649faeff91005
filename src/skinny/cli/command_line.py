"""How every command reads its words: the same kind of flags, help and complaints."""

import inspect
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import tyro

from skinny.errors import SkinnyError

_Arguments = TypeVar("_Arguments")
# the file that a command writes: as `--out FILE`, or as the last word of all (`output_file`)
Out = Annotated[Path | None, tyro.conf.arg(aliases=("-o", "--output"), metavar="OUT")]
OutWord = Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(name="OUT", metavar="[OUT]")]
# `--json` alone: a `--no-json` beside it would say nothing
_CONFIG = (tyro.conf.FlagCreatePairsOff,)


class UsageError(SkinnyError):
    """A command line that cannot be understood."""


def output_file(word: Path | None, flag: Path | None, default: Path) -> Path:
    """Where to write, of the two ways to say it."""
    if word is not None and flag is not None:
        raise UsageError(f"there are two files to write, {word} and {flag}; name one of them")
    return word or flag or default


def take_name(argv: list[str], kind: str, names: Sequence[str]) -> str | None:
    """Take away the name (of a recipe, of an experiment) that the words may begin with."""
    if not argv or argv[0].startswith("-"):
        return None
    if argv[0] not in names:
        raise UsageError(f"there is no {kind} {argv[0]!r}; there are {', '.join(names)}")
    return argv.pop(0)


def parse(
    command: type[_Arguments],
    argv: Sequence[str],
    prog: str,
    *,
    default: _Arguments | None = None,
    epilogue: str = "",
    first_words: Sequence[str] = (),
) -> _Arguments:
    """The command's arguments; its docstring, then `epilogue`, are what its help begins with.

    Ends the process with exit code 2, after a message, when the words do not fit.
    first_words: names that `take_name` takes, to say where they belong when they come later.
    """
    read = partial(
        tyro.cli,
        command,
        args=argv,
        prog=prog,
        default=tyro.MISSING_NONPROP if default is None else default,
        description="\n\n".join(filter(None, [inspect.cleandoc(command.__doc__ or ""), epilogue])),
        config=_CONFIG,
    )
    if not set(first_words).isdisjoint(argv):  # it may still be the value of a flag
        _, unknown = read(return_unknown_args=True)
        for word in unknown:
            if word in first_words:
                start = " ".join(prog.split()[:2])
                raise UsageError(f"{word} must come before the flags: {start} {word} [OPTIONS]")
    arguments: _Arguments = read()
    return arguments
