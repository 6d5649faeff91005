"""IHT reports what it does: return values, a callback, a bounded history."""

import torch
from tests.iht.networks import LINE, batches, network, optimizer_for, step, train, weights_of

from skinny.iht import timeline
from skinny.iht.controller import HISTORY, IHT
from skinny.iht.events import MaskUpdate


def test_begin_epoch_returns_what_it_did():
    model = network()
    optimizer = optimizer_for(model)
    iht = IHT(model, optimizer, LINE)
    events = []
    for _ in range(8):
        events.append(iht.begin_epoch())
        step(model, optimizer, *batches()[0])
    kinds = [event.kind if event else None for event in events]
    assert kinds == [None, None, "pruned", None, "restored", None, "pruned", None]
    pruned, restored, again = [event for event in events if event]
    assert [pruned.update, again.update] == list(iht.history)
    assert restored.update is pruned.update
    assert [event.span for event in (pruned, restored, again)] == list(LINE.spans[1:])


def test_a_callback_sees_the_weights_before_they_are_pruned_and_after():
    model = network()
    seen = []

    def callback(iht, event):
        zeros = sum(int((weight == 0).sum()) for weight in iht.weights.values())
        removed = sum(int((~mask).sum()) for mask in iht.masks.values())
        seen.append((event.kind, event.span.start, zeros == removed, iht.sparse))

    optimizer = optimizer_for(model)
    iht = IHT(model, optimizer, LINE, on_event=callback)
    train(model, optimizer, iht, 8)
    assert seen == [
        ("pruning", 2, False, False),
        ("pruned", 2, True, True),
        ("restored", 4, True, False),
        ("pruning", 6, False, False),
        ("pruned", 6, True, True),
    ]


def test_timelines_in_steps_report_to_the_callback_from_the_first_step_on():
    model = network()
    events = []
    spans = (timeline.Span(0, 1, 0.5), timeline.Span(1, 2, 0.0), timeline.Span(3, 1, 0.8))
    iht = IHT(
        model,
        optimizer := optimizer_for(model),
        timeline.Timeline("sparse first", "step", spans),
        on_event=lambda _, event: events.append((event.kind, event.span.start)),
    )
    assert events == [("pruning", 0), ("pruned", 0)]
    for x, y in batches(4):
        assert iht.begin_epoch() is None
        step(model, optimizer, x, y)
    assert events[2:] == [("restored", 1), ("pruning", 3), ("pruned", 3)]


def test_the_callback_changes_nothing():
    outcomes = []
    for callback in (None, lambda *_: None):
        model = network()
        optimizer = optimizer_for(model, "adamw")
        train(model, optimizer, IHT(model, optimizer, LINE, on_event=callback), 8)
        outcomes.append(weights_of(model))
    assert all(torch.equal(outcomes[0][name], outcomes[1][name]) for name in outcomes[0])


def test_history_is_bounded_and_mask_updates_are_counted():
    model = torch.nn.Linear(3, 2)
    optimizer = optimizer_for(model, "sgd")
    updates = HISTORY + 20
    line = timeline.sdnn(steps=2 * updates, sparsity=0.5, dense=1, sparse=1)
    iht = IHT(model, optimizer, line)
    for _ in range(2 * updates):
        step(model, optimizer, torch.randn(4, 3), torch.tensor([0, 1, 0, 1]))
    assert iht.mask_updates == updates
    assert len(iht.history) == HISTORY
    assert [record.at for record in iht.history] == list(range(41, 2 * updates, 2))
    assert isinstance(iht.history[-1], MaskUpdate)
    state = iht.state_dict()
    iht.detach()
    again = IHT(model, optimizer, line)
    again.load_state_dict(state)
    assert (again.mask_updates, again.history) == (updates, iht.history)
