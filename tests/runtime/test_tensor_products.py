"""Matrix products and attention of a tensor program against NumPy. No torch here: `make sanitize`
runs this file too, and test_isa.py with every instruction set."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_tensors import Layout, Tensor, Workbench, broadcast, layouts

from skinny.graph.ops.attention import attention

# Around the sizes of vectors, tiles, panels and blocks of every instruction set.
SIDES = st.sampled_from([1, 2, 3, 5, 6, 7, 8, 9, 13, 15, 16, 17, 24, 31, 33, 63, 64, 65, 70])
LEADING = st.sampled_from([(), (1,), (3,), (2, 3), (2, 1, 2)])


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@st.composite
def last_contiguous(draw, rank: int) -> Layout:
    order = (*draw(st.permutations(range(rank - 1))), rank - 1)
    gaps = draw(st.lists(st.sampled_from([0, 0, 1, 3]), min_size=rank, max_size=rank))
    return Layout(tuple(order), tuple(gaps))


def product(a, b, scale=1.0, layout=(None, None, None), threads=2) -> np.ndarray:
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    bench = Workbench(1 << 20)
    left = broadcast(bench.input(a, layout[0]), (*shape[:-1], a.shape[-1]))
    right = broadcast(bench.input(b, layout[1]), (*shape[:-2], *b.shape[-2:]))
    target = bench.place(shape, layout[2])
    bench.program.add_fill(target=target, value=np.nan)
    bench.program.add_matmul(a=left, b=right, target=target, scale=scale)
    bench.output(target)
    return bench.run(threads)[0]


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_matrix_product_equals_numpys(data):
    leading = data.draw(LEADING)
    m, n, k = (data.draw(SIDES) for _ in range(3))
    a, b = values(*leading, m, k), values(*leading, k, n, seed=1)
    rank = len(leading) + 2
    layout = [data.draw(layouts(rank)), *(data.draw(last_contiguous(rank)) for _ in range(2))]
    scale = data.draw(st.sampled_from([1.0, 0.125, -3.0]))
    result = product(a, b, scale, layout, data.draw(st.integers(1, 3)))
    np.testing.assert_allclose(result, scale * (a @ b), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 300, 50), (6, 257, 64), (13, 700, 33), (200, 513, 17), (97, 128, 128)]
)
def test_deep_and_tall_products_are_added_up_block_by_block(m, k, n):
    a, b = values(2, m, k), values(2, k, n, seed=1)
    np.testing.assert_allclose(product(a, b), a @ b, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("side", range(1, 36))
def test_products_and_attention_write_their_results_alone(side):
    """What lies between the rows of the target, and after them, stays as it was."""
    bench = Workbench()
    tokens, right = bench.input(values(7, 5)), bench.input(values(5, side, seed=1))
    queries = bench.input(values(side, 5), Layout((1, 0), (0, 0)))
    for rows in ("product", "attention"):
        target = bench.place((7, side), Layout((0, 1), (0, 3)))
        bench.used += 70
        whole = Tensor(0, target.offset, (bench.used - target.offset,), (1,))
        bench.program.add_fill(target=whole, value=7)
        if rows == "product":
            bench.program.add_matmul(a=tokens, b=right, target=target)
        else:  # as many queries as columns, as many features as rows
            bench.program.add_attention(
                q=queries,
                k=broadcast(queries, (side, 5)),
                v=Tensor(0, tokens.offset, (side, 7), (0, 1)),
                mask=None,
                mask_is_bool=False,
                causal=False,
                scale=1,
                target=target._replace(shape=(side, 7), strides=target.strides[::-1]),
            )
        bench.output(whole)
    for result in bench.run():
        rows = result[: 7 * (side + 3)].reshape(7, side + 3)
        assert (rows[:, :side] != 7).all()
        assert (rows[:, side:] == 7).all()
        assert (result[rows.size :] == 7).all()


def test_leading_axes_of_a_product_are_broadcast():
    a, b = values(4, 1, 5, 6), values(1, 3, 6, 20, seed=1)
    np.testing.assert_allclose(product(a, b), a @ b, rtol=1e-4, atol=1e-4)


def test_not_a_number_stays_in_its_row_and_column():
    a, b = np.ones((9, 8), np.float32), np.ones((8, 21), np.float32)
    a[3, 2], b[5, 17] = np.nan, np.inf
    result = product(a, b)
    assert np.isnan(result[3]).all()
    assert np.isinf(np.delete(result, 3, 0)[:, 17]).all()
    assert (np.delete(np.delete(result, 3, 0), 17, 1) == 8).all()


@pytest.mark.parametrize(
    ("a", "b", "target", "message"),
    [
        ((2, 3), (4, 5), (2, 5), "sizes of a matrix product must agree"),
        ((2, 3), (3, 5), (2, 6), "sizes of a matrix product must agree"),
        ((2, 2, 3), (3, 5), (2, 2, 5), "leading axes"),
        ((3,), (3, 5), (5,), "two axes at least"),
    ],
)
def test_products_of_other_sizes_are_refused(a, b, target, message):
    bench = Workbench()
    with pytest.raises(ValueError, match=message):
        bench.program.add_matmul(
            a=bench.place(a), b=bench.place(b), target=bench.place(target), scale=1
        )


@pytest.mark.parametrize("which", ["b", "target"])
def test_columns_that_are_not_neighbours_are_refused(which):
    bench = Workbench()
    tensors = {"a": bench.place((2, 3)), "b": bench.place((3, 5)), "target": bench.place((2, 5))}
    tensors[which] = bench.place(tensors[which].shape, Layout((1, 0), (0, 0)))
    with pytest.raises(ValueError, match="must be neighbours"):
        bench.program.add_matmul(**tensors, scale=1)


def test_a_product_must_not_be_written_over_its_operand():
    bench = Workbench()
    a, b = bench.place((4, 4)), bench.place((4, 4))
    with pytest.raises(ValueError, match="must not write what it reads"):
        bench.program.add_matmul(a=a, b=b, target=a, scale=1)


# ---- attention

# [.., tokens, features], a token's features apart and neighbouring tokens together, and row-major.
FEATURE_MAJOR = {
    rank: Layout((*range(rank - 2), rank - 1, rank - 2), (0,) * rank) for rank in (2, 4)
}


def attend(q, k, v, mask=None, causal=False, scale=0.5, layout=(None,) * 4, threads=2):
    leading, queries, keys = q.shape[:-2], q.shape[-2], k.shape[-2]
    bench = Workbench(1 << 20)
    tensors = [bench.input(x, own) for x, own in zip((q, k, v), layout[:3], strict=True)]
    masking = None
    if mask is not None:
        masking = broadcast(bench.input(mask), (*leading, queries, keys))
    target = bench.place((*leading, queries, v.shape[-1]), layout[3])
    bench.program.add_fill(target=target, value=np.nan)
    bench.program.add_attention(
        q=tensors[0],
        k=broadcast(tensors[1], (*leading, *k.shape[-2:])),
        v=broadcast(tensors[2], (*leading, *v.shape[-2:])),
        mask=masking,
        mask_is_bool=mask is not None and mask.dtype == bool,
        causal=causal,
        scale=scale,
        target=target,
    )
    bench.output(target)
    return bench.run(threads)[0]


def draw_mask(data, leading, queries, keys):
    kind = data.draw(st.sampled_from(["none", "bool", "added"]))
    if kind == "none":
        return None
    shape = (*(data.draw(st.sampled_from([1, side])) for side in (*leading, queries, keys)),)
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    allowed = rng.random(shape) < data.draw(st.sampled_from([0.1, 0.5, 0.9]))
    if kind == "bool":
        return allowed
    low = np.float32(data.draw(st.sampled_from([-np.inf, np.finfo(np.float32).min, -5.0])))
    return np.where(allowed, rng.standard_normal(shape).astype(np.float32), low)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_attention_equals_the_reference(data):
    leading = data.draw(st.sampled_from([(), (2,), (2, 3)]))
    queries, keys, features, out = (data.draw(SIDES) for _ in range(4))
    rank = len(leading) + 2
    q = values(*leading, queries, features)
    k, v = values(*leading, keys, features, seed=1), values(*leading, keys, out, seed=2)
    mask = draw_mask(data, leading, queries, keys)
    causal, scale = data.draw(st.booleans()), data.draw(st.sampled_from([0.125, 1.0, -2.0]))
    layout = [data.draw(layouts(rank)) for _ in range(4)]
    result = attend(q, k, v, mask, causal, scale, layout, data.draw(st.integers(1, 3)))
    with np.errstate(invalid="ignore", over="ignore"):
        wanted = attention(q, k, v, mask, causal, scale)
    np.testing.assert_allclose(result, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("tokens", [128, 197, 600])
@pytest.mark.parametrize("causal", [False, True])
def test_long_sequences_equal_the_reference(tokens, causal):
    q, k, v = (values(2, 3, tokens, 32, seed=seed) for seed in range(3))
    result = attend(3 * q, 3 * k, v, None, causal, 1.0, (FEATURE_MAJOR[4],) * 4)
    wanted = attention(3 * q, 3 * k, v, None, causal, 1.0)
    np.testing.assert_allclose(result, wanted, rtol=1e-3, atol=1e-4)


def test_heads_may_share_their_keys_and_values():
    q, k, v = values(2, 6, 10, 8), values(2, 1, 20, 8, seed=1), values(2, 1, 20, 5, seed=2)
    result, wanted = attend(q, k, v), attention(q, k, v, None, False, 0.5)
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["bool", "added"])
@pytest.mark.parametrize("keys", [3, 64, 600])
def test_a_query_that_may_look_at_nothing_gets_zeros(kind, keys):
    q, k, v = values(20, 8), values(keys, 8, seed=1), values(keys, 5, seed=2)
    allowed = np.ones((20, keys), bool)
    allowed[4] = False
    mask = allowed if kind == "bool" else np.where(allowed, 0, -np.inf).astype(np.float32)
    result = attend(q, k, v, mask)
    assert (result[4] == 0).all()
    wanted = attention(q, k, v, None, False, 0.5)
    np.testing.assert_allclose(
        np.delete(result, 4, 0), np.delete(wanted, 4, 0), rtol=1e-4, atol=1e-5
    )


def test_keys_that_are_masked_in_whole_blocks_before_and_after_do_not_count():
    q, k, v = values(20, 8), values(900, 8, seed=1), values(900, 5, seed=2)
    mask = np.zeros(900, bool)
    mask[390:400] = True
    wanted = attention(q, k[390:400], v[390:400], None, False, 0.5)
    np.testing.assert_allclose(attend(q, k, v, mask), wanted, rtol=1e-4, atol=1e-5)


def test_a_mask_of_floats_may_select():
    """Comparisons leave their results as floats of 0 and 1."""
    q, k, v = values(9, 8), values(12, 8, seed=1), values(12, 5, seed=2)
    mask = np.arange(12) % 3 == 0
    bench = Workbench()
    tensors = [bench.input(x) for x in (q, k, v)]
    masking = broadcast(bench.input(mask.astype(np.float32)), (9, 12))
    target = bench.output(bench.place((9, 5)))
    bench.program.add_attention(
        **dict(zip("qkv", tensors, strict=True)),
        mask=masking,
        mask_is_bool=True,
        causal=False,
        scale=1,
        target=target,
    )
    wanted = attention(q, k, v, mask, False, 1)
    np.testing.assert_allclose(bench.run()[0], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("masked", [False, True])
def test_scores_that_are_not_finite_do_what_they_do_in_the_reference(value, masked):
    q, k, v = np.abs(values(20, 8)), np.abs(values(100, 8, seed=1)), values(100, 5, seed=2)
    q[3, 2] = value
    k[70, 1] = value
    mask = np.ones((20, 100), bool) if masked else None
    if mask is not None:
        mask[5], mask[6, 70] = False, False
    result = attend(q, k, v, mask)
    with np.errstate(invalid="ignore"):
        wanted = attention(q, k, v, mask, False, 0.5)
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)
    assert np.isnan(wanted[3]).all() or (masked and value == -np.inf)


def test_scores_far_apart_do_not_overflow():
    q, k, v = 40 * values(20, 8), 40 * values(150, 8, seed=1), values(150, 5, seed=2)
    wanted = attention(q, k, v, None, False, 0.5)
    np.testing.assert_allclose(attend(q, k, v), wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("q", "k", "v", "target"),
    [
        ((4, 3), (5, 2), (5, 2), (4, 2)),
        ((4, 3), (5, 3), (6, 2), (4, 2)),
        ((4, 3), (5, 3), (5, 2), (4, 3)),
        ((4, 3), (5, 3), (5, 2), (5, 2)),
        ((2, 4, 3), (5, 3), (5, 2), (4, 2)),
    ],
)
def test_attention_of_other_sizes_is_refused(q, k, v, target):
    bench = Workbench()
    with pytest.raises(ValueError, match=r"must agree|leading axes"):
        bench.program.add_attention(
            **{"q": bench.place(q), "k": bench.place(k), "v": bench.place(v)},
            target=bench.place(target),
            mask=None,
            mask_is_bool=False,
            causal=False,
            scale=1,
        )
