"""supp(W) within F, to the bit: masks on weights and gradients, at every step of a sparse span."""

import weakref
from collections.abc import Callable, Iterable, Mapping

from torch import Tensor
from torch.utils.hooks import RemovableHandle

from skinny.iht import masks as masking
from skinny.iht import ranks


class Enforcement:
    """Applies the masks it was given last, until they are lifted."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        self._weights = weights
        self._masks: Mapping[str, Tensor] | None = None
        self._bits: dict[str, Tensor] = {}  # the masks in the form that is applied at every step
        self._masked: dict[str, tuple[weakref.ref[Tensor], int]] = {}  # which gradient, and when

    def hook_gradients(self) -> list[RemovableHandle]:
        """Mask every gradient as it arrives.

        The hooks hold this object weakly: the garbage collector does not see into autograd's hooks,
        so that otherwise model and masks would never be freed.
        """
        enforcement = weakref.ref(self)

        def hook_for(name: str) -> Callable[[Tensor], None]:
            def hook(_: Tensor) -> None:
                if (alive := enforcement()) is not None:
                    alive.mask_gradient(name)

            return hook

        return [
            weight.register_post_accumulate_grad_hook(hook_for(name))
            for name, weight in self._weights.items()
        ]

    def impose(self, masks: Mapping[str, Tensor]) -> None:
        """From here on: `masks`, on weights and gradients."""
        self._masks, self._bits, self._masked = masks, {}, {}
        self.mask_weights(self._weights)
        self.mask_gradients(self._weights)

    def lift(self) -> None:
        self._masks, self._bits, self._masked = None, {}, {}

    def mask_weights(self, names: Iterable[str]) -> None:
        if self._masks is not None:
            for name in names:
                masking.apply_bits_(self._weights[name], self._mask_bits(self._masks, name))

    def mask_gradients(self, names: Iterable[str]) -> None:
        for name in names:
            self.mask_gradient(name)

    def mask_gradient(self, name: str) -> None:
        """Mask a gradient, unless nobody has written to it since it was masked last."""
        gradient = self._weights[name].grad
        if gradient is None or self._masks is None:
            return
        masked, version = self._masked.get(name, (None, -1))
        written_to = ranks.local(gradient)  # shards are written to by themselves, too
        if masked is None or masked() is not gradient or written_to._version != version:
            masking.apply_bits_(gradient, self._mask_bits(self._masks, name))
            self._masked[name] = (weakref.ref(gradient), written_to._version)

    def _mask_bits(self, masks: Mapping[str, Tensor], name: str) -> Tensor:
        """For the device and type the weight has now: the model may have been moved."""
        bits, weight = self._bits.get(name), self._weights[name]
        if (
            bits is None
            or bits.device != weight.device
            or bits.element_size() != weight.element_size()
        ):
            bits = self._bits[name] = masking.as_bits(masks[name], weight)
        return bits
