"""What is raised about graphs."""

from skinny.errors import SkinnyError


class GraphError(SkinnyError):
    """A graph that makes no sense; the text names the node."""


class MisfitError(Exception):
    """Raised by shape rules: inputs that do not fit an operation. `specialize` names the node."""


def require(holds: bool, otherwise: str) -> None:
    """For shape rules: the text goes on from "node 3 (conv) ...", as in "needs 3 channels"."""
    if not holds:
        raise MisfitError(otherwise)
