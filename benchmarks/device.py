"""What running a packed model asks of a small machine: disk, start-up time and memory.

- Installed: what `pip install skinny-nn` adds to NumPy's own size (wanted: under 15 MB).
- Start: `skinny predict` on packed NIN, interpreter included (wanted: under 0.5 s).
- Load: AlexNet at 75 %, beside the time it takes to read its file from the cache of the system.
- Memory: AlexNet at 75 % and batch 1, the highest resident set of the process (wanted: under 1.6x
  the file plus 60 MB), as usual and with low_memory.
"""

import json
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from statistics import median

import numpy as np
from PIL import Image

from benchmarks.common import describe_machine
from benchmarks.inference import CASES, Case, pack_case

ROOT = Path(__file__).parents[1]
RUN = """
import json, sys, time
began = time.perf_counter()
import numpy as np
import skinny
imported = time.perf_counter()
net = skinny.load(sys.argv[1], low_memory=sys.argv[2] == "low")
loaded = time.perf_counter()
net(np.zeros((1, *net.input_shape), np.float32), preprocessed=True)
ran = time.perf_counter()
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({
    "import": imported - began, "load": loaded - imported, "run": ran - loaded,
    "peak": 1024 * int(peak.split()[1]),
}))
"""


def _case(model: str, sparsity: float) -> Case:
    return next(case for case in CASES if (case.model, case.sparsity) == (model, sparsity))


def main() -> None:
    print(describe_machine("numpy"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before, after = installed_sizes(folder / "venv")
        print(
            f"installed beside NumPy ({before / 1e6:.1f} MB): {(after - before) / 1e6:.1f} MB more "
            "(wanted: under 15 MB)"
        )
        nin = pack_case(_case("nin-cifar", 0.9), folder)
        seconds = start_up(nin, folder / "image.png")
        print(
            f"skinny predict on NIN: best {min(seconds):.2f} s, median {median(seconds):.2f} s "
            f"of {len(seconds)} starts (wanted: under 0.5 s)"
        )
        alexnet = pack_case(_case("alexnet", 0.75), folder)
        show_alexnet(alexnet)


def installed_sizes(folder: Path) -> tuple[int, int]:
    """Bytes of a fresh environment with NumPy, and with this package as well."""
    venv.create(folder, with_pip=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
    pip += ["--constraint", ROOT / "constraints.txt"]
    sizes = []
    bare = _bytes_below(folder)
    for what in ("numpy", str(ROOT)):
        subprocess.run([*pip, what], check=True, capture_output=True)
        sizes.append(_bytes_below(folder) - bare)
    return sizes[0], sizes[1]


def start_up(model: Path, image: Path, starts: int = 10) -> list[float]:
    """Seconds from the command to its answer; the first start is not counted."""
    Image.fromarray(np.zeros((32, 32, 3), np.uint8)).save(image)
    command = [Path(sys.executable).with_name("skinny"), "predict", model, image]
    seconds = []
    for _ in range(starts + 1):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.perf_counter() - began)
    return seconds[1:]


def show_alexnet(model: Path) -> None:
    size = model.stat().st_size
    limit = 1.6 * size + 60e6
    began = time.perf_counter()
    model.read_bytes()
    reading = time.perf_counter() - began
    for mode in ("usual", "low"):
        made = [
            json.loads(subprocess.check_output([sys.executable, "-c", RUN, model, mode]))
            for _ in range(3)
        ]
        peak = max(one["peak"] for one in made)
        best = {key: min(one[key] for one in made) for key in ("load", "run")}
        print(
            f"AlexNet at 75 %, batch 1, {mode} memory: {peak / 1e6:.0f} MB at most "
            f"(wanted: under {limit / 1e6:.0f} MB for a file of {size / 1e6:.1f} MB), "
            f"load {best['load']:.3f} s and first run {best['run']:.3f} s "
            f"(reading the file from cache: {reading:.3f} s)"
        )


def _bytes_below(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


if __name__ == "__main__":
    main()
