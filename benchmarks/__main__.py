"""All benchmarks, one after the other: python -m benchmarks [NAME...] [its options]"""

import importlib
import sys
from pathlib import Path

NOT_BENCHMARKS = {"__init__", "__main__", "common", "zoo"}
WITH_OPTIONS = ("builds", "dense", "inference", "int8")
ALL = sorted(path.stem for path in Path(__file__).parent.glob("*.py"))


def main() -> None:
    names = [name for name in ALL if name not in NOT_BENCHMARKS]
    given = sys.argv[1:]
    end = next((i for i, word in enumerate(given) if word.startswith("-")), len(given))
    chosen, options = given[:end] or names, given[end:]
    if unknown := set(chosen) - set(names):
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if options and (len(chosen) > 1 or chosen[0] not in WITH_OPTIONS):
        sys.exit(f"{', '.join(WITH_OPTIONS)} take options: python -m benchmarks inference --help")
    for name in chosen:
        print(f"== {name}", flush=True)
        benchmark = importlib.import_module(f"benchmarks.{name}").main
        benchmark(options) if options else benchmark()


if __name__ == "__main__":
    main()
