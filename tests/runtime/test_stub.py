"""The seam to C++: the stub describes the module."""

import ast
import enum
from pathlib import Path

import pytest

import skinny

_native = pytest.importorskip("skinny._native", reason="the native extension was not built")
STUB = ast.parse((Path(skinny.__file__).parent / "_native.pyi").read_text())


def public(names):
    return {name for name in names if not name.startswith("_") or name == "__init__"}


def arguments(function: ast.FunctionDef) -> tuple[list[str], list[str]]:
    """Positional and keyword-only names, `self` left out."""
    positional = [argument.arg for argument in function.args.args if argument.arg != "self"]
    return positional, [argument.arg for argument in function.args.kwonlyargs]


def native_arguments(function) -> list[tuple[list[str], list[str]]]:
    """The same of a bound function, one for each overload."""
    found = []
    for signature, *_ in function.__nb_signature__:
        names = signature.partition("(")[2]
        found.append(parse_names(names))
    return found


def parse_names(signature: str) -> tuple[list[str], list[str]]:
    positional: list[str] = []
    keyword: list[str] = []
    into, depth, word = positional, 0, ""
    for character in signature:
        if character in "[(":
            depth += 1
        elif character in "])":
            depth -= 1
        if depth < 0 or (character == "," and depth == 0):
            name = word.partition(":")[0].strip()
            if name == "*":
                into = keyword
            elif name and name != "self":
                into.append(name)
            word = ""
            if depth < 0:
                break
        else:
            word += character
    return positional, keyword


def functions(body):
    """Name -> its definitions, in order (overloads have several)."""
    found: dict[str, list[ast.FunctionDef]] = {}
    for statement in body:
        if isinstance(statement, ast.FunctionDef):
            found.setdefault(statement.name, []).append(statement)
    return found


def stub_names() -> set[str]:
    names = set(functions(STUB.body))
    for statement in STUB.body:
        if isinstance(statement, ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.AnnAssign):
            names.add(statement.target.id)
    return public(names)


CLASSES = {
    statement.name: statement
    for statement in STUB.body
    if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_")
}


def test_the_stub_lists_what_the_module_exports():
    assert stub_names() == public(dir(_native)) - {"_native"}


@pytest.mark.parametrize("name", functions(STUB.body))
def test_a_functions_arguments_have_the_names_of_the_stub(name):
    written = [arguments(definition) for definition in functions(STUB.body)[name]]
    assert native_arguments(getattr(_native, name)) == written


@pytest.mark.parametrize("name", CLASSES)
def test_a_classs_members_are_those_of_the_stub(name):
    native_class, stub = getattr(_native, name), CLASSES[name]
    if issubclass(native_class, enum.Enum):
        values = {
            line.targets[0].id: line.value.value
            for line in stub.body
            if isinstance(line, ast.Assign)
        }
        assert {member.name: member.value for member in native_class} == values
        return
    methods = functions(stub.body)
    assert public(vars(native_class)) == set(methods)
    for method, definitions in methods.items():
        decorators = {getattr(d, "id", "") for d in definitions[0].decorator_list}
        if "property" not in decorators:
            written = [arguments(definition) for definition in definitions]
            assert native_arguments(getattr(native_class, method)) == written, method
