"""What a run folder may hold when its training goes on: other contents, leftovers, old configs."""

import dataclasses
import json
import shutil

import pytest
import torch

from skinny.errors import SkinnyError
from skinny.training import Config, RunFolder, Silent, checkpoint, load_run, train
from skinny.training import config as configs

pytestmark = pytest.mark.usefixtures("graphs_taken_once")
TINY = Config(
    name="tiny",
    train_size=100,
    width=0.125,
    epochs=4,
    dense=1,
    sparse=1,
    batch_size=32,
    sparsity=0.8,
    batch_norm=True,
)


class Stop(Silent):
    """Breaks off in the fourth epoch, as Ctrl-C would, and hears what is noted."""

    def __init__(self, epoch=3):
        self.at, self.heard = epoch, []

    def step(self, progress):
        if progress.epoch == self.at:
            raise KeyboardInterrupt

    def note(self, text):
        self.heard.append(text)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run"
    train(TINY, RunFolder(path))
    return path


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Broken off after the checkpoints of the second and the third epoch."""
    path = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.raises(KeyboardInterrupt):
        train(TINY, RunFolder(path), observer=Stop())
    return path


@pytest.fixture
def folder(stopped, tmp_path):
    return RunFolder(shutil.copytree(stopped, tmp_path / "run"))


def weights(path):
    return load_run(path).model.state_dict()


def assert_same(a, b):
    assert all(torch.equal(a[name], b[name]) for name in a)


def rewrite(folder, name, change):
    """The checkpoint with other contents, and a checksum that fits them."""
    state = checkpoint._read(folder.checkpoints / name)
    change(state)
    checkpoint.save(folder.path / "elsewhere", state)
    shutil.move(folder.path / "elsewhere" / "last.pt", folder.checkpoints / name)
    shutil.rmtree(folder.path / "elsewhere")


def momentum(value):
    def change(state):
        first = next(iter(state["session"]["optimizer"]["state"].values()))
        first["momentum_buffer"] = value

    return change


def no_momentum(state):
    next(iter(state["session"]["optimizer"]["state"].values())).clear()


def group(**settings):
    return lambda state: state["session"]["optimizer"]["param_groups"][0].update(settings)


def iht(**fields):
    return lambda state: state["session"]["iht"].update(fields)


def weights_of_another_shape(state):
    name = next(iter(state["session"]["model"]))
    state["session"]["model"][name] = torch.zeros(2, 2)


OTHER_CONTENTS = {
    "no session": lambda state: state.pop("session"),
    "no position": lambda state: state.pop("position"),
    "no model": lambda state: state["session"].pop("model"),
    "no optimizer": lambda state: state["session"].pop("optimizer"),
    "no random state": lambda state: state["session"].pop("random"),
    "a parameter less": lambda state: state["session"]["model"].popitem(),
    "a parameter more": lambda state: state["session"]["model"].update(more=torch.zeros(1)),
    "weights of another shape": weights_of_another_shape,
    "momentum of another shape": momentum(torch.zeros(7)),
    "momentum that is one number": momentum(torch.tensor(0.0)),
    "momentum that is no tensor": momentum(3),
    "a parameter without momentum": no_momentum,
    "another weight decay": group(weight_decay=-1.0),
    "another learning rate for biases": group(multiple=[]),
    "a later version's field of IHT": iht(later=3),
    "a span that is no number": iht(span=float("nan")),
    "a span after the last": iht(span=99),
    "no masks": lambda state: state["session"]["iht"].pop("masks"),
    "a random state of another kind": lambda state: state["session"]["random"].update(cpu="x"),
    "a field of a later version": lambda state: state["position"].update(tokens=3),
    "an epoch that is no number": lambda state: state["position"].update(epoch="three"),
    "a loss that is no number": lambda state: state["position"].update(loss=None),
    "no list of mask updates": lambda state: state["position"].update(mask_updates=3),
    "an epoch after the last": lambda state: state["position"].update(epoch=5),
    "a step after the last": lambda state: state["position"].update(step=4),
    "an epoch before the first": lambda state: state["position"].update(epoch=-1),
    "no dictionary": lambda state: state.update(session=3),
}


@pytest.mark.parametrize("change", OTHER_CONTENTS.values(), ids=OTHER_CONTENTS)
def test_a_checkpoint_with_other_contents_is_passed_over(folder, stopped, change):
    """The third epoch is trained again, from the checkpoint before it, and to the same weights."""
    rewrite(folder, "last.pt", change)
    watcher = Stop()
    with pytest.raises(KeyboardInterrupt):
        train(TINY, folder, observer=watcher)
    assert "last.pt does not fit this run" in watcher.heard[0]
    assert "going on in" in watcher.heard[1]
    again, before = (
        checkpoint._read(path / "last.pt")
        for path in (folder.checkpoints, RunFolder(stopped).checkpoints)
    )
    assert again["position"] == before["position"]
    assert_same(again["session"]["model"], before["session"]["model"])


def test_if_no_checkpoint_fits_the_run_is_not_begun_again(folder):
    for name in ("last.pt", "previous.pt"):
        rewrite(folder, name, OTHER_CONTENTS["no position"])
    with pytest.raises(SkinnyError, match=r"no checkpoint in .* can be used .*KeyError"):
        train(TINY, folder)
    assert len(folder.metrics()) == 3


def test_a_finished_run_whose_last_checkpoint_does_not_fit_says_so(whole, tmp_path):
    folder = RunFolder(shutil.copytree(whole, tmp_path / "run"))
    rewrite(folder, "last.pt", OTHER_CONTENTS["a parameter less"])
    with (
        pytest.warns(UserWarning, match="does not fit this run"),
        pytest.raises(SkinnyError, match="has lost the checkpoint of its last epoch"),
    ):
        load_run(folder.path)


def test_what_killed_writers_left_is_removed_and_nothing_else(folder):
    ours = [
        folder.checkpoints / ".fresh.pt.1a2b.tmp",
        folder.path / ".metrics.jsonl.1a2b.tmp",
        folder.path / ".model.skinny.1a2b.tmp",
    ]
    others = [folder.path / ".greedy-0.9.json.1a2b.tmp", folder.path / "notes.tmp"]
    for path in (*ours, *others):
        path.write_text("half of")
    with folder:
        assert not any(path.exists() for path in ours)
        assert all(path.exists() for path in others)


def test_the_folder_of_an_earlier_version_goes_on_where_it_is(folder, whole):
    """Its config has the earlier names of sdnn's spans, and its folder has another hash."""
    fields = json.loads(folder.config_file.read_text())
    del fields["dense"], fields["sparse"]
    earlier = fields | {"s1": 1, "s2": 1, "dense": None, "sparse": None}
    folder.config_file.write_text(json.dumps(earlier))
    train(TINY, folder)
    assert_same(weights(folder.path), weights(whole))


def test_a_run_goes_on_when_it_is_evaluated_less_often(folder, whole):
    train(dataclasses.replace(TINY, eval_every=4), folder)
    assert_same(weights(folder.path), weights(whole))


NESTED = "[" * 200_000
READERS = {
    "config.json": lambda folder: folder.config(),
    "result.json": lambda folder: folder.result(),
    "histograms.json": lambda folder: folder.histograms(),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "text",
    [NESTED, '{"a": ' * 200_000, "\xff", "9" * 10_000],
    ids=["lists", "objects", "not ASCII", "a long number"],
)
def test_json_that_cannot_be_followed_is_one_sentence(tmp_path, name, text):
    (tmp_path / name).write_text(text, "latin-1")
    with pytest.raises(SkinnyError, match=name):
        READERS[name](RunFolder(tmp_path))


def test_metrics_end_where_they_cannot_be_followed(folder):
    with folder.metrics_file.open("a") as file:
        file.write(NESTED + "\n")
    assert len(folder.metrics()) == 3


def test_a_file_larger_than_any_of_ours_is_not_read(folder, monkeypatch):
    monkeypatch.setattr("skinny.training.json_text.LARGEST", 100)
    with pytest.raises(SkinnyError, match=r"config\.json: it has more than"):
        folder.config()
    with pytest.raises(SkinnyError, match=r"metrics\.jsonl cannot be read: it has more than"):
        folder.metrics()


def test_a_run_of_another_identity_is_refused(folder):
    other = dataclasses.replace(TINY, seed=1)
    assert configs.identity(other) != configs.identity(TINY)
    with pytest.raises(SkinnyError, match="holds a run with another config"):
        train(other, folder)
