"""The arguments all our models share, checked once at their door."""

from skinny.errors import SkinnyError


def check_arguments(*, classes: int, channels: int, dropout: float) -> None:
    for name, value in (("classes", classes), ("channels", channels)):
        if not isinstance(value, int) or value < 1:
            raise SkinnyError(f"{name} must be a whole number of at least 1, got {value!r}")
    if not 0 <= dropout < 1:
        raise SkinnyError(
            f"dropout is the share of activations dropped, from 0 up to but not 1, got {dropout}"
        )
