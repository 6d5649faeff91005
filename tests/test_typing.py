"""The public API as a type checker sees it; what mypy makes of it is in public_types.py."""

import ast
import importlib
from pathlib import Path

import skinny


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
