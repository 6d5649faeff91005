import numpy as np
import pytest

from skinny import packing
from skinny.errors import SkinnyError
from skinny.packing import fit
from skinny.packing.fit import Option


@pytest.fixture
def tensors(rng):
    def sparse(*shape):
        return (rng.standard_normal(shape) * (rng.random(shape) < 0.1)).astype(np.float32)

    return {
        "a": sparse(300, 400),
        "a.bias": rng.standard_normal(300).astype(np.float32),
        "b": sparse(50, 300),
        "steps": np.array([7]),
        "again": packing.Tied("b"),
    }


@pytest.mark.parametrize("size", [60_000, 40_000, 20_000, 14_000])
def test_a_file_is_as_small_as_wanted_and_hardly_smaller(tensors, tmp_path, size):
    chosen = packing.write_within(size, tmp_path / "a.skinny", tensors, labels=["x"])
    assert 0.8 * size < (tmp_path / "a.skinny").stat().st_size <= size
    assert kinds_that_fit(tensors, tmp_path, size) == chosen
    assert [path.name for path in tmp_path.iterdir()] == ["a.skinny"]
    with packing.open(tmp_path / "a.skinny") as file:
        file.verify()
        assert file.labels == ["x"]
        assert file.tied == {"again": "b"}
        for name in ("a", "b", "a.bias", "steps"):
            assert file.entry(name).values == chosen[name]
            error = np.abs(file.read_float32(name) - tensors[name])
            assert error.max() <= file.entry(name).error * 1.0001
        assert chosen["steps"] == "exact"


def test_a_size_that_is_no_limit_changes_nothing(tensors, tmp_path):
    packing.write(tmp_path / "exact.skinny", tensors)
    packing.write_within(10**7, tmp_path / "a.skinny", tensors)
    assert (tmp_path / "a.skinny").read_bytes() == (tmp_path / "exact.skinny").read_bytes()


def kinds_that_fit(tensors, folder, size):
    """The most bits, by the price of a byte, whose file is small enough: each price is tried."""
    offered = {name: fit.options(name, array) for name, array in tensors.items()}
    best = None
    for left in range(0, 2 * size, size // 100):
        kinds = fit.choose(offered, left)
        packing.write(folder / "trial.skinny", tensors, values=kinds, labels=["x"])
        if (folder / "trial.skinny").stat().st_size <= size:
            best = kinds
        (folder / "trial.skinny").unlink()
    return best


def test_the_smallest_size_can_be_had_and_an_error_names_it(tensors, tmp_path):
    path = tmp_path / "a.skinny"
    with pytest.raises(SkinnyError, match=r"with the fewest bits it has ([\d,]+)") as error:
        packing.write_within(5000, path, tensors)
    least = int(str(error.value).split("it has ")[1].split(";")[0].replace(",", ""))
    packing.write_within(least, path, tensors)
    assert path.stat().st_size == least
    with pytest.raises(SkinnyError, match="no file can be"):
        packing.write_within(least - 1, path, tensors)


@pytest.mark.parametrize("size", ["25kB", 25e3, True])
def test_a_size_is_a_number_of_bytes(tensors, tmp_path, size):
    with pytest.raises(SkinnyError, match="must be a whole number of bytes"):
        packing.write_within(size, tmp_path / "a.skinny", tensors)


def test_too_small_is_an_error_and_the_old_file_stays(tensors, tmp_path):
    (tmp_path / "a.skinny").write_bytes(b"old")
    with pytest.raises(SkinnyError, match=r"no file can be 5,000 bytes small: .* prune further"):
        packing.write_within(5000, tmp_path / "a.skinny", tensors)
    assert (tmp_path / "a.skinny").read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_is_not_there_is_an_error(tensors, tmp_path):
    with pytest.raises(SkinnyError, match="cannot write"):
        packing.write_within(10**6, tmp_path / "no" / "a.skinny", tensors)


def test_the_tensor_that_loses_least_for_a_byte_is_rounded_first():
    offered = {
        "hard": [Option("exact", 100, 0.0), Option("codebook4", 50, 0.2)],
        "easy": [Option("exact", 100, 0.0), Option("codebook4", 50, 0.01)],
    }
    assert fit.choose(offered, 200) == {"hard": "exact", "easy": "exact"}
    assert fit.choose(offered, 160) == {"hard": "exact", "easy": "codebook4"}
    assert fit.choose(offered, 100) == {"hard": "codebook4", "easy": "codebook4"}


def test_a_trained_codebook_is_stored_as_what_it_is(rng, tmp_path):
    trained = rng.choice(np.linspace(-1, 1, 16, dtype=np.float32), (40, 50))
    trained[rng.random(trained.shape) < 0.8] = 0
    chosen = packing.write_within(2000, tmp_path / "a.skinny", {"weight": trained})
    assert chosen == {"weight": "codebook4"}
    with packing.open(tmp_path / "a.skinny") as file:
        assert np.array_equal(file.read_float32("weight"), trained)
