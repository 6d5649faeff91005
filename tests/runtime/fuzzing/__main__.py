"""`python -m tests.runtime.fuzzing --seconds 600`, or `make fuzz`: networks nobody would write.

Statistics at the end; exit status 1 and a file for each kind of finding in build/fuzz if there are
any. `--seed S --file F` judges one file again, in this process.
"""

import argparse
import itertools
import json
import sys
import time
from pathlib import Path

from tests.runtime.fuzzing.campaign import Watched, campaign
from tests.runtime.fuzzing.case import describe, judge


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzzing", description=__doc__)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--cases", type=int, help="stop after this number of files")
    parser.add_argument("--seed", type=int, help="of the first file; the clock decides by default")
    parser.add_argument("--file", type=Path, help="judge this one file again")
    parser.add_argument("--into", type=Path, default=Path("build/fuzz"), help="for findings")
    arguments = parser.parse_args()
    first = int(time.time()) << 20 if arguments.seed is None else arguments.seed
    if arguments.file:
        print(describe(arguments.file))
        outcome = judge(arguments.file, first)
        print(json.dumps(outcome, indent=1).replace("\\n", "\n"))
        return int(outcome["outcome"] == "finding")
    print(f"files from seed {first} on", flush=True)
    seeds = itertools.islice(itertools.count(first), arguments.cases)
    with Watched() as watched:
        statistics = campaign(seeds, arguments.into, watched, arguments.seconds)
    print(statistics)
    return int(not statistics.passed)


if __name__ == "__main__":
    sys.exit(main())
