import shutil
import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tests.training.test_distributed import pack_nothing

from skinny.cli.main import main
from skinny.training import RunFolder, figures, outcome

COMMAND = [
    *("train", "demo", "--epochs", "4", "--dense", "1", "--sparse", "1", "--train-size", "60"),
    *("--width", "0.125", "--batch-size", "20", "--quiet", "--tensorboard-layers"),
]


def scalars(folder):
    read = EventAccumulator(str(folder.tensorboard)).Reload()
    return {tag: [(e.step, e.value) for e in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


def test_the_scalars_of_a_run_are_those_of_its_records(tmp_path, monkeypatch):
    """Three steps an epoch; spans of an epoch, dense and sparse in turn."""
    monkeypatch.setattr(outcome, "pack_trained", pack_nothing)
    monkeypatch.setattr(figures, "draw", lambda folder: [])
    assert main([*COMMAND, "--runs", str(tmp_path)]) == 0
    folder = RunFolder(next(tmp_path.iterdir()))
    shown, records = scalars(folder), folder.metrics()
    for tag, key in (("loss/train", "train_loss"), ("accuracy/test", "test_accuracy")):
        assert [step for step, _ in shown[tag]] == [3, 6, 9, 12]
        assert [value for _, value in shown[tag]] == pytest.approx([r[key] for r in records])
    assert [value for _, value in shown["sparsity"]] == pytest.approx(
        [record["sparsity"] for record in records]
    )
    change = records[3]["mask_updates"][0]["change_ratio"]
    assert shown["change ratio"] == [(9, pytest.approx(change))]
    for name, sparsity in records[3]["layers"].items():
        assert shown[f"sparsity of layers/{name}"][-1] == (12, pytest.approx(sparsity))
        assert len(shown[f"change ratio of layers/{name}"]) == 1
    # as if it had been killed before its last checkpoint: what is trained again is not shown twice
    shutil.move(folder.checkpoints / "previous.pt", folder.checkpoints / "last.pt")
    folder.result_file.unlink()
    assert main([*COMMAND, "--runs", str(tmp_path)]) == 0
    assert scalars(folder)["loss/train"] == shown["loss/train"]


def test_without_the_package_nothing_is_trained_and_the_extra_is_named(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    assert main([*COMMAND, "--runs", str(tmp_path)]) == 1
    complaint = "needs the package tensorboard: pip install 'skinny-nn[tensorboard]'\n"
    assert capsys.readouterr().err.endswith(complaint)
    assert not list(tmp_path.iterdir())
