from hypothesis import given
from hypothesis import strategies as st

from skinny._native import MAX_BYTE_TAPS, TILE_VECTORS
from skinny.runtime.layout import Buffer, compact, empty, loose, padded, plan_memory, spaced
from skinny.runtime.tiles import block_channels, choose_tile


@given(
    st.lists(
        st.tuples(st.integers(1, 300), st.integers(0, 20), st.integers(0, 5)),
        min_size=1,
        max_size=30,
    )
)
def test_no_two_values_alive_at_a_time_share_memory(sizes):
    buffers = []
    for size, first, length in sizes:
        buffer = Buffer(compact((size,)), first)
        buffer.last = first + length
        buffers.append(buffer)
    total = plan_memory(buffers)
    for i, a in enumerate(buffers):
        assert a.view.offset + a.view.positions <= total
        for b in buffers[i + 1 :]:
            if a.first <= b.last and b.first <= a.last:
                apart = (
                    a.view.offset + a.view.positions <= b.view.offset
                    or b.view.offset + b.view.positions <= a.view.offset
                )
                assert apart


def test_large_results_begin_at_cache_lines():
    for extra in range(1, 9):  # NumPy's own arrays begin at 16 bytes of any of them
        made = empty((4, 8192 + extra))
        assert made.shape == (4, 8192 + extra)
        assert made.ctypes.data % 64 == 0
        assert made.flags["C_CONTIGUOUS"]
    assert empty((0, 3)).shape == (0, 3)


def test_the_memory_of_a_value_is_reused_after_its_last_reader():
    buffers = [Buffer(compact((100,)), i) for i in range(8)]
    for buffer in buffers:
        buffer.last = buffer.first + 1
    assert plan_memory(buffers) <= 2 * 112


@given(
    st.integers(1, 4), st.integers(1, 9), st.integers(1, 9), st.integers(0, 4), st.integers(0, 4)
)
def test_padding_holds_every_tap_of_a_padded_convolution(channels, height, width, top, left):
    view = padded((channels, height, width), (top, left))
    corner = view.origin - top * view.row_stride - left
    assert corner >= 0
    last = corner + (height - 1 + 2 * top) * view.row_stride + width - 1 + 2 * left
    assert last < view.channel_stride
    rows = {view.origin + y * view.row_stride + x for y in range(height) for x in range(width)}
    for y in range(-top, height + top):
        for x in range(-left, width + left):
            at = view.origin + y * view.row_stride + x
            assert (at in rows) == (0 <= y < height and 0 <= x < width)


@given(st.integers(1, 4), st.integers(1, 40), st.integers(1, 40), st.integers(0, 4))
def test_channels_with_gaps_begin_at_cache_lines_an_odd_number_apart(channels, height, width, more):
    view = spaced(loose((channels, height, width), width + more))
    assert view.channel_stride % 32 == 16
    assert view.channel_stride >= height * view.row_stride + 15  # a vector may begin at the last
    assert view.contiguous == (more == 0)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 4), st.integers(0, 4))
def test_the_first_rows_of_channels_with_gaps_begin_at_cache_lines(height, width, top, left):
    given = padded((2, height, width), (top, left))
    view = spaced(given)
    assert view.origin % 16 == 0
    assert view.channel_stride % 32 == 16
    assert 0 <= view.origin - given.origin < 16
    assert view.channel_stride - view.origin >= given.channel_stride - given.origin + 15


@given(
    st.integers(1, 60),
    st.integers(1, 200),
    st.integers(0, 5),
    st.sampled_from([4, 8, 16]),
    st.booleans(),
)
def test_tiles_fit_the_registers_and_cover_the_output(height, width, extra, lanes, many):
    n = lanes if many else 1
    tile = choose_tile(height, width, width + extra, lanes, n)
    assert 1 <= tile.rows * tile.vectors <= TILE_VECTORS
    covered = tile.tiles * tile.rows * tile.vectors * lanes
    assert covered >= height * width * n
    assert not (tile.flat and many)


@given(
    st.integers(1, 600),
    st.integers(1, 150),
    st.integers(1, 100000),
    st.sampled_from([0.02, 0.1, 1]),
)
def test_blocks_are_of_one_channel_at_least(channels, kernel, footprint, density):
    block = block_channels(channels, kernel, footprint, density * channels * kernel)
    assert 1 <= block <= channels


@given(st.integers(1, 600), st.sampled_from([1, 9, 25, 121]), st.sampled_from([0.05, 0.1, 0.5]))
def test_tap_indices_of_a_block_are_bytes_unless_few_have_weight(channels, kernel, density):
    block = block_channels(channels, kernel, 100, density * channels * kernel)
    assert block * kernel <= MAX_BYTE_TAPS or block * kernel * density <= 30
