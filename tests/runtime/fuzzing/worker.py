"""Judges cases in a process of its own, with a limit of memory: one JSON line in, one out.

What kills the process, or keeps it busy for longer than the other side waits, is a finding too.
"""

import contextlib
import json
import sys
from pathlib import Path

from tests.runtime.fuzzing.case import SANITIZED, judge, make

ADDRESS_SPACE = 1 << 30  # beside what the interpreter and its libraries take


def limit_memory() -> None:
    """No more address space than that, where the system can say what is taken. AddressSanitizer
    reserves terabytes, so that under it only `max_memory` holds."""
    if SANITIZED:
        return
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + ADDRESS_SPACE, taken + ADDRESS_SPACE))


def main() -> None:
    limit_memory()
    for line in sys.stdin:
        request = json.loads(line)
        path, seed = Path(request["path"]), request["seed"]
        try:
            changes = make(seed, path, request["skip"]) if "skip" in request else []
        except Exception as error:  # the fuzzer's own, however short of memory it is
            answer = {"outcome": "not made", "what": f"{type(error).__name__}: {error}"[:200]}
        else:
            answer = {**judge(path, seed), "changes": changes}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
