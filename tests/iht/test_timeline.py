import pytest
from hypothesis import given
from hypothesis import strategies as st

from skinny.errors import SkinnyError
from skinny.iht import timeline
from skinny.iht.timeline import Span, Timeline


def phases(line):
    return [(span.phase[0].upper(), span.length) for span in line.spans]


def test_sdnn_alternates_dense_and_sparse_and_ends_sparse_at_the_target():
    line = timeline.sdnn(epochs=90, sparsity=0.9, dense=10, sparse=20)
    assert phases(line) == [("D", 10), ("S", 20)] * 3
    assert line.spans[-1].sparsity == 0.9
    assert line.ends_sparse


def test_sdnn_sparsity_follows_the_papers_line():
    line = timeline.sdnn(epochs=90, sparsity=0.9, dense=10, sparse=20, r0=0.3)
    assert [s.sparsity for s in line.spans if s.sparsity] == pytest.approx(
        [0.3 + 10 * 0.6 / 90, 0.3 + 40 * 0.6 / 90, 0.9]
    )


@pytest.mark.parametrize(
    ("sparsity", "r0", "first"),
    [(0.7, None, 0.5 + 10 * 0.2 / 60), (0.4, None, 0.4), (0.9, 0.9, 0.9)],
)
def test_r0_is_half_or_the_target_unless_given(sparsity, r0, first):
    line = timeline.sdnn(epochs=60, sparsity=sparsity, dense=10, sparse=20, r0=r0)
    assert line.spans[1].sparsity == pytest.approx(first)


@given(st.floats(0.75, 0.9999))
def test_at_high_sparsity_two_direct_steps_keep_the_same_share_of_what_they_find(sparsity):
    kept = 1 - timeline.default_r0(sparsity)
    assert kept * kept == pytest.approx(1 - sparsity)


@pytest.mark.parametrize(("sparsity", "r0"), [(0.1, 0.1), (0.5, 0.5), (0.75, 0.5)])
def test_up_to_three_quarters_r0_is_half_or_the_target(sparsity, r0):
    assert timeline.default_r0(sparsity) == r0


@given(st.integers(1, 400), st.integers(1, 40), st.integers(1, 160), st.floats(0.01, 0.99))
def test_sdnn_covers_every_total_exactly_and_the_last_span_absorbs_the_rest(total, s1, s2, r):
    if total < s1 + s2:
        with pytest.raises(SkinnyError, match="too short for one cycle"):
            timeline.sdnn(epochs=total, sparsity=r, dense=s1, sparse=s2)
        return
    line = timeline.sdnn(epochs=total, sparsity=r, dense=s1, sparse=s2)
    assert line.total == total
    assert all(span.length == s1 for span in line.spans[::2])
    assert all(span.length == s2 for span in line.spans[1:-1:2])
    assert s2 <= line.spans[-1].length < s2 + s1 + s2
    assert line.spans[-1].sparsity == r == line.target
    levels = [span.sparsity for span in line.spans[1::2]]
    assert levels == sorted(levels)


def test_sdnn_at_sparsity_zero_is_plain_training():
    assert phases(timeline.sdnn(epochs=10, sparsity=0.0)) == [("D", 10)]


@pytest.mark.parametrize(
    ("total", "lengths"),
    [
        (2, [1, 1]),
        (5, [1, 1, 1, 2]),
        (12, [1, 3, 1, 3, 1, 3]),
        (30, [2, 7, 2, 7, 2, 10]),
        (180, [11, 43, 11, 43, 11, 61]),
    ],
)
def test_sdnn_scales_its_spans_with_the_total(total, lengths):
    line = timeline.sdnn(epochs=total, sparsity=0.9)
    assert [span.length for span in line.spans] == lengths
    assert line.spans[-1].sparsity == 0.9


@given(st.integers(12, 100_000))
def test_sdnn_has_three_cycles_by_default_and_the_last_sparse_span_is_longest(total):
    line = timeline.sdnn(steps=total, sparsity=0.9)
    sparse = [span.length for span in line.spans if span.sparsity]
    assert len(line.spans) == 6
    assert sparse[-1] == max(sparse)
    assert line.total == total


def test_single_step_updates_are_the_same_machinery_with_length_one():
    line = timeline.sdnn(steps=6, sparsity=0.5, dense=1, sparse=1)
    assert line.unit == "step"
    assert phases(line) == [("D", 1), ("S", 1)] * 3


def test_iterative_removes_the_same_share_in_every_round_and_gives_nothing_back():
    line = timeline.iterative(epochs=20, sparsity=0.9, dense=10, sparse=3)
    assert phases(line) == [("D", 10), ("S", 3), ("S", 3), ("S", 4)]
    kept = [1 - span.sparsity for span in line.spans]
    assert kept == pytest.approx([1, 0.1 ** (1 / 3), 0.1 ** (2 / 3), 0.1])


@given(st.integers(2, 300), st.floats(0.01, 0.99))
def test_iterative_covers_every_total_and_ends_at_the_target(total, sparsity):
    line = timeline.iterative(epochs=total, sparsity=sparsity)
    assert line.total == total
    assert line.spans[-1].sparsity == sparsity == line.target
    levels = [span.sparsity for span in line.spans]
    assert levels == sorted(levels)


def test_iterative_prunes_five_times_and_leaves_time_to_recover():
    line = timeline.iterative(epochs=100, sparsity=0.9)
    assert phases(line) == [("D", 30), ("S", 10), ("S", 10), ("S", 10), ("S", 10), ("S", 30)]


@pytest.mark.parametrize("given", [{"dense": 10}, {"dense": 8, "sparse": 3}])
def test_iterative_needs_room_for_a_round(given):
    with pytest.raises(SkinnyError, match="leave no round"):
        timeline.iterative(epochs=10, sparsity=0.5, **given)


def test_acdc_has_its_published_schedule_by_default():
    line = timeline.acdc(epochs=100, sparsity=0.9)
    expected = [("D", 10), *[("S", 5), ("D", 5)] * 6, ("S", 5), ("D", 10), ("S", 15)]
    assert phases(line) == expected
    assert {span.sparsity for span in line.spans} == {0.0, 0.9}


@given(st.integers(1, 300), st.floats(0.01, 0.99))
def test_acdc_fits_any_total_it_accepts(total, sparsity):
    try:
        line = timeline.acdc(epochs=total, sparsity=sparsity)
    except SkinnyError as error:
        assert "too short for acdc" in str(error)  # noqa: PT017
        assert total < 5
        return
    assert line.total == total
    assert line.ends_sparse


def test_dsd_ends_dense():
    line = timeline.dsd(epochs=10, sparsity=0.3)
    assert phases(line) == [("D", 3), ("S", 3), ("D", 4)]
    assert not line.ends_sparse
    assert line.target == 0.3


def test_gradual_rises_by_the_cubic_and_never_restores():
    line = timeline.gradual(epochs=100, sparsity=0.9, start=20, end=60, every=10)
    assert phases(line) == [("D", 30), ("S", 10), ("S", 10), ("S", 10), ("S", 40)]
    expected = [0.9 * (1 - (1 - f) ** 3) for f in (0.25, 0.5, 0.75, 1.0)]
    assert [s.sparsity for s in line.spans[1:]] == pytest.approx(expected)


@given(st.integers(3, 500), st.floats(0.01, 0.99))
def test_gradual_reaches_the_target_exactly(total, sparsity):
    line = timeline.gradual(steps=total, sparsity=sparsity)
    assert line.total == total
    assert line.spans[-1].sparsity == sparsity
    assert [s.phase for s in line.spans].count("dense") == 1


def test_oneshot_trains_prunes_and_fine_tunes():
    assert phases(timeline.oneshot(epochs=30, sparsity=0.9, dense=20)) == [("D", 20), ("S", 10)]


def test_dense_is_one_span():
    assert phases(timeline.dense(steps=7)) == [("D", 7)]


def test_the_span_at_a_position_is_found_and_the_last_one_goes_on():
    line = timeline.sdnn(epochs=60, sparsity=0.9, dense=10, sparse=20)
    assert [line.index(t) for t in (0, 9, 10, 29, 30, 59, 60, 1000)] == [0, 0, 1, 1, 2, 3, 3, 3]


def test_it_prints_as_a_table():
    assert str(timeline.sdnn(epochs=11, sparsity=0.9, dense=1, sparse=4)) == (
        "sdnn: 11 epochs, ends sparse at 90.0%\n"
        "epochs  phase   sparsity\n"
        "1       dense   -\n"
        "2-5     sparse  70.3%\n"
        "6       dense   -\n"
        "7-11    sparse  90.0%"
    )


def test_a_long_table_leaves_out_its_middle():
    lines = str(timeline.sdnn(steps=1000, sparsity=0.5, dense=1, sparse=1)).splitlines()
    assert len(lines) == 2 + 24 + 1
    assert "(976 more)" in lines[14]


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: timeline.sdnn(sparsity=0.5), "either epochs or steps"),
        (lambda: timeline.sdnn(epochs=9, steps=9, sparsity=0.5), "either epochs or steps"),
        (lambda: timeline.sdnn(epochs=0, sparsity=0.5), "at least 1; got 0"),
        (lambda: timeline.sdnn(epochs=1.5, sparsity=0.5), "got 1.5"),
        (lambda: timeline.sdnn(epochs=200, sparsity=1.0), r"must lie in \[0, 1\)"),
        (lambda: timeline.sdnn(epochs=200, sparsity=0.5, dense=0), "dense must be a whole number"),
        (lambda: timeline.sdnn(epochs=200, sparsity=0.5, r0=0.6), "above the sparsity aimed at"),
        (
            lambda: timeline.sdnn(epochs=100, sparsity=0.5, dense=15, sparse=150),
            "at least 165 epochs",
        ),
        (lambda: timeline.sdnn(epochs=1, sparsity=0.5), "at least 2 epochs"),
        (lambda: timeline.acdc(epochs=100, sparsity=0.0), "use `dense`"),
        (lambda: timeline.dsd(epochs=2, sparsity=0.3), "2 epochs are too short for dsd"),
        (lambda: timeline.sdnn(epochs=1, sparsity=0.3), "^1 epoch is too short for one cycle"),
        (lambda: timeline.gradual(epochs=10, sparsity=0.9, start=5, end=3), "start < end < total"),
        (lambda: timeline.oneshot(epochs=10, sparsity=0.9, dense=10), "leave no sparse span"),
        (lambda: Timeline("mine", "epoch", ()), "no span"),
        (lambda: Timeline("mine", "week", (Span(0, 1, 0.0),)), "not in 'week'"),
        (lambda: Timeline("mine", "epoch", (Span(1, 1, 0.0),)), "a gap"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(make, complaint):
    with pytest.raises(SkinnyError, match=complaint):
        make()
