import importlib.util
import sys
from pathlib import Path

import pytest


def _load(name: str) -> None:
    """Makes a helper beside this file importable by the tests, as `runtime_<name>`."""
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"runtime_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)


for helper in ("builder", "cases", "compare", "tensors"):
    _load(helper)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kernels")
