"""Training for few bits: weights and inputs are rounded in every forward pass of the last span.

Between two steps of the optimizer a quantised weight *is* its rounded value, in the model, and the
value that is trained waits here. A gradient is then that of the rounded network; before a step the
trained value goes back into the model, moves along this gradient (the straight-through estimate),
is masked, and is rounded again. So every forward pass, evaluation, copy and checkpoint of the model
has the rounded weights, whatever compiles or wraps it, and none of its modules is replaced.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from skinny.errors import SkinnyError
from skinny.iht import fake_quantize, ranks
from skinny.iht import state as states
from skinny.iht.input_range import LAYERS, InputRange, Ranges, agree

KINDS = ("int8", *(f"codebook{bits}" for bits in range(2, 9)))


def check_kind(kind: object) -> None:
    if kind is not None and kind not in KINDS:
        raise SkinnyError(f"quantize is {kind!r}; allowed: {', '.join(KINDS)}")


class Quantizer:
    """Rounds the trained weights of a model's convolutions and linear layers, from `begin` on.

    kind: int8, which rounds inputs too, codebook2 to codebook8, or None, which rounds nothing
    held: the parameters that the optimizers hold; weights that none of them trains stay as they are
    """

    def __init__(self, model: nn.Module, kind: str | None, held: set[int]) -> None:
        check_kind(kind)
        self.kind = kind
        layers = {
            f"{path}.weight".lstrip("."): layer
            for path, layer in model.named_modules()
            if kind and isinstance(layer, LAYERS) and id(layer._parameters.get("weight")) in held
        }
        weights = {name: layer.weight for name, layer in layers.items()}
        first = {id(weight): name for name, weight in reversed(weights.items())}  # of tied ones
        self.weights = {name: w for name, w in weights.items() if first[id(w)] == name}
        if kind and not layers:
            raise SkinnyError(
                "there is nothing to quantise: the optimizer trains the weight of no convolution "
                "and no linear layer"
            )
        if kind != "int8" and any(map(ranks.is_sharded, weights.values())):
            raise SkinnyError(
                f"weights that are spread over ranks can be quantised to int8, not to {kind}: a "
                "codebook is that of a whole layer; train under DDP, or with quantize='int8'"
            )
        self._size = 0 if kind in (None, "int8") else 1 << int(str(kind)[-1])  # of a codebook
        self._inputs = {name: InputRange() for name in layers} if kind == "int8" else {}
        self.hooks: list[RemovableHandle] = [
            layers[name].register_forward_pre_hook(hook) for name, hook in self._inputs.items()
        ]
        self._trained: dict[str, Tensor] = {}  # what the rounded weights are rounded from
        self._codebooks: dict[str, Tensor] = {}
        self._followed = False  # any batch's ranges
        self._in_step = False

    @property
    def begun(self) -> bool:
        return bool(self._trained)

    @property
    def ranges(self) -> Ranges:
        """Of the inputs of layers, by the names of their weights."""
        known = {name: hook.known for name, hook in self._inputs.items()}
        return {name: both for name, both in known.items() if both is not None}

    def begin(self) -> None:
        """Round from here on."""
        if self._size:
            self._codebooks = {
                name: fake_quantize.make_codebook(weight.detach(), self._size)
                for name, weight in self.weights.items()
            }
        for hook in self._inputs.values():
            hook.active = True
        self._keep_and_round()

    def before_step(self) -> None:
        """What the optimizer changes: the trained values."""
        if self.begun and not self._in_step:
            self._in_step = True
            for name, trained in self._trained.items():
                ranks.local(self.weights[name].detach()).copy_(trained)

    def after_step(self) -> None:
        """Also before a closure, whose forward pass within a step is of the rounded network too."""
        if self._in_step:
            self._keep_and_round()
            self._in_step = False

    def follow_inputs(self, group: Any) -> None:
        """Once a step: ranges move on. group: the ranks that train copies of the model, or None."""
        if not self.begun or not self._inputs:
            return
        groups = ranks.spanned(self.weights.values()) if group is None else [group]
        for each in groups:
            agree(self._inputs.values(), each, next(iter(self.weights.values())).device)
        for hook in self._inputs.values():
            hook.follow(first=not self._followed)
        self._followed = True

    @torch.no_grad()
    def _keep_and_round(self) -> None:
        for name, weight in self.weights.items():
            shard = ranks.local(weight.detach())
            self._trained[name] = trained = shard.clone()
            if self._size:
                rounded, moved = fake_quantize.codebook_weight(trained, self._codebooks[name])
                self._codebooks[name] = moved
            else:
                rounded = fake_quantize.int8_weight(trained)
            shard.copy_(rounded)

    def state_dict(self) -> dict[str, Any] | None:
        """A range is NaN where there is none yet: the same values throughout the training."""
        if self.kind is None:
            return None
        unknown = torch.full((2,), torch.nan)
        trained = {name: ranks.like(own, self.weights[name]) for name, own in self._trained.items()}
        return {
            "begun": self.begun,
            "trained": states.saved(trained, self.weights),
            "codebooks": dict(self._codebooks),
            "ranges": {
                name: unknown if hook.range is None else hook.range.cpu()
                for name, hook in self._inputs.items()
            },
            "followed": self._followed,
        }

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Where the training was saved. The rounded weights are the model's own."""
        if state is None:
            return
        trained = states.loaded(state["trained"] if state["begun"] else {}, self.weights)
        self._trained = {name: ranks.local(value) for name, value in trained.items()}
        self._codebooks = {
            name: value.to(self.weights[name].device) for name, value in state["codebooks"].items()
        }
        for name, hook in self._inputs.items():
            known = state["ranges"][name]
            hook.range = None if known.isnan().any() else known.clone()
            hook.seen, hook.active = None, self.begun
        self._followed = state["followed"]
