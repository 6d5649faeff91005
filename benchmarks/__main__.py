"""All benchmarks, one after the other: python -m benchmarks [NAME...]"""

import importlib
import sys
from pathlib import Path

NOT_BENCHMARKS = {"__init__", "__main__", "common"}
ALL = sorted(path.stem for path in Path(__file__).parent.glob("*.py"))


def main() -> None:
    names = [name for name in ALL if name not in NOT_BENCHMARKS]
    chosen = sys.argv[1:] or names
    if unknown := set(chosen) - set(names):
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    for name in chosen:
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
