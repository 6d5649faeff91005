"""IHT: binds a model, its optimizer and a timeline, and keeps supp(W) inside F to the bit."""

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from skinny.errors import SkinnyError
from skinny.iht import budget as budgets
from skinny.iht import masks as masking
from skinny.iht.layers import prunable, unwrapped
from skinny.iht.timeline import Span, Timeline

Score = Literal["magnitude", "random"]
Restore = Literal["zero", "last"]


@dataclass(frozen=True)
class Thresholding:
    """What one thresholding did."""

    at: int  # epochs or steps done before it
    target: float  # the sparsity asked for
    size: dict[str, int]  # weights per layer
    kept: dict[str, int]  # of which kept
    change: dict[str, float] | None  # change ratio per layer; None for the first thresholding

    @property
    def sparsity(self) -> float:
        """Over all layers: the fraction of prunable weights removed."""
        return 1 - sum(self.kept.values()) / sum(self.size.values())

    @property
    def change_ratio(self) -> float | None:
        """Over all layers: the share of weights whose state the thresholding turned over."""
        if self.change is None:
            return None
        changed = sum(ratio * self.size[name] for name, ratio in self.change.items())
        return changed / sum(self.size.values())

    def layer_sparsity(self) -> dict[str, float]:
        return {name: 1 - self.kept[name] / size for name, size in self.size.items()}


class IHT:
    """Iterative hard thresholding for a plain PyTorch model, in the user's own loop.

        iht = skinny.IHT(model, optimizer, skinny.timeline.sdnn(epochs=180, sparsity=0.9))
        for epoch in range(180):
            iht.begin_epoch()
            ...                        # forward, backward, optimizer.step(): nothing changes

    With a timeline counted in steps nothing at all is called: the optimizer's steps are counted.

    In a sparse span a truncated weight is exactly 0 after every step: its gradient is masked as it
    arrives (before clipping or any norm sees it) and once more before the step, its optimizer state
    is cleared when it is truncated, and the mask is applied again after the step. No module is
    wrapped and no state_dict key changes.

    budget:  "uniform", "erk", "global", or {pattern: sparsity or k} for single layers
    include, exclude:  name patterns, see `skinny.iht.layers.prunable`
    score:   "magnitude" (the paper), or "random"
    restore: what a truncated weight is when it is given back: "zero" (the paper), or "last", its
             value before truncation
    seed:    for the random score alone
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        timeline: Timeline,
        *,
        budget: str | budgets.Rules = "uniform",
        include: str | Sequence[str] | None = None,
        exclude: str | Sequence[str] = (),
        score: Score = "magnitude",
        restore: Restore = "zero",
        seed: int = 0,
    ) -> None:
        _one_of("score", score, ("magnitude", "random"))
        _one_of("restore", restore, ("zero", "last"))
        if isinstance(budget, str):
            _one_of("budget", budget, ("uniform", "erk", "global"))
        self.timeline = timeline
        self.masks: masking.Masks | None = None  # of the latest thresholding
        self.history: list[Thresholding] = []
        self.weights = prunable(unwrapped(model), include, exclude)
        self._optimizer = optimizer
        self._budget, self._score, self._restore, self._seed = budget, score, restore, seed
        self._position = 0  # epochs begun, or steps done
        self._span = -1  # index of the span we are in
        self._bits: dict[str, Tensor] = {}  # the masks in the form that is applied at every step
        self._masked: dict[str, tuple[weakref.ref[Tensor], int]] = {}  # which gradient, and when
        self._before: dict[str, Tensor] = {}  # values at truncation, for restore="last"
        self._check_optimizer()
        if timeline.target > 0:
            self._counts(timeline.target)  # an impossible budget is an error now, not at epoch 15
        self._hooks = [
            weight.register_post_accumulate_grad_hook(self._gradient_hook(name))
            for name, weight in self.weights.items()
        ]
        self._hooks.append(optimizer.register_step_pre_hook(self._before_step))
        self._hooks.append(optimizer.register_step_post_hook(self._after_step))
        if timeline.unit == "step":
            self._enter(0)

    @property
    def span(self) -> Span | None:
        """The span the training is in; None before it has begun."""
        return self.timeline.spans[self._span] if self._span >= 0 else None

    @property
    def sparse(self) -> bool:
        """Are masks enforced now?"""
        return self.span is not None and self.span.sparsity > 0

    @property
    def sparsity(self) -> float:
        """The fraction of prunable weights removed now: 0 in a dense span."""
        return self.history[-1].sparsity if self.sparse else 0.0

    def layer_sparsity(self) -> dict[str, float]:
        """The same for each layer."""
        if self.sparse:
            return self.history[-1].layer_sparsity()
        return dict.fromkeys(self.weights, 0.0)

    def begin_epoch(self) -> None:
        """Call before each epoch: thresholds or restores when a span begins here.

        After the last epoch of the timeline its last span simply goes on.
        """
        if self.timeline.unit == "epoch":
            self._enter(self._position)
            self._position += 1

    def detach(self) -> None:
        """Let go of the model and the optimizer: the masks are no longer enforced."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on exactly here: plain values and tensors."""
        return {
            "unit": self.timeline.unit,
            "timeline": [(span.start, span.length, span.sparsity) for span in self.timeline.spans],
            "position": self._position,
            "span": self._span,
            "masks": None if self.masks is None else dict(self.masks),
            "before": dict(self._before),
            "history": [asdict(record) for record in self.history],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken. Load the model and the optimizer too, in any order."""
        missing = self.state_dict().keys() - state.keys()
        if missing:
            raise SkinnyError(f"this is not the state of an IHT: it has no {min(missing)!r}")
        spans = [tuple(span) for span in state["timeline"]]
        ours = [(span.start, span.length, span.sparsity) for span in self.timeline.spans]
        if spans != ours or state["unit"] != self.timeline.unit:
            raise SkinnyError("this IHT state was made with another timeline")
        for saved in (state["masks"], state["before"]):
            if saved and {name: tuple(tensor.shape) for name, tensor in saved.items()} != {
                name: tuple(weight.shape) for name, weight in self.weights.items()
            }:
                raise SkinnyError(
                    f"this IHT state was made for other layers: it has {', '.join(saved)}; "
                    f"the model has {', '.join(self.weights)}"
                )
        self._position, self._span = state["position"], state["span"]
        self.history = [Thresholding(**record) for record in state["history"]]
        self._before = {name: value.clone() for name, value in state["before"].items()}
        self.masks = None
        if state["masks"] is not None:
            self.masks = {
                name: torch.empty_like(weight, dtype=torch.bool, requires_grad=False).copy_(
                    state["masks"][name]
                )
                for name, weight in self.weights.items()
            }
        self._bits, self._masked = {}, {}
        if self.sparse:
            self._apply_masks()

    def _enter(self, position: int) -> None:
        index = self.timeline.index(position)
        if index == self._span:
            return
        was_sparse = self.sparse
        span = self.timeline.spans[index]
        if span.sparsity:
            self._prune(span, position, within=self.masks if was_sparse else None)
        elif was_sparse:
            self._give_back()
        self._span = index

    def _prune(self, span: Span, position: int, within: masking.Masks | None) -> None:
        counts = self._counts(span.sparsity)
        if within is not None:  # nothing is given back, whatever rounding or ties would allow
            within = {name: mask.to(self.weights[name].device) for name, mask in within.items()}
            counts = {name: min(k, int(within[name].sum())) for name, k in counts.items()}
        made = masking.build(
            self.weights,
            counts,
            score=self._score,
            within=within,
            # one seed gives one sequence of masks, on every rank and after every resumption
            generator=torch.Generator().manual_seed(self._seed * 1_000_003 + len(self.history)),
        )
        change = None
        if self.masks is not None:
            change = {n: masking.change_ratio(self.masks[n], mask) for n, mask in made.items()}
        if self._restore == "last":
            for name, weight in self.weights.items():
                value = weight.detach().clone()
                if within is not None:  # what an earlier span truncated keeps its older value
                    value = torch.where(within[name], value, self._before[name].to(value.device))
                self._before[name] = value
        self.masks, self._bits, self._masked = made, {}, {}
        self.history.append(
            Thresholding(
                at=position,
                target=span.sparsity,
                size={name: mask.numel() for name, mask in made.items()},
                kept={name: int(mask.sum()) for name, mask in made.items()},
                change=change,
            )
        )
        self._apply_masks()
        for name, weight in self.weights.items():
            for value in self._optimizer.state.get(weight, {}).values():
                if isinstance(value, Tensor) and value.shape == weight.shape:
                    masking.apply_(value, made[name])
            self._mask_gradient(name)

    def _give_back(self) -> None:
        self._bits = {}
        if self._restore == "zero":
            return
        assert self.masks is not None
        with torch.no_grad():
            for name, weight in self.weights.items():
                before = self._before[name].to(weight.device)
                weight.copy_(torch.where(self.masks[name].to(weight.device), weight, before))
        self._before = {}

    def _counts(self, sparsity: float) -> dict[str, int]:
        shapes = {name: tuple(weight.shape) for name, weight in self.weights.items()}
        if self._budget == "uniform":
            return budgets.uniform(shapes, sparsity)
        if self._budget == "erk":
            return budgets.erk(shapes, sparsity)
        if self._budget == "global":
            return budgets.globally(self.weights, sparsity)
        assert not isinstance(self._budget, str)
        progress = sparsity / self.timeline.target
        return budgets.per_layer(shapes, sparsity, self._budget, progress)

    def _mask_bits(self, name: str) -> Tensor:
        """For the device and type the weight has now: the model may have been moved."""
        assert self.masks is not None
        bits, weight = self._bits.get(name), self.weights[name]
        if (
            bits is None
            or bits.device != weight.device
            or bits.element_size() != weight.element_size()
        ):
            bits = self._bits[name] = masking.as_bits(self.masks[name], weight)
        return bits

    def _apply_masks(self) -> None:
        for name, weight in self.weights.items():
            masking.apply_bits_(weight, self._mask_bits(name))

    def _mask_gradient(self, name: str) -> None:
        """Mask a gradient, unless nobody has written to it since it was masked last."""
        gradient = self.weights[name].grad
        if gradient is None:
            return
        masked, version = self._masked.get(name, (None, -1))
        if masked is None or masked() is not gradient or gradient._version != version:
            masking.apply_bits_(gradient, self._mask_bits(name))
            self._masked[name] = (weakref.ref(gradient), gradient._version)

    def _gradient_hook(self, name: str) -> Any:
        def hook(_: Tensor) -> None:
            if self.sparse:
                self._mask_gradient(name)

        return hook

    def _before_step(self, *_: Any) -> None:
        if self._span < 0:
            raise SkinnyError(
                "the optimizer stepped before the first epoch began: "
                "call iht.begin_epoch() at the start of every epoch"
            )
        if self.sparse:  # gradients may have been changed since they arrived
            for name in self.weights:
                self._mask_gradient(name)

    def _after_step(self, *_: Any) -> None:
        if self.sparse:
            self._apply_masks()
        if self.timeline.unit == "step":
            self._position += 1
            self._enter(self._position)

    def _check_optimizer(self) -> None:
        known = {id(p) for group in self._optimizer.param_groups for p in group["params"]}
        strangers = [name for name, weight in self.weights.items() if id(weight) not in known]
        if strangers:
            raise SkinnyError(
                f"the optimizer does not hold {', '.join(strangers)}: "
                "give it these parameters, or exclude them from thresholding"
            )


def _one_of(what: str, given: object, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise SkinnyError(f"{what} is {given!r}; allowed: {', '.join(allowed)}")
