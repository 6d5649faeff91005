"""The public API as a type checker sees it: mypy reads this file with the package (`make lint`).

An ignored error that is none is an error, so that the last lines must be refused.
"""

from typing import assert_type

import torch

import skinny
from skinny.errors import SkinnyError
from skinny.iht.controller import IHT
from skinny.iht.events import Event
from skinny.iht.timeline import Timeline
from skinny.runtime.general import GeneralNetwork
from skinny.runtime.network import Network


def classes_and_not_any(model: torch.nn.Module) -> None:
    line = skinny.timeline.sdnn(epochs=3, sparsity=0.5)
    assert_type(line, Timeline)
    iht = skinny.IHT(model, torch.optim.SGD(model.parameters()), line)
    assert_type(iht, IHT)
    assert_type(iht.begin_epoch(), Event | None)
    assert_type(iht.finish(), dict[str, int])
    assert_type(skinny.load("a.skinny"), Network | GeneralNetwork)
    assert_type(skinny.SkinnyError("odd"), SkinnyError)
    skinny.pack(model, "a.skinny", example=torch.zeros(1, 2))


def mistakes(model: torch.nn.Module) -> None:
    skinny.IHT(model)  # type: ignore[call-arg]
    skinny.pack(model)  # type: ignore[call-arg]
    print(skinny.nosuch)  # type: ignore[attr-defined]
