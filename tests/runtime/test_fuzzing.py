"""Networks nobody would write: equal to the reference, or refused in one sentence.

The short form; `make fuzz` goes on for as long as it is told to, from other seeds.
"""

import itertools
import sys
from random import Random

import numpy as np
import pytest
from tests.runtime.fuzzing import campaign as campaigns
from tests.runtime.fuzzing.campaign import Watched, campaign
from tests.runtime.fuzzing.case import judge, make, read
from tests.runtime.fuzzing.general import Network, general_network
from tests.runtime.fuzzing.mutations import MUTATIONS, Parts, mutate
from tests.runtime.fuzzing.networks import network

from skinny import packing
from skinny.graph import operations
from skinny.runtime import reference

pytest.importorskip("skinny._native", reason="the native extension was not built")
SEEDS = range(300)


def test_changed_networks_equal_the_reference_or_are_refused(tmp_path):
    with Watched() as watched:
        statistics = campaign(SEEDS, tmp_path, watched)
    assert not statistics.findings, str(statistics)
    assert statistics.total() == len(SEEDS)
    # None empty: most files run and are compared, in both formats, and many are refused.
    for version in (1, 2):
        assert statistics.counts["ran", f"format {version}, compared"] > len(SEEDS) / 8
    assert statistics.counts["refused", "GraphError"] > len(SEEDS) / 10
    assert statistics.counts["refused", "ManifestError"] > 0


def test_a_seed_makes_the_same_file_again(tmp_path):
    for seed in range(20):
        names = [make(seed, tmp_path / name) for name in ("a", "b")]
        assert names[0] == names[1]
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_networks_use_every_operation_and_every_change_is_made(tmp_path):
    used, changes = set(), set()
    for seed in range(400):
        _, graph = network(Random(seed))
        used |= {node["op"] for node in graph["nodes"]}
        parts = Parts({}, {"graph": graph, "tensors": {}, "preprocessing": None}, {})
        changes.add(mutate(str(seed), parts))
    assert used == set(packing.graph.OPERATIONS)  # those of format 1
    named = {change.__name__.strip("_") for change in MUTATIONS}
    assert changes >= named - {"tensors", "tensor_shape"}  # this file has none


def test_a_node_whose_stored_tensors_would_be_huge_is_not_drawn():
    made = Network(Random(0))
    made.shapes["x"] = (0, 2, 311_296)  # an empty value is small, an LSTM's weights over it are not
    before = dict(made.tensors)
    assert not made.grow("lstm")
    assert made.tensors == before


def test_general_networks_use_every_registered_operation():
    graphs = [general_network(Random(seed))[1] for seed in range(400)]
    assert {node["op"] for graph in graphs for node in graph["nodes"]} == set(operations())


@pytest.fixture(scope="module")
def ending_in_tanh(tmp_path_factory):
    """An unchanged network of format 1 and its seed."""
    path = tmp_path_factory.mktemp("tanh") / "case"
    for seed in range(4000):
        if make(seed, path) or read(path).format != "1":
            continue
        graph = read(path).book["graph"]
        last = {node["output"]: node["op"] for node in graph["nodes"]}.get(graph["outputs"][0])
        if last == "tanh":
            return path, seed
    raise AssertionError("no network ends in tanh")


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (lambda node, tensor, x: np.tanh(x) + np.float32(1e-3), "another output"),
        (lambda node, tensor, x: {}["nothing"], "KeyError"),
    ],
)
def test_a_wrong_operation_is_found(ending_in_tanh, monkeypatch, wrong, what):
    path, seed = ending_in_tanh
    assert judge(path, seed)["outcome"] == "ran"
    monkeypatch.setitem(reference._OPERATIONS, "tanh", wrong)
    outcome = judge(path, seed)
    assert outcome["outcome"] == "finding"
    assert what in outcome["what"]


WORKERS = {
    "crash": ("import os; os.abort()", "died of SIGABRT"),
    "end": ("import sys; sys.exit('out of memory')", "died of exit status 1"),
    "hang": ("import time; time.sleep(60)", "no answer within 0.5 seconds"),
}


@pytest.mark.parametrize("how", WORKERS)
def test_a_worker_that_dies_or_hangs_is_a_finding_with_a_file(tmp_path, how):
    code, what = WORKERS[how]
    make(7, tmp_path / "made")
    start = (sys.executable, "-c", f"{SAVE}; {code}", str(tmp_path / "made"))
    with Watched(start, patience=0.5) as watched:
        statistics = campaign([7], tmp_path, watched, attempts=2)
    (found,) = statistics.findings
    assert what in found.what
    assert found.path.exists()
    assert f"--seed 7 --file {found.path}" in found.path.with_suffix(".txt").read_text()


SAVE = (
    "import json, shutil, sys; request = json.loads(sys.stdin.readline());"
    " shutil.copy(sys.argv[1], request['path'])"
)


# Answers each request with the next of the given texts, in this process or the one after it.
ANSWERS = """
import json, pathlib, sys
for line in sys.stdin:
    pathlib.Path(json.loads(line)["path"]).write_bytes(b"")
    log = pathlib.Path(sys.argv[1])
    log.write_text(log.read_text() + "x")
    what = sys.argv[2:][len(log.read_text()) - 1]
    kind = "not made" if "own" in what else "ran" if "format" in what else "finding"
    print(json.dumps({"outcome": kind, "what": what, "changes": []}), flush=True)
"""


@pytest.mark.parametrize(
    ("answers", "found", "passed"),
    [
        (["MemoryError in case.py", "format 1, compared"], 0, True),  # a machine short of memory
        (["more than 10 seconds to load", "format 1, compared"], 0, True),  # or of time
        (["more than 10 seconds to load"] * 3, 1, False),
        (["another output", "format 1, compared"], 1, False),  # however rarely it comes
        (["MemoryError of the fuzzer's own", *["format 1, compared"] * 99], 0, True),
        (["MemoryError of the fuzzer's own"] * 2, 0, False),  # a fuzzer that makes no files
    ],
)
def test_what_only_the_machine_did_is_no_finding(tmp_path, answers, found, passed):
    (tmp_path / "log").write_text("")
    start = (sys.executable, "-c", ANSWERS, str(tmp_path / "log"), *answers)
    seeds = range(100 if len(answers) == 100 else 2 if "own" in answers[0] else 1)
    with Watched(start) as watched:
        statistics = campaign(seeds, tmp_path, watched, attempts=1)
    assert (len(statistics.findings), statistics.passed) == (found, passed)


@pytest.mark.parametrize(("pace", "waits"), [(0.0015, True), (0.06, False), (0.0, False)])
def test_a_worker_on_a_busy_machine_is_waited_for(monkeypatch, pace, waits):
    """Not one that computes without end, nor one that does not compute at all."""
    clock = itertools.count()
    monkeypatch.setattr(campaigns, "_processor_seconds", lambda pid: pace * next(clock))
    slow = "import time; time.sleep(0.5); print('{}', flush=True)"
    with Watched((sys.executable, "-c", slow), patience=0.1) as watched:
        answer = watched.ask({})
    assert answer == {} if waits else answer["what"].startswith("no answer")


def test_a_case_may_not_take_more_memory_than_its_worker_has(tmp_path):
    start = (
        "import sys; sys.path.insert(0, ''); import numpy as np;"
        "from tests.runtime.fuzzing import worker; worker.limit_memory(); np.ones(1 << 28)"
    )
    with Watched((sys.executable, "-c", start)) as watched:
        answer = watched.ask({})
    assert "MemoryError" in answer["detail"]
