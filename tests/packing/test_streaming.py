"""Packing and unpacking hold one layer at a time, whatever the size of the network."""

import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
from pathlib import Path
import numpy as np
from skinny import packing

def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

folder, form = Path(sys.argv[1]), sys.argv[2]
rng = np.random.default_rng(0)
layer = rng.standard_normal(4_000_000, dtype=np.float32)  # 16 MB
if form == "sparse":
    layer[rng.random(layer.size, dtype=np.float32) < 0.9] = 0
small = folder / "small.skinny"
packing.write(small, {"w": layer[:1000]})
packing.to_safetensors(small, folder / "small.safetensors")
path = folder / "model.skinny"
began = peak()
packing.write(path, ((f"layer{i}", layer) for i in range(8)))
packed = peak()
packing.to_safetensors(path, folder / "model.safetensors")
print(layer.nbytes, packed - began, peak() - began, path.stat().st_size)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has another unit elsewhere")
@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_memory_stays_below_twice_a_layer_and_the_output(tmp_path, form):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), form]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    layer, to_pack, to_do_both, output = map(int, run.stdout.split())
    assert to_pack < 2 * layer + output
    assert to_pack < 3 * layer  # the 8 layers are never held together
    assert to_do_both < 3 * layer
