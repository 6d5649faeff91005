"""`skinny pack`, `skinny unpack` and `skinny size`."""

import dataclasses
import json
import os
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from skinny import packing
from skinny.cli import pack, size, unpack
from skinny.cli.command_line import UsageError
from skinny.data import test_batches as batches_of_test
from skinny.errors import SkinnyError
from skinny.export import unpack as unpack_state
from skinny.runtime import load
from skinny.training import RunFolder, load_run, recipe, train


@pytest.fixture
def weights():
    rng = np.random.default_rng(0)
    sparse = np.where(rng.random((64, 100)) < 0.1, rng.standard_normal((64, 100)), 0)
    return {"fc.weight": sparse.astype(np.float32), "fc.bias": np.ones(64, np.float32)}


@pytest.fixture
def source(tmp_path, weights):
    path = tmp_path / "model.safetensors"
    save_file(weights, path)
    return path


def test_safetensors_go_in_and_come_out_the_same(source, weights, tmp_path, capsys):
    assert pack.main([str(source)]) == 0
    shown = capsys.readouterr().out
    assert "fc.weight" in shown
    assert "adaptive" in shown
    packed = tmp_path / "model.skinny"
    assert unpack.main([str(packed), "--out", str(tmp_path / "back.safetensors")]) == 0
    back = load_file(tmp_path / "back.safetensors")
    assert {name: array.tobytes() for name, array in back.items()} == {
        name: array.tobytes() for name, array in weights.items()
    }


@pytest.mark.parametrize("how", [[], ["-o"], ["--out"], ["--output"]])
def test_the_file_to_write_may_be_a_word_or_a_flag(source, weights, tmp_path, how):
    packed, back = tmp_path / "other.skinny", tmp_path / "back.safetensors"
    assert pack.main([str(source), *how, str(packed)]) == 0
    assert unpack.main([str(packed), *how, str(back)]) == 0
    assert set(load_file(back)) == set(weights)


@pytest.mark.parametrize("command", [pack, unpack])
def test_two_files_to_write_are_one_too_many(source, tmp_path, command):
    pack.main([str(source)])
    file = tmp_path / ("model.skinny" if command is unpack else "model.safetensors")
    with pytest.raises(UsageError, match="two files to write, a and b"):
        command.main([str(file), "a", "-o", "b"])


def test_signed_zeros_are_kept_on_request(tmp_path):
    weights = {"w": np.array([-0.0, 0.0, 1.0], np.float32)}
    save_file(weights, tmp_path / "w.safetensors")
    for flags, negative in (([], 0), (["--signed-zeros"], 1)):
        pack.main([str(tmp_path / "w.safetensors"), str(tmp_path / "w.skinny"), *flags])
        with packing.open(tmp_path / "w.skinny") as file:
            assert np.signbit(file.read("w")).sum() == negative


@pytest.mark.parametrize("kind", ["safetensors", "pt"])
def test_a_size_is_kept(source, weights, tmp_path, kind):
    if kind == "pt":
        source = source.with_suffix(".pt")
        torch.save({name: torch.from_numpy(array) for name, array in weights.items()}, source)
    assert pack.main([str(source), str(tmp_path / "m.skinny"), "--size", "1.1kB"]) == 0
    assert (tmp_path / "m.skinny").stat().st_size <= 1100
    with packing.open(tmp_path / "m.skinny") as file:
        assert file.entry("fc.weight").values.startswith("codebook")


@pytest.mark.parametrize(
    ("text", "count"),
    [(None, None), ("25", 25), ("8600B", 8600), ("25kB", 25_000), ("1.5 MB", 1_500_000)],
)
def test_sizes_are_read_as_people_write_them(text, count):
    assert pack.most_bytes(text) == count


@pytest.mark.parametrize("text", ["", "0", "-1", "25 GB", "small", "1e3", "0.4", "٣"])
def test_other_sizes_are_refused(text):
    with pytest.raises(UsageError, match="give bytes, as 25kB"):
        pack.most_bytes(text)


@pytest.mark.parametrize("other", [["--values", "int8"], ["--signed-zeros"]])
def test_a_size_and_a_kind_of_values_are_one_wish_too_many(source, other):
    with pytest.raises(UsageError, match="--size chooses how values are stored"):
        pack.main([str(source), "--size", "9kB", *other])


def test_a_state_dict_goes_in_and_comes_out(tmp_path, weights):
    state = {name: torch.from_numpy(array) for name, array in weights.items()}
    torch.save(state, tmp_path / "model.pt")
    pack.main([str(tmp_path / "model.pt"), "--out", str(tmp_path / "m.skinny")])
    unpack.main([str(tmp_path / "m.skinny"), "--out", str(tmp_path / "back.pt")])
    back = torch.load(tmp_path / "back.pt", weights_only=True)
    assert all(torch.equal(back[name], state[name]) for name in state)


def test_rounded_values_show_their_error(source, tmp_path, capsys):
    pack.main([str(source), "--values", "int8", "--out", str(tmp_path / "m.skinny")])
    shown = capsys.readouterr().out
    assert "error" in shown
    assert "entropy int8" in shown or "bitmask int8" in shown


def test_size_shows_every_tensor_the_bound_and_the_others(source, tmp_path, capsys):
    pack.main([str(source)])
    capsys.readouterr()
    assert size.main([str(tmp_path / "model.skinny")]) == 0
    shown = capsys.readouterr().out
    for word in ("fc.weight", "fc.bias", "kept", "dense", "packed", "bound", "gzip", "xz", "total"):
        assert word in shown
    assert "…" not in shown


def test_size_as_json_is_the_report(source, tmp_path, capsys):
    pack.main([str(source)])
    capsys.readouterr()
    size.main([str(tmp_path / "model.skinny"), "--json"])
    shown = json.loads(capsys.readouterr().out)
    report = packing.size(tmp_path / "model.skinny")
    assert shown["total"]["packed"] == report.total.packed
    assert shown["tensors"][0]["gzip"] == report.tensors[0].gzip
    assert shown["ratio"] == pytest.approx(report.total.ratio)


def test_size_can_leave_the_others_out(source, tmp_path, capsys):
    pack.main([str(source)])
    capsys.readouterr()
    size.main([str(tmp_path / "model.skinny"), "--no-compare"])
    assert "gzip" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        (pack, ["gone"], "there is no gone"),
        (pack, ["notes.txt"], "neither a run folder nor"),
        (pack, ["damaged.pt"], r"cannot read damaged\.pt"),
        (pack, ["list.pt"], "holds a list, not a state_dict"),
        (unpack, ["gone.skinny"], "cannot open gone"),
        (unpack, ["notes.txt"], "not a packed model"),
        (size, ["notes.txt"], "not a packed model"),
    ],
)
def test_mistakes_are_told_in_a_sentence(tmp_path, monkeypatch, command, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("hello, this is a text")
    (tmp_path / "damaged.pt").write_bytes(b"PK\x03\x04 nonsense")
    torch.save([1], tmp_path / "list.pt")
    with pytest.raises(SkinnyError, match=message):
        command.main(arguments)


def test_a_pickle_is_not_executed(tmp_path):
    class Attack:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "pwned"),)

    (tmp_path / "evil.pt").write_bytes(pickle.dumps(Attack()))
    torch.save({"w": Attack()}, tmp_path / "evil2.pt")
    for name in ("evil.pt", "evil2.pt"):
        with pytest.raises(SkinnyError, match="cannot read"):
            pack.main([str(tmp_path / name)])
    assert not (tmp_path / "pwned").exists()


def test_unpacking_to_an_unknown_kind_of_file_is_told(source, tmp_path):
    pack.main([str(source)])
    with pytest.raises(SkinnyError, match=r"end in \.safetensors, \.pt or \.onnx"):
        unpack.main([str(tmp_path / "model.skinny"), "--out", str(tmp_path / "model.h5")])


@pytest.mark.parametrize("command", ["pack", "unpack", "size"])
def test_help_has_an_example_and_does_not_load_torch(command):
    program = (
        f"import sys; from skinny.cli import {command}\n"
        f"try:\n    {command}.main(['--help'])\n"
        "except SystemExit as end:\n    assert not end.code\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"Example: skinny {command}" in done.stdout


def test_a_finished_run_packs_with_graph_labels_and_preprocessing(tmp_path, capsys):
    config = dataclasses.replace(recipe("demo"), epochs=2, dense=1, sparse=1, train_size=200)
    folder = RunFolder(tmp_path / "run")
    train(config, folder, device="cpu")
    assert pack.main([str(folder.path)]) == 0
    trained = load_run(folder.path)
    with packing.open(folder.path / "model.skinny") as file:
        assert file.graph is not None
        assert file.labels == list(trained.dataset.classes)
        assert file.preprocessing is not None
        assert file.preprocessing["mean"] == pytest.approx(list(trained.dataset.mean))
        assert file.config_hash == config.hash
        assert file.sparsity is not None
        assert file.sparsity["weights"] == trained.result["weights"]
    state = unpack_state(folder.path / "model.skinny")
    for name, tensor in trained.model.state_dict().items():
        assert torch.equal(state[name], tensor)
    half = (folder.path / "model.skinny").stat().st_size // 2
    capsys.readouterr()
    assert pack.main([str(folder.path), str(tmp_path / "small.skinny"), "--size", str(half)]) == 0
    assert (tmp_path / "small.skinny").stat().st_size <= half
    images = len(trained.dataset.test)
    wrong = round(images * (1 - trained.result["test_accuracy"]))
    told = capsys.readouterr().err
    assert f"accuracy {trained.result['test_accuracy']:.2%} as trained, " in told
    assert re.search(rf"\({wrong} and \d+ of {images} images wrong\)", told)
    out = tmp_path / "int8.skinny"
    assert pack.main([str(folder.path), str(out), "--compute", "int8"]) == 0
    told = capsys.readouterr().err
    assert re.search(r"signal to noise +why\n.* int8 +\d", told)
    found = re.search(rf"computed in int8 \({wrong} and (\d+) of {images} images wrong\)", told)
    x, y = next(iter(batches_of_test(trained.dataset, batch_size=images).epoch(0)))
    scores = load(out)(x.numpy(), preprocessed=True)
    assert found is not None
    assert int(found[1]) == int((scores.argmax(1) != y.numpy()).sum())
