"""The integrations are behind extras: what they import of ours, and what they say without them."""

import ast
import importlib.util
import inspect
import sys
from pathlib import Path

import pytest

import skinny
from skinny.errors import SkinnyError
from skinny.integrations.shared import Options

FOLDER = Path(skinny.__file__).parent / "integrations"
NEEDED = {
    "lightning": ("lightning", "pytorch_lightning"),
    "transformers": ("transformers",),
}


@pytest.mark.parametrize("extra", NEEDED)
def test_a_missing_package_is_an_error_that_names_the_extra(extra, monkeypatch):
    for package in NEEDED[extra]:
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, package, None)
    spec = importlib.util.spec_from_file_location("without_extra", FOLDER / f"{extra}.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.raises(SkinnyError, match=rf"pip install 'skinny-nn\[{extra}\]'"):
        spec.loader.exec_module(module)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_an_integration_imports_of_ours_what_lies_below_it(path):
    imported = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            imported |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
    ours = {name for name in imported if name.partition(".")[0] == "skinny"}
    allowed = ("skinny.iht", "skinny.integrations", "skinny.errors", "skinny.files")
    assert all(name == "skinny" or name.startswith(allowed) for name in ours)


def test_the_callbacks_take_every_option_of_iht():
    parameters = inspect.signature(skinny.IHT).parameters.values()
    options = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert options == {*Options.__annotations__, "on_event", "state"}
