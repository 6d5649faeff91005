"""What the packed files of runs take, how they err, and how long they run.

    python results/files.py pack OUT.jsonl RUN...
    python results/files.py time OUT.jsonl RUN...

`pack` packs each run with its weights as they are and, if nine tenths of them were removed, rounded
(even steps of 8 bits, codebooks of 2 to 4, and within the size of Deep Compression's files), and
tests each file on the images that the run is judged by. `time` runs the exact files of the networks
of seed 0 with one thread, one image at a time, in Skinny and in the engines that are installed,
which get the same network as dense layers (`skinny bench`). A line for each file; runs that
OUT.jsonl has already are left out.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from skinny.training import RunFolder, load_run
from skinny.training.config import identity
from skinny.training.packed import accuracies, pack_trained

VALUES = ("exact", "int8", "codebook4", "codebook3", "codebook2")
FEW = 0.9  # the sparsity from which on rounding is tried
DEEP_COMPRESSION = {"lenet-300-100": 27_000, "lenet-5": 44_000}  # bytes, at no loss


def main(argv: list[str]) -> None:
    commands: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {
        "pack": packed,
        "time": timed,
    }
    if len(argv) < 3 or argv[0] not in commands:
        raise SystemExit(__doc__)
    out = Path(argv[1])
    lines = out.read_text("utf-8").splitlines() if out.exists() else []
    known = {json.loads(line)["run"] for line in lines}
    for run in map(Path, argv[2:]):
        config = RunFolder(run).config()
        if RunFolder(run).result() is None or identity(config) in known:
            continue
        for found in commands[argv[0]](run):
            lines.append(json.dumps({"run": identity(config)} | found))
            print(run.name, lines[-1], flush=True)
        out.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def packed(run: Path) -> Iterator[dict[str, Any]]:
    trained = load_run(run)
    config = trained.config
    few = config.method != "dense" and config.sparsity > FEW
    stored: dict[str, dict[str, Any]] = {
        values: {"values": values} for values in (VALUES if few else VALUES[:1])
    }
    if few and config.model in DEEP_COMPRESSION:
        stored["size"] = {"size": DEEP_COMPRESSION[config.model]}
    for name, how in stored.items():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.skinny"
            pack_trained(
                trained.model,
                file,
                config=config,
                dataset=trained.dataset,
                weights=trained.result["weights"],
                note=print,
                **how,
            )
            _, found = accuracies(trained, file)
            error = 100 * sum(found.errors) / sum(found.images)
            yield {"values": name, "bytes": file.stat().st_size, "error": round(error, 4)}


def timed(run: Path) -> Iterator[dict[str, Any]]:
    if RunFolder(run).config().seed == 0:
        bench = [sys.executable, "-m", "skinny", "bench", str(run / "model.skinny")]
        bench += ["--threads", "1", "--rounds", "100", "--json"]
        told = subprocess.run(bench, check=True, capture_output=True, text=True)
        yield {"milliseconds": json.loads(told.stdout)["median_ms"]}


if __name__ == "__main__":
    main(sys.argv[1:])
