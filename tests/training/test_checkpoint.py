import random

import pytest
import torch

from skinny.errors import SkinnyError
from skinny.training import checkpoint


def states(folder, count=2):
    for number in range(count):
        checkpoint.save(folder, {"number": number, "tensor": torch.full((50,), float(number))})


def refuse(text):
    raise AssertionError(text)


def test_the_last_checkpoint_is_read_back(tmp_path):
    states(tmp_path)
    state = checkpoint.load(tmp_path, refuse, dict)
    assert state["number"] == 1
    assert torch.equal(state["tensor"], torch.ones(50))


def test_no_checkpoint_is_no_error(tmp_path):
    assert checkpoint.load(tmp_path / "nosuch", refuse, dict) is None


def test_a_damaged_one_falls_back_to_the_one_before_and_says_so(tmp_path):
    states(tmp_path)
    whole = (tmp_path / "last.pt").read_bytes()
    draw = random.Random(0)
    damages = [whole[:cut] for cut in (0, 4, 20, 41, len(whole) // 2, len(whole) - 1)]
    for _ in range(50):
        at = draw.randrange(len(whole))
        damages.append(whole[:at] + bytes([whole[at] ^ (1 << draw.randrange(8))]) + whole[at + 1 :])
    for damaged in damages:
        (tmp_path / "last.pt").write_bytes(damaged)
        said = []
        assert checkpoint.load(tmp_path, said.append, dict)["number"] == 0
        assert len(said) == 1
        assert "last.pt is damaged" in said[0]


def test_a_damaged_one_never_takes_the_place_of_a_good_one(tmp_path):
    states(tmp_path)
    (tmp_path / "last.pt").write_bytes(b"SKINNYCK nonsense")
    assert checkpoint.load(tmp_path, lambda text: None, dict, set_aside=True)["number"] == 0
    checkpoint.save(tmp_path, {"number": 2})
    (tmp_path / "last.pt").write_bytes(b"SKINNYCK nonsense")
    assert checkpoint.load(tmp_path, lambda text: None, dict)["number"] == 0


def test_a_kill_between_the_two_renames_loses_nothing(tmp_path):
    states(tmp_path)
    (tmp_path / "last.pt").rename(tmp_path / "previous.pt")
    assert checkpoint.load(tmp_path, refuse, dict)["number"] == 1


def test_when_all_are_damaged_the_run_is_not_silently_begun_again(tmp_path):
    states(tmp_path)
    for name in ("last.pt", "previous.pt"):
        (tmp_path / name).write_bytes(b"SKINNYCK nonsense")
    with pytest.raises(SkinnyError, match=r"no checkpoint .* can be used"):
        checkpoint.load(tmp_path, lambda text: None, dict)


def test_code_in_a_checkpoint_is_not_run(tmp_path):
    import hashlib
    import os
    import pickle

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "pwned"),)

    payload = pickle.dumps(Evil(), protocol=2)
    file = b"SKINNYCK" + hashlib.sha256(payload).digest() + payload
    (tmp_path / "last.pt").write_bytes(file)
    with pytest.raises(SkinnyError):
        checkpoint.load(tmp_path, lambda text: None, dict)
    assert not (tmp_path / "pwned").exists()
