"""The `skinny` command: finds the subcommand, runs it; an error or a warning is one clear line.

Exit codes: 0 done; 1 failed, also over a value that is out of range; 2 not understood: an unknown
command, recipe or experiment, or flags that cannot be parsed; 130 interrupted. A traceback appears
only with --debug.
"""

import importlib
import os
import sys
import warnings
from collections.abc import Sequence

from skinny import __version__
from skinny.errors import SkinnyError
from skinny.printable import printable

# command -> one line about it; each lives in the module of the same name
_COMMANDS = {
    "train": "train a network by iterative hard thresholding",
    "eval": "test a trained network again",
    "pack": "pack a trained network into one small file",
    "unpack": "get the weights back out of a packed file",
    "predict": "label pictures with a packed network",
    "bench": "time a packed network against other engines",
    "size": "see what is stored in a packed file, layer by layer",
    "sweep": "train every combination of some settings, for several seeds",
    "reproduce": "the paper's tables and figures, and the baselines",
    "record": "keep finished runs as lines of one file",
    "report": "compare runs, on a page that opens offline",
    "data": "list, verify and fetch data sets",
    "demo": "see the whole method at work on a small data set",
}
_NEEDS_TRAIN = "this command needs what training needs: pip install 'skinny-nn[train]'"


def main(arguments: Sequence[str] | None = None) -> int:
    argv = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in argv
    argv = [argument for argument in argv if argument != "--debug"]
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0
    if argv[0] == "--version":
        print(f"skinny {__version__}")
        return 0
    if argv[0] not in _COMMANDS:
        return _fail(f"there is no command {argv[0]!r}; there are {', '.join(_COMMANDS)}", 2)
    try:
        with warnings.catch_warnings():
            if not debug:
                warnings.showwarning = _warn
            command = importlib.import_module(f"skinny.cli.{argv[0]}")
            code: int = command.main(argv[1:])
        sys.stdout.flush()
        return code
    except SkinnyError as error:
        if debug:
            raise
        return _fail(str(error), _exit_code(error))
    except KeyboardInterrupt:
        if debug:
            raise
        return _fail("interrupted; run the same command again to go on", 130)
    except BrokenPipeError:  # whoever read our output has had enough, e.g. `skinny data | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if debug:
            raise
        return _fail(f"{error.filename or 'input or output'}: {error.strerror or error}", 1)
    except ModuleNotFoundError as error:
        if debug or error.name is None or error.name.startswith("skinny"):
            raise
        return _fail(f"{_NEEDS_TRAIN} (there is no module {error.name!r})", 1)


def _overview() -> str:
    width = max(map(len, _COMMANDS))
    lines = [f"  {name.ljust(width)}  {about}" for name, about in _COMMANDS.items()]
    return "\n".join(
        [
            "usage: skinny COMMAND [OPTIONS]",
            "",
            "Trains skinny deep neural networks: a fraction of the weights, and as good.",
            "",
            *lines,
            "",
            "`skinny COMMAND --help` explains each, with an example. --debug shows tracebacks.",
        ]
    )


def _exit_code(error: SkinnyError) -> int:
    from skinny.cli.command_line import UsageError  # here: `skinny --version` needs no parser

    return 2 if isinstance(error, UsageError) else 1


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """A warning without Python's category, file and source line."""
    _tell(str(message))


def _fail(message: str, code: int) -> int:
    sys.stdout.flush()
    _tell(message)
    return code


def _tell(message: str) -> None:
    # a live display stands in for sys.stderr while it is shown, and puts the line above itself
    print(f"skinny: {printable(' '.join(message.split()))}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
