"""Einsum of ONNX files, as products, transpositions and sums; torch decomposes its own."""

from typing import Any

from skinny.graph.builder import Builder, UnsupportedError
from skinny.graph.forms import OnnxCall
from skinny.graph.graph import Operand
from skinny.graph.ops.reshape import flattened, reshape_to, unsqueezed


def from_onnx(g: Builder, call: OnnxCall) -> Any:
    """One operand or two, without repeated letters in one and without `...`."""
    equation = call.plain("equation")
    equation = (equation.decode() if isinstance(equation, bytes) else equation).replace(" ", "")
    given, arrow, result = equation.partition("->")
    terms, values = given.split(","), call.values(0)
    letters = "".join(terms)
    if not arrow:  # the letters that occur once, by the alphabet
        result = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    plain = letters.isalpha() and not set(result) - set(letters) and len(terms) in (1, 2)
    distinct = all(len(set(term)) == len(term) for term in (*terms, result))
    ranks = [g.rank(value) for value in values] == [len(term) for term in terms]
    if not plain or not distinct or not ranks:
        raise UnsupportedError(f"of {equation!r:.60}")
    summed = [
        _summed(g, value, term, result + "".join(terms[:at] + terms[at + 1 :]))
        for at, (value, term) in enumerate(zip(values, terms, strict=True))
    ]
    if len(summed) == 1:
        return _ordered(g, *summed[0], result)
    return _product(g, *summed[0], *summed[1], result)


def _summed(g: Builder, value: Operand, term: str, needed: str) -> tuple[Operand, str]:
    """Without the axes that nobody else has."""
    axes = [at for at, letter in enumerate(term) if letter not in needed]
    if not axes:
        return value, term
    left = "".join(letter for letter in term if letter in needed)
    return g.emit("sum", value, axes=axes, keep=False), left


def _product(g: Builder, x: Operand, a: str, y: Operand, b: str, result: str) -> Operand:
    batch = "".join(letter for letter in result if letter in a and letter in b)
    inner = "".join(letter for letter in a if letter in b and letter not in result)
    rows = "".join(letter for letter in result if letter not in b)
    columns = "".join(letter for letter in result if letter not in a)
    x, y = _ordered(g, x, a, batch + rows + inner), _ordered(g, y, b, batch + inner + columns)
    sizes = [g.size(x, axis) for axis in range(len(batch + rows))]
    sizes += [g.size(y, len(batch + inner) + axis) for axis in range(len(columns))]
    left = _matrices(g, x, len(batch), len(rows), len(inner))
    right = _matrices(g, y, len(batch), len(inner), len(columns))
    made = reshape_to(g, g.emit("matmul", left, right), tuple(sizes))
    return _ordered(g, made, batch + rows + columns, result)


def _matrices(g: Builder, value: Operand, batch: int, rows: int, columns: int) -> Operand:
    """[*batch, *rows, *columns] with the columns joined to one axis, and the rows to another."""
    for first, count in ((batch + rows, columns), (batch, rows)):
        if count == 0:
            value = unsqueezed(g, value, (first,))
        elif count > 1:
            value = flattened(g, value, first, first + count - 1)
    return value


def _ordered(g: Builder, value: Operand, letters: str, wanted: str) -> Operand:
    if letters == wanted:
        return value
    permuted: Operand = g.emit("permute", value, axes=[letters.index(one) for one in wanted])
    return permuted
