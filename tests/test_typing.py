"""The public API as a type checker sees it."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import skinny

SNIPPET = """
import torch
import skinny

model = torch.nn.Linear(2, 2)
line = skinny.timeline.sdnn(epochs=3, sparsity=0.5)
iht = skinny.IHT(model, torch.optim.SGD(model.parameters()), line)
reveal_type(line)
reveal_type(iht)
reveal_type(iht.begin_epoch())
reveal_type(iht.finish())
reveal_type(skinny.load)
reveal_type(skinny.pack)
reveal_type(skinny.SkinnyError)
skinny.IHT(model)
skinny.nosuch
"""
# Only our own files are looked at: torch takes minutes, and its types are not ours.
SETTINGS = "[mypy]\nfollow_imports = skip\n[mypy-skinny.*]\nfollow_imports = silent\n"


def test_a_type_checker_sees_the_classes_and_not_any(tmp_path):
    (tmp_path / "snippet.py").write_text(SNIPPET)
    (tmp_path / "mypy.ini").write_text(SETTINGS)
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "snippet.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    told = run.stdout.replace("builtins.", "").splitlines()
    revealed = [line.partition("Revealed type is ")[2].strip('"') for line in told]
    line, iht, event, left, load, pack, error = [found for found in revealed if found]
    assert line == "skinny.iht.timeline.Timeline"
    assert iht == "skinny.iht.controller.IHT"
    assert event.replace("Union[", "").startswith("skinny.iht.events.Event")
    assert left == "dict[str, int]"
    assert "-> skinny.runtime.network.Network | skinny.runtime.general.GeneralNetwork" in load
    assert pack.startswith("def (model: ")
    assert "SkinnyError" in error
    assert any("Missing positional arguments" in message for message in told)
    assert any('has no attribute "nosuch"' in message for message in told)


def test_what_a_type_checker_sees_is_what_is_there():
    tree = ast.parse(Path(skinny.__file__).read_text(encoding="utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen = set()
    for statement in guarded.body:
        for name in (alias.name for alias in statement.names):
            public = getattr(skinny, name)
            assert getattr(importlib.import_module(statement.module), name) is public
            seen.add(name)
    assert seen == skinny._HOME.keys()
    assert {*skinny.__all__} == {"__version__", *seen}
