import pytest

from skinny.experiments.report.table import Cell, Table, latex, markdown, number, p_value

NASTY = Table(
    "t",
    "100 % of <b> | it_",
    ("a|b", "x_1"),
    ((Cell(r"50 % & $5 #1 \x {y} ~^"), number(-1.5)), (Cell("<script>"), number(float("nan")))),
)


def test_markdown_escapes_what_would_break_a_table():
    assert markdown(NASTY).splitlines() == [
        r"100 % of \<b\> \| it\_",
        "",
        r"| a\|b | x\_1 |",
        "| --- | ---: |",
        r"| 50 % & $5 \#1 \\x \{y\} ~^ | −1.50 |",
        r"| \<script\> | – |",
    ]


def test_latex_escapes_every_special_character():
    lines = latex(NASTY).splitlines()
    assert lines[1] == r"\begin{tabular}{lr}"
    assert lines[5] == (
        r"50 \% \& \$5 \#1 \textbackslash{}x \{y\} \textasciitilde{}\textasciicircum{}"
        r" & $-$1.50 \\"
    )
    assert lines[-1] == r"\end{tabular}"


@pytest.mark.parametrize(
    ("p", "text"), [(0.0004, "< 0.001"), (0.0321, "0.032"), (1.0, "1.000"), (float("nan"), "–")]
)
def test_p_values_are_rounded_as_one_reads_them(p, text):
    assert p_value(p).text == text


def test_what_is_unknown_sorts_last():
    assert number(float("nan")).value == float("inf")
    assert number(1.005, sign=True).text.startswith("+1.0")
