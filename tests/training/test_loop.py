import dataclasses
import json
import shutil

import pytest
import torch

from skinny.errors import SkinnyError
from skinny.iht import timeline
from skinny.training import Config, RunFolder, Silent, figures, load_run, train
from skinny.training import config as configs
from skinny.training.session import build, build_optimizer

pytestmark = pytest.mark.usefixtures("graphs_taken_once")
TINY = Config(
    name="tiny",
    data="digits",
    train_size=100,
    model="nin-digits",
    width=0.25,
    epochs=4,
    dense=1,
    sparse=1,
    batch_size=32,
    sparsity=0.8,
    dropout=0.3,
    batch_norm=True,
    budget="uniform",
)


def run(folder, **changes):
    return train(dataclasses.replace(TINY, **changes), RunFolder(folder))


def weights(folder):
    return load_run(folder).model.state_dict()


def assert_same_weights(a, b):
    a, b = weights(a), weights(b)
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """TINY, trained. To read; who changes it, copies it."""
    folder = tmp_path_factory.mktemp("finished") / "a"
    run(folder)
    return folder


def test_a_run_leaves_all_its_records(tmp_path):
    result = run(tmp_path / "a")
    folder = RunFolder(tmp_path / "a")
    assert folder.config() == TINY
    assert folder.result() == result
    metrics = folder.metrics()
    assert [record["epoch"] for record in metrics] == [0, 1, 2, 3]
    assert [record["phase"] for record in metrics] == ["dense", "sparse"] * 2
    assert [len(record["mask_updates"]) for record in metrics] == [0, 1, 0, 1]
    assert metrics[3]["mask_updates"][0]["change_ratio"] > 0
    assert metrics[3]["sparsity"] == pytest.approx(0.8, abs=0.01)
    assert set(metrics[3]["layers"]) == set(result["weights"])
    for weight in result["weights"].values():
        assert weight["kept"] <= max(1, round(0.2 * weight["size"]))
    assert result["test_accuracy"] == metrics[-1]["test_accuracy"]


def test_a_run_that_ends_before_its_budget_holds_is_no_result(tmp_path, monkeypatch):
    longer = timeline.sdnn(epochs=8, sparsity=0.8, dense=3, sparse=1)
    monkeypatch.setattr(configs, "timeline", lambda config, steps_per_epoch: longer)
    with pytest.raises(SkinnyError, match=r"after 4 of 8 epochs, before the last span"):
        run(tmp_path / "a")
    assert RunFolder(tmp_path / "a").result() is None
    assert not RunFolder(tmp_path / "a").model_file.exists()


def test_it_learns(tmp_path):
    result = run(
        tmp_path / "a", train_size=600, epochs=12, dense=2, sparse=4, width=0.5, sparsity=0.5
    )
    assert result["test_accuracy"] > 0.8


def test_the_same_seed_gives_the_same_weights_and_another_does_not(finished, tmp_path):
    run(tmp_path / "b")
    run(tmp_path / "c", seed=1)
    assert_same_weights(finished, tmp_path / "b")
    with pytest.raises(AssertionError):
        assert_same_weights(finished, tmp_path / "c")


def test_a_finished_run_is_not_trained_again(finished):
    before = (finished / "checkpoint" / "last.pt").stat().st_mtime_ns

    class Listening(Silent):
        said = ()

        def note(self, text):
            self.said = (*self.said, text)

        def begin(self, info):
            raise AssertionError("it began to train")

    observer = Listening()
    train(TINY, RunFolder(finished), observer=observer)
    assert "finished already" in observer.said[0]
    assert (finished / "checkpoint" / "last.pt").stat().st_mtime_ns == before


class StopAt(Silent):
    """Breaks off as Ctrl-C would."""

    def __init__(self, epoch, step):
        self.at = (epoch, step)

    def step(self, progress):
        if (progress.epoch, progress.step) == self.at:
            raise KeyboardInterrupt


@pytest.fixture(scope="module", params=["sdnn", "gradual"])
def uninterrupted(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    config = dataclasses.replace(TINY, method=request.param)
    train(config, RunFolder(folder))
    return config, folder


@pytest.mark.parametrize(
    ("epoch", "within"), [(0, True), (1, False), (1, True), (2, True), (3, False), (3, True)]
)
def test_an_interrupted_run_goes_on_exactly(tmp_path, uninterrupted, epoch, within):
    """Broken off at the third step of an epoch; `within`: with a checkpoint after every step."""
    config, whole = uninterrupted
    every = 0.0 if within else 600.0
    with pytest.raises(KeyboardInterrupt):
        train(
            config, RunFolder(tmp_path / "a"), observer=StopAt(epoch, 3), checkpoint_seconds=every
        )
    train(config, RunFolder(tmp_path / "a"), checkpoint_seconds=every)
    assert_same_weights(tmp_path / "a", whole)
    metrics, expected = RunFolder(tmp_path / "a").metrics(), RunFolder(whole).metrics()
    for one, other in zip(metrics, expected, strict=True):
        for clock in ("seconds", "images_per_second"):
            one.pop(clock)
            other.pop(clock)
        assert one == other


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain") / "a"
    run(folder, width=0.5)
    return folder


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "dense"},
        {"method": "acdc", "epochs": 6},
        {"method": "oneshot"},
        {"optimizer": "adamw", "lr": 0.001},
        {"nesterov": True, "schedule": "step", "warmup": 0.5},
        {"schedule": "constant", "label_smoothing": 0.1, "restart_lr": True},
        {"precision": "bf16"},
        {"channels_last": True, "augment": "flip-crop"},
        {"whiten": True},
        {"unit": "step"},
        {"budget": "erk"},
        {"pattern": "1x4"},
        {"budget": "global", "restore": "last"},
        {"layers": ("conv1=0.5", "cccp6=100"), "score": "random"},
        {"exclude": ("conv1",)},
        {"eval_every": 3},
    ],
    ids=str,
)
def test_every_option_has_its_effect_and_keeps_the_budget(tmp_path, monkeypatch, plain, changes):
    monkeypatch.setenv("SKINNY_DATA", str(tmp_path / "data"))
    result = run(tmp_path / "a", **{"width": 0.5, **changes})
    trained, usual = weights(tmp_path / "a"), weights(plain)
    same = all(torch.equal(trained[name], usual[name]) for name in usual)
    assert same == ("eval_every" in changes)
    assert all(torch.isfinite(value).all() for value in trained.values())
    if "layers" in changes:
        assert result["weights"]["cccp6.weight"]["kept"] == 100
    else:
        kept, size = (
            sum(weight[what] for weight in result["weights"].values()) for what in ("kept", "size")
        )
        share = 1.0 if changes.get("method") == "dense" else 0.2
        assert kept / size == pytest.approx(share, abs=0.01)
    metrics = RunFolder(tmp_path / "a").metrics()
    if "eval_every" in changes:
        tested = [record["test_accuracy"] is not None for record in metrics]
        assert tested == [False, False, True, True]
    if "exclude" in changes:
        assert "conv1.weight" not in result["weights"]
    if changes.get("unit") == "step":
        assert sum(len(record["mask_updates"]) for record in metrics) == 8


def test_a_compiled_model_trains_and_its_checkpoint_is_a_plain_one(tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda model: _aot(model))
    small = {"model": "lenet-300-100", "width": None, "batch_norm": None, "dropout": None}
    run(tmp_path / "a", compile=True, epochs=2, **small)
    run(tmp_path / "b", compile=False, epochs=2, **small)
    assert list(weights(tmp_path / "a")) == list(weights(tmp_path / "b"))


_compile = torch.compile


def _aot(model):
    """The same wrapper and autograd as the default backend, without minutes of C++ compilation."""
    return _compile(model, backend="aot_eager")


def test_a_loss_of_nan_ends_the_run_and_keeps_the_checkpoint_before_it(tmp_path):
    with pytest.raises(SkinnyError, match=r"the loss became nan|the loss became inf"):
        run(tmp_path / "a", lr=1e30, batch_norm=False, schedule="constant", epochs=6)
    assert RunFolder(tmp_path / "a").result() is None
    assert "the loss became" in RunFolder(tmp_path / "a").diverged()


def test_two_processes_cannot_train_one_run(tmp_path):
    with RunFolder(tmp_path / "a"), pytest.raises(SkinnyError, match="another process is training"):
        run(tmp_path / "a")


def test_a_folder_with_another_config_is_refused(finished):
    with pytest.raises(SkinnyError, match="another config"):
        run(finished, epochs=6)


def test_a_cut_off_metrics_line_is_dropped(finished, tmp_path):
    folder = RunFolder(shutil.copytree(finished, tmp_path / "a"))
    with folder.metrics_file.open("a") as file:
        file.write('{"epoch": 4, "train_lo')
    assert len(folder.metrics()) == 4


@pytest.mark.parametrize("name", ["result.json", "histograms.json"])
@pytest.mark.parametrize("damage", ["{}", "[1]", '{"epo', ""])
def test_a_damaged_record_is_one_sentence(tmp_path, name, damage):
    (tmp_path / name).write_text(damage)
    folder = RunFolder(tmp_path)
    read = folder.result if name == "result.json" else folder.histograms
    with pytest.raises(SkinnyError, match=name):
        read()


def test_a_run_whose_records_are_lost_says_so(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(TINY, RunFolder(tmp_path / "a"), observer=StopAt(2, 1))
    (tmp_path / "a" / "metrics.jsonl").write_text("")
    with pytest.raises(SkinnyError, match="lacks epochs that the checkpoint has"):
        run(tmp_path / "a")


def test_one_dense_baseline_serves_every_sparsity():
    one, other = (
        configs.dense_baseline(dataclasses.replace(TINY, sparsity=s, dense=n, budget=b))
        for s, n, b in ((0.5, 1, "erk"), (0.9, 2, "uniform"))
    )
    assert one == other
    assert one.method == "dense"
    assert one.epochs == TINY.epochs


def test_caffes_learning_rates_reach_the_groups():
    config = dataclasses.replace(TINY, bias_lr=2.0, last_layer_lr=0.1, weight_decay=0.01)
    parts = build(config)
    rates = {}
    for group in build_optimizer(config, parts.model).param_groups:
        for parameter in group["params"]:
            rates[id(parameter)] = (group["multiple"], group["weight_decay"])
    named = dict(parts.model.named_parameters())
    assert rates[id(named["conv1.weight"])] == (1.0, 0.01)
    assert rates[id(named["bn_conv1.bias"])] == (2.0, 0.0)
    assert rates[id(named["cccp6.weight"])] == (0.1, 0.01)
    assert rates[id(named["cccp6.bias"])] == (0.2, 0.0)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"data": "mnits"}, "no data set 'mnits'"),
        ({"model": "nin"}, "no model 'nin'"),
        ({"precision": "fp16"}, "fp16 is for GPUs"),
        ({"exclude": ("conv9",)}, "'conv9' matches nothing"),
        ({"model": "alexnet", "width": None, "batch_norm": None}, "at least 63x63 pixels, got 8x8"),
    ],
)
def test_what_cannot_be_trained_says_why(tmp_path, changes, complaint):
    with pytest.raises(SkinnyError, match=complaint):
        run(tmp_path / "a", **changes)


def test_a_run_that_never_began_leaves_no_folder(tmp_path):
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(SkinnyError, match="nosuch"):
        train(dataclasses.replace(TINY, model="nosuch:function"), folder)
    assert not folder.path.exists()


def test_an_unknown_device_is_one_sentence(tmp_path):
    with pytest.raises(SkinnyError, match="the device 'warp' cannot be used here"):
        train(TINY, RunFolder(tmp_path / "a"), device="warp")


def test_load_run_returns_the_trained_model_and_refuses_what_is_no_finished_run(finished, tmp_path):
    result = RunFolder(shutil.copytree(finished, tmp_path / "a")).result()
    trained = load_run(tmp_path / "a")
    assert not trained.model.training
    kept = sum(w["kept"] for w in result["weights"].values())
    prunable = [trained.model.get_parameter(name) for name in result["weights"]]
    assert sum(int(torch.count_nonzero(w)) for w in prunable) == kept
    with pytest.raises(SkinnyError, match="is not a run folder"):
        load_run(tmp_path)
    (tmp_path / "a" / "result.json").unlink()
    with pytest.raises(SkinnyError, match="is not finished"):
        load_run(tmp_path / "a")


def test_figures_are_drawn_from_the_folder(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "a")
    run(tmp_path / "d", method="dense")
    drawn = figures.draw(RunFolder(tmp_path / "a"))
    assert drawn == ["learning-curves.png", "sparsity.png", "weights.png"]
    for name in drawn:
        assert (tmp_path / "a" / "figures" / name).read_bytes().startswith(b"\x89PNG")
    assert figures.draw(RunFolder(tmp_path / "d")) == ["learning-curves.png"]


def test_histograms_count_every_weight_and_the_kept_ones(finished):
    result = RunFolder(finished).result()
    layers = json.loads((finished / "histograms.json").read_text())["layers"]
    for name, counts in layers.items():
        assert sum(counts["all"]) == result["weights"][name]["size"]
        assert sum(counts["kept"]) == round(0.2 * sum(counts["all"]))
        assert all(k <= a for k, a in zip(counts["kept"], counts["all"], strict=True))
