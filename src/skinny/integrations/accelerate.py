"""IHT in checkpoints of accelerate, where it shards the model (FSDP2)."""

from collections.abc import Mapping
from typing import Any

from skinny.iht import state as states
from skinny.iht.controller import IHT


class WholeState:
    """accelerator.register_for_checkpointing(WholeState(iht)): `save_state` and `load_state`
    include IHT, on any number of ranks.

    accelerate has one rank write what is registered, and that rank's shards of the masks are not
    the masks; these are gathered first. Models that are not sharded register the IHT itself.
    """

    def __init__(self, iht: IHT) -> None:
        self._iht = iht

    def state_dict(self) -> dict[str, Any]:
        return states.gathered(self._iht.state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._iht.load_state_dict(state)
