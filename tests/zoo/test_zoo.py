"""Every network of the zoo answers as in torch: packed, as ONNX, and imported back from ONNX."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from tests.zoo.network import build
from tests.zoo.zoo import ZOO

import skinny
from skinny.export import to_onnx

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:these operations have no kernel")


class Packed(NamedTuple):
    """A network's files, and inputs with what torch answers."""

    folder: Any
    samples: list[tuple[dict[str, np.ndarray], list[np.ndarray]]]


@pytest.fixture(scope="module", params=list(ZOO))
def packed(request, tmp_path_factory):
    """One export, for all tests of a network."""
    network = ZOO[request.param]
    model = build(network)
    folder = tmp_path_factory.mktemp(network.name)
    example = network.inputs(1, network.size[0])
    skinny.pack(model, folder / "a.skinny", example=example, dynamic=network.dynamic)
    to_onnx(folder / "a.skinny", folder / "a.onnx")
    torch.manual_seed(2)
    given = [network.inputs(batch, network.size[0]) for batch in (1, 3)]
    if network.dynamic:
        given.append(network.inputs(2, network.other))
    samples = []
    for inputs in given:
        with torch.no_grad():
            answer = [leaf.numpy() for leaf in leaves(model(**inputs))]
        samples.append(({name: x.numpy() for name, x in inputs.items()}, answer))
    return Packed(folder, samples)


def leaves(value):
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in leaves(item)]
    return [] if value is None else [value]


def same(got, want):
    assert len(got) == len(want)
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def run(path, inputs):
    net = skinny.load(path)
    return leaves(net(**{name: inputs[name] for name in net.inputs}))


def test_the_packed_network_answers_as_in_torch(packed):
    for inputs, want in packed.samples:
        same(run(packed.folder / "a.skinny", inputs), want)


def test_answers_are_of_order_one_and_differ_between_inputs(packed):
    """Otherwise the tests here would prove nothing."""
    _, want = packed.samples[1]
    for answer in want:
        assert 0.02 < answer.std() < 20
        assert answer.std(axis=0).mean() > 0.01


def test_onnx_runtime_answers_the_same(packed):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(
        packed.folder / "a.onnx", options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_inputs()]
    for inputs, want in packed.samples:
        same(session.run(None, {name: inputs[name] for name in names}), want)


def test_the_onnx_file_packs_and_answers_the_same(packed):
    skinny.pack(packed.folder / "a.onnx", packed.folder / "b.skinny")
    for inputs, want in packed.samples:
        same(run(packed.folder / "b.skinny", inputs), want)
