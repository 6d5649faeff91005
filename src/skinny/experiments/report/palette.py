"""Colours: the same figure is drawn once and follows the page into the dark.

A figure is drawn with the light colours; on the page each of them is replaced by a variable of the
style sheet, which knows both.
"""

import re

_ROLES = {
    # role: (light, dark)
    "ink": ("#1d2430", "#e8eaee"),
    "muted": ("#626b7a", "#9aa3b2"),
    "line": ("#dfe3e9", "#323946"),
    "paper": ("#fdfdfc", "#161a21"),
    "span": ("#f6ead2", "#33301f"),
    "dense": ("#5c677b", "#aab4c5"),
    "c0": ("#c2410c", "#fb8a4f"),
    "c1": ("#0f766e", "#3cc9bb"),
    "c2": ("#6d28d9", "#b18cf7"),
    "c3": ("#1d4ed8", "#79a6ff"),
    "c4": ("#a16207", "#e2b33c"),
    "c5": ("#be185d", "#f778b0"),
    "c6": ("#4d7c0f", "#a3d14c"),
    "c7": ("#0e7490", "#5cc8e6"),
    "c8": ("#7f1d1d", "#e08585"),
}
LIGHT = {role: light for role, (light, _) in _ROLES.items()}
SERIES = tuple(light for role, light in LIGHT.items() if re.fullmatch(r"c\d", role))


def css_variables(dark: bool) -> str:
    return "".join(f"--{role}:{colours[dark]};" for role, colours in _ROLES.items())


def themed(svg: str) -> str:
    """An SVG drawn in the light colours, with variables in their place and the page's font."""
    for role, light in LIGHT.items():
        svg = svg.replace(light, f"var(--{role})")
    return re.sub(r"font: ([^;\"]*?px) [^;\"]*", r"font: \1 var(--sans)", svg)
