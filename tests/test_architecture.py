"""Dependencies point one way, and importing stays light: each package alone, in a fresh process."""

import functools
import json
import subprocess
import sys

import pytest

SCRIPT = """
import importlib, json, sys
importlib.import_module(sys.argv[1])
print(json.dumps(sorted(sys.modules)))
"""
# Torch is imported once for all packages, which takes longer than anything else here.
FORKS = """
import importlib, json, os, sys
import torch
for name in sys.argv[1:]:
    if os.fork() == 0:
        importlib.import_module(name)
        print(json.dumps([name, [m for m in sys.modules if m.startswith("skinny.")]]), flush=True)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0, name
"""

# package -> what of ours it may import besides itself
ALLOWED = {
    "skinny": set(),
    "skinny.iht.controller": {"iht"},
    "skinny.models": {"models"},
    "skinny.data": {"data"},
    "skinny.graph": {"graph"},
    "skinny.packing": {"packing"},
    "skinny.runtime": {"runtime", "packing", "graph"},
    "skinny.export.model": {"export", "packing", "graph", "iht"},
    "skinny.export.onnx": {"export", "packing", "graph"},
    "skinny.export.torch_import": {"export", "graph"},
    "skinny.export.onnx_import": {"export", "graph"},
    "skinny.export.onnx_writer": {"export", "graph"},
    "skinny.training": {"training", "iht", "models", "data", "export", "packing", "graph"},
    "skinny.experiments.report": {
        *("experiments", "training", "iht", "models", "data", "export", "packing", "graph")
    },
}
HELPERS = {"errors", "files", "images", "native", "_native", "printable", "user_function"}
# What `pip install skinny-nn` alone must run: it adds NumPy and tyro, and no more.
ON_A_DEVICE = (
    "skinny",
    "skinny.graph",
    "skinny.packing",
    "skinny.runtime",
    "skinny.cli.main",
    "skinny.cli.predict",
    "skinny.cli.bench",
    "skinny.cli.size",
    "skinny.cli.unpack",
)
WITHOUT_TORCH = (
    *ON_A_DEVICE,
    *("skinny.export.onnx", "skinny.export.onnx_import", "skinny.export.onnx_writer"),
    *("skinny.cli.data", "skinny.cli.pack"),
)


@functools.cache
def modules_after(name):
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, name], capture_output=True, text=True, check=True
    )
    return json.loads(run.stdout)


@functools.cache
def our_modules_after():
    """package -> what of ours its import loads."""
    run = subprocess.run(
        [sys.executable, "-c", FORKS, *ALLOWED], capture_output=True, text=True, check=True
    )
    return dict(json.loads(line) for line in run.stdout.splitlines())


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_what_lies_below_it(package):
    ours = {name.split(".")[1] for name in our_modules_after()[package]}
    assert ours <= ALLOWED[package] | HELPERS


@pytest.mark.parametrize("name", WITHOUT_TORCH)
def test_what_a_device_or_a_help_text_needs_does_not_load_torch(name):
    loaded = {module.partition(".")[0] for module in modules_after(name)}
    assert not loaded & {"torch", "matplotlib", "sklearn", "scipy", "lightning", "transformers"}


@pytest.mark.parametrize("name", ON_A_DEVICE)
def test_what_a_device_needs_is_in_the_small_installation(name):
    loaded = {module.partition(".")[0] for module in modules_after(name)}
    assert not loaded & {"rich", "PIL", "filelock", "pooch", "jinja2", "onnx", "safetensors"}


def test_every_public_name_is_there():
    import skinny

    for name in skinny.__all__:
        assert getattr(skinny, name) is not None
    assert set(skinny.__all__) <= set(dir(skinny))
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        _ = skinny.nosuch


def test_without_torch_a_public_name_tells_what_it_needs():
    script = """
import sys
sys.modules["torch"] = None  # as if it were not installed
import skinny
for name in skinny.__all__:
    try:
        getattr(skinny, name)
    except ModuleNotFoundError as error:
        print(name, error)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    told = dict(line.split(" ", 1) for line in run.stdout.splitlines())
    assert {"IHT", "pack", "timeline"} <= told.keys()
    assert not {"load", "size", "SkinnyError"} & told.keys()
    assert all("needs torch: pip install 'skinny-nn[train]'" in text for text in told.values())
