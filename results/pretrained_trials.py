"""The records of trials (results/pretrained_train.py), a line of JSON each.

python results/pretrained_trials.py FOLDER...
"""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


def lines(folders: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for path in (path for folder in folders for path in sorted(folder.glob("*.json"))):
        found = json.loads(path.read_text("utf-8"))
        method, _, sparsity = path.stem.partition("-")
        yield {
            "method": method,
            "sparsity": float(sparsity or 0),
            "r0": None if found["progressive"] or method != "iht" else "target",
            **{name: found[name] for name in ("rate", "epochs", "photographs", "seed", "accuracy")},
        }


if __name__ == "__main__":
    for line in lines(map(Path, sys.argv[1:])):
        print(json.dumps(line))
