"""IHT: binds a model, its optimizer and a timeline, and keeps supp(W) inside F to the bit."""

import warnings
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NoReturn

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from skinny.errors import SkinnyError
from skinny.iht import arguments, attached, patterns, ranks, summary
from skinny.iht import budget as budgets
from skinny.iht import masks as masking
from skinny.iht import state as states
from skinny.iht.cursor import Cursor
from skinny.iht.enforcement import Enforcement
from skinny.iht.events import Event, MaskUpdate
from skinny.iht.input_range import Ranges
from skinny.iht.layers import check_in_place, find, replicas, select, unwrapped
from skinny.iht.optimizers import Optimizers
from skinny.iht.quantizer import Quantizer
from skinny.iht.threads import one_thread
from skinny.iht.timeline import Span, Timeline

Score = Literal["magnitude", "random"]
Restore = Literal["zero", "last"]
HISTORY = 100  # records that `IHT.history` holds at most: a timeline may update at every step


class IHT:
    """Iterative hard thresholding for a plain PyTorch model, in the user's own loop.

    Several optimizers are given as a list, and have one budget: IHT(model, [muon, adamw], line).

        iht = skinny.IHT(model, optimizer, skinny.timeline.sdnn(epochs=180, sparsity=0.9))
        for epoch in range(180):
            iht.begin_epoch()
            ...                        # forward, backward, optimizer.step(): nothing changes
        iht.finish()                   # an error unless the budget holds

    With a timeline counted in steps nothing at all is called: the optimizer's steps are counted.

    In a sparse span a truncated weight is exactly 0 after every step: its gradient is masked as it
    arrives (before clipping or any norm sees it) and once more before the step, its optimizer state
    is cleared when it is truncated, and the mask is applied again after the step. No module is
    wrapped and no state_dict key changes.

    masks:   {layer: bool tensor} of the latest mask update, None before the first
    history: records of the latest mask updates (at most 100), oldest first
    mask_updates: how many there were in all

    budget:  "erk", "uniform" (the paper), "global", or {pattern: sparsity or k} for single layers
    pattern: "1x4" keeps whole groups of four neighbouring input channels, "2:4" two of every four;
             see `skinny.iht.patterns`. Layers whose channels do not divide stay unstructured
    quantize: "int8" or "codebook8" to "codebook2": in the last span weights (with int8 inputs of
             layers too) are rounded in every forward pass, see `skinny.iht.quantizer`
    include, exclude:  names, as globs, see `skinny.iht.layers.select`
    score:   "magnitude" (the paper), or "random"
    restore: what a truncated weight is when it is restored: "zero" (the paper), or "last", its
             value before truncation
    seed:    for the random score alone
    on_event: called as on_event(iht, event) where a span begins, see `skinny.iht.events.Event`
    state:   of `state_dict()`, to go on from, where model and optimizer are loaded already
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer | Sequence[Optimizer],
        timeline: Timeline,
        *,
        budget: str | budgets.Rules = "erk",
        pattern: str | None = None,
        quantize: str | None = None,
        include: str | Sequence[str] | None = None,
        exclude: str | Sequence[str] = (),
        score: Score = "magnitude",
        restore: Restore = "zero",
        seed: int = 0,
        on_event: Callable[["IHT", Event], None] | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        arguments.check(model, timeline, budget, pattern, score, restore)
        self.timeline = timeline
        self.masks: masking.Masks | None = None
        self.history: deque[MaskUpdate] = deque(maxlen=HISTORY)
        self.mask_updates = 0
        self._model, self._replicas = unwrapped(model), replicas(model)
        self._selection = select(model, include, exclude)
        self.weights = self._selection.weights
        self._pattern = None if pattern is None else patterns.parse(pattern)
        self._structured = self._selection.structured(self._pattern)
        self._optimizers = Optimizers(optimizer, self.weights)
        self._quantizer = Quantizer(self._model, quantize, self._optimizers.parameters)
        self._budget, self._score, self._restore, self._seed = budget, score, restore, seed
        self._on_event = on_event
        self._cursor = Cursor(timeline, owner=weakref.ref(self))
        self._enforcement = Enforcement(self.weights)
        self._before: dict[str, Tensor] = {}  # values at truncation, for restore="last"
        self._past_is_known = False  # looked for, or loaded
        if timeline.target > 0:
            self._counts(timeline.target)  # an impossible budget is an error now, not at epoch 15
            if warning := self._selection.warning():
                warnings.warn(warning, stacklevel=2)
        attached.add(self.weights, self._cursor)
        self._hooks = self._enforcement.hook_gradients()
        before_closure = self._quantizer.after_step  # its forward pass is of rounded weights too
        self._hooks += self._optimizers.hook(self._before_step, self._after_step, before_closure)
        self._hooks += self._quantizer.hooks
        try:
            if state is not None:
                self.load_state_dict(state)
            elif timeline.unit == "step":
                self._enter(0)
        except BaseException:
            self.detach()
            raise

    def __str__(self) -> str:
        """A table of the layers and their budget, and of what is left dense."""
        target, kept = self.timeline.target, None
        if self._budget == "global":  # known to the mask update alone
            kept = self.history[-1].kept if self.sparse else None
        elif target > 0:
            kept = self._counts(target)
        budget = self._budget if isinstance(self._budget, str) else "per layer"
        title = f"IHT, {budget} budget at {target:.1%}"
        if self._pattern is not None:
            title += f", pattern {self._pattern}"
        return summary.table(self._selection, kept, title, self._structured)

    @property
    def span(self) -> Span | None:
        """The span the training is in; None before it has begun."""
        return self._cursor.span

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

    @property
    def ranges(self) -> Ranges:
        """{weight: (low, high)}: the inputs of quantised layers, as far as they have been seen."""
        return self._quantizer.ranges

    def begin_epoch(self) -> Event | None:
        """Call before each epoch: prunes or restores when a span begins here, and says so.

        After the last epoch of the timeline its last span simply goes on.
        """
        if self.timeline.unit != "epoch":
            return None
        check_in_place(self._model, self.weights)
        self._look_for_a_past()
        event = self._enter(self._cursor.position)
        self._cursor.position += 1
        return event

    def finish(self) -> dict[str, int]:
        """Call when the training is over: the weights left in each layer, counted.

        An error unless the training came to the last span of its timeline and every layer is within
        its budget. It changes nothing, and may be called earlier to ask.
        """
        check_in_place(self._model, self.weights)
        self._cursor.check_end()
        left = {name: ranks.count_nonzero(weight) for name, weight in self.weights.items()}
        for name, count in left.items() if self.sparse else ():
            allowed = self.history[-1].kept[name]
            if count > allowed:
                raise SkinnyError(
                    f"{name} has {count} weights, and its budget is {allowed}: something other "
                    "than the optimizer changed it after it was pruned"
                )
        return left

    def detach(self) -> None:
        """Let go of the model and the optimizer: the masks are no longer enforced."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        attached.remove(self.weights, self._cursor)

    def apply_to(self, model: nn.Module) -> dict[str, int]:
        """Give another model the masks of this one: the weights left in each layer, counted.

        For averages of the weights (`torch.optim.swa_utils.AveragedModel`, or any copy of the model
        that follows it). They come out dense, because the masks change on the way; under the masks
        of the last span they meet the budget as the model itself does.
        """
        if not self.sparse or self.masks is None:
            raise SkinnyError(
                "no masks are enforced in a dense span, so that there are none to apply to "
                "another model: call apply_to in a sparse span, or when the training is over"
            )
        left = {}
        for name, weight in find(model, states.shapes(self.weights)).items():
            masking.apply_(weight, ranks.spread(self.masks[name], weight))
            left[name] = ranks.count_nonzero(weight)
        return left

    def __reduce__(self) -> NoReturn:
        raise SkinnyError(
            "an IHT is bound to its model and optimizer by hooks and cannot be pickled or copied: "
            "save iht.state_dict(), and load it into a new IHT"
        )

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on exactly here: plain values and tensors."""
        budget = self._budget
        return {
            "unit": self.timeline.unit,
            "spans": [[span.start, span.length, span.sparsity] for span in self.timeline.spans],
            "layers": states.shapes(self.weights),
            "budget": budget if isinstance(budget, str) else [[*rule] for rule in budget.items()],
            "pattern": None if self._pattern is None else str(self._pattern),
            "quantize": self._quantizer.kind,
            "quantizer": self._quantizer.state_dict(),
            "score": self._score,
            "restore": self._restore,
            "seed": self._seed,
            "position": self._cursor.position,
            "span": self._cursor.index,
            "masks": states.saved(self.masks or {}, self.weights, torch.bool),
            "before": states.saved(self._before, self.weights) if self._restore == "last" else {},
            "mask_updates": self.mask_updates,
            "history": states.saved_history(self.history, self.weights),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken. Load the model and the optimizer too, in any order."""
        states.check_fits(state, self.state_dict())
        self._past_is_known = True
        self._cursor.position, self._cursor.index = state["position"], state["span"]
        self.mask_updates = state["mask_updates"]
        self.history = deque(states.loaded_history(state["history"]), HISTORY)
        self.masks, self._before = None, {}
        if self.mask_updates:
            states.check_whole(state["masks"], self.weights, self.history[-1])
            self.masks = states.loaded(state["masks"], self.weights)
        self._enforcement.lift()
        if self.sparse and self.masks is not None:
            self._before = states.loaded(state["before"], self.weights)
            self._enforcement.impose(self.masks)
        self._quantizer.load_state_dict(state.get("quantizer"))

    def _enter(self, position: int) -> Event | None:
        """Begin the span that holds `position`, unless the training is in it."""
        index = self.timeline.index(position)
        if index == self._cursor.index:
            return None
        check_in_place(self._model, self.weights)
        was_sparse = self.sparse
        span = self.timeline.spans[index]
        event = None
        with one_thread():
            if span.sparsity:
                event = self._prune(span, position, within=self.masks if was_sparse else None)
            elif was_sparse:
                event = self._restore_weights(span)
            if span is self.timeline.spans[-1]:
                self._quantizer.begin()
        self._cursor.index = index
        return event if event is None else self._tell(event)

    def _prune(self, span: Span, position: int, within: masking.Masks | None) -> Event:
        with ranks.together(self._replicas, next(iter(self.weights.values())).device):
            counts = self._counts(span.sparsity)
            if within is not None:  # nothing is restored, whatever rounding or ties would allow
                within = {name: mask.to(self.weights[name].device) for name, mask in within.items()}
                counts = {
                    name: min(k, ranks.count_nonzero(within[name])) for name, k in counts.items()
                }
            made = masking.build(
                self.weights,
                counts,
                score=self._score,
                within=within,
                structured=self._structured,
                # one seed gives one sequence of masks, on every rank and after every resumption
                generator=torch.Generator().manual_seed(self._seed * 1_000_003 + self.mask_updates),
            )
        if self._replicas is not None:
            ranks.check_equal(made, self._replicas)
        change = None
        if self.masks is not None:
            change = {n: masking.change_ratio(self.masks[n], mask) for n, mask in made.items()}
        if self._restore == "last":
            for name, weight in self.weights.items():
                value = weight.detach().clone()
                if within is not None:  # what an earlier span truncated keeps its older value
                    value = torch.where(within[name], value, self._before[name].to(value.device))
                self._before[name] = value
        self.masks = made
        update = MaskUpdate(
            at=position,
            target=span.sparsity,
            size={name: mask.numel() for name, mask in made.items()},
            kept=counts,
            change=change,
        )
        self.history.append(update)
        self.mask_updates += 1
        self._tell(Event("pruning", span, update))
        self._enforcement.impose(made)
        self._optimizers.clear(made)
        return Event("pruned", span, update)

    @torch.no_grad()
    def _restore_weights(self, span: Span) -> Event:
        assert self.masks is not None
        self._enforcement.lift()
        for name, before in self._before.items():
            weight = self.weights[name]
            mask = self.masks[name].to(weight.device)
            weight.copy_(torch.where(mask, weight, before.to(weight.device)))
        self._before = {}
        self._optimizers.refill(self.masks)
        return Event("restored", span, self.history[-1])

    def _tell(self, event: Event) -> Event:
        if self._on_event is not None:
            self._on_event(self, event)
        return event

    def _look_for_a_past(self) -> None:
        """At its first epoch or step: does this training look like one that is resumed?"""
        if self._past_is_known:
            return
        self._past_is_known = True
        stepped = self._optimizers.has_stepped()
        begins_sparse = self.timeline.spans[0].sparsity > 0  # so zeros are what it is about
        weights = {} if begins_sparse else self.weights
        states.warn_of_a_past(weights, self.masks, stepped)

    def _counts(self, sparsity: float) -> dict[str, int]:
        """How many weights each layer keeps: by its pattern, if that says so, or by the budget."""
        fixed = patterns.counts(self.weights, self._structured, sparsity, self.timeline.target)
        free = {name: weight for name, weight in self.weights.items() if name not in fixed}
        progress, names = sparsity / self.timeline.target, self._selection.names
        counts = {**fixed, **budgets.counts(self._budget, free, sparsity, progress, names)}
        return {
            name: patterns.whole_groups(counts[name], weight, self._structured.get(name))
            for name, weight in self.weights.items()
        }

    def _before_step(self, names: list[str]) -> None:
        if self._cursor.index < 0:
            raise SkinnyError(
                "the optimizer stepped before the first epoch began: "
                "call iht.begin_epoch() at the start of every epoch"
            )
        if not self._past_is_known:  # the first step of a timeline in steps
            check_in_place(self._model, self.weights)
            self._look_for_a_past()
        self._enforcement.mask_gradients(names)  # they may have been changed since they arrived
        self._quantizer.before_step()

    def _after_step(self, names: list[str], done: int) -> None:
        self._enforcement.mask_weights(names)
        self._quantizer.after_step()
        if done:
            self._quantizer.follow_inputs(self._replicas)
        for _ in range(done if self.timeline.unit == "step" else 0):
            self._cursor.position += 1
            self._enter(self._cursor.position)
