"""ONNX files: operator sets 11 to 21, shapes computed in the graph, and hostile files."""

import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.graph import running

import skinny
from skinny.errors import SkinnyError
from skinny.export import onnx_import

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
rng = np.random.default_rng(0)


def tensor(name, values, dtype=np.float32):
    return numpy_helper.from_array(np.asarray(values, dtype), name)


def ints(name, *values):
    return tensor(name, values, np.int64)


def build(nodes, tensors=(), opset=17, shape=(2, 3, 8), outputs=("y",), kind=FLOAT, made=FLOAT):
    inputs = [helper.make_tensor_value_info("x", kind, list(shape))]
    results = [helper.make_tensor_value_info(name, made, None) for name in outputs]
    graph = helper.make_graph(list(nodes), "test", inputs, results, list(tensors))
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=7).SerializeToString()


def node(kind, inputs, outputs="y", **attributes):
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def write(folder, model):
    path = folder / "model.onnx"
    path.write_bytes(model)
    return path


def agree(folder, model, *shapes):
    """The import computes what ONNX Runtime computes, for all of these shapes."""
    graph, tensors = onnx_import.read(write(folder, model))
    for shape in shapes or ((2, 3, 8),):
        x = {"x": rng.standard_normal(shape).astype(np.float32)}
        for got, want in zip(
            running.run(graph, x, tensors), running.run_onnx(model, x), strict=True
        ):
            running.same(got, want)
    return graph


W = tensor("w", rng.standard_normal((4, 3, 3)))
M = tensor("m", rng.standard_normal((8, 5)))

# operator set -> the same operation as that set writes it
VARIANTS = {
    "squeeze before 13": (12, [node("Unsqueeze", "x", "u", axes=[0, -1]),
                               node("Squeeze", "u", axes=[0, 4])], []),
    "squeeze from 13": (13, [node("Unsqueeze", "x a", "u"), node("Squeeze", "u a")],
                        [ints("a", 0, 4)]),
    "squeeze all": (17, [node("Unsqueeze", "x a", "u"), node("Squeeze", "u")], [ints("a", 0)]),
    "sum before 13": (11, [node("ReduceSum", "x", axes=[1], keepdims=0)], []),
    "sum from 13": (13, [node("ReduceSum", "x a", keepdims=0)], [ints("a", 1)]),
    "sum of nothing": (13, [node("ReduceSum", "x", noop_with_empty_axes=1)], []),
    "mean before 18": (17, [node("ReduceMean", "x", axes=[-1, 1])], []),
    "mean from 18": (18, [node("ReduceMean", "x a")], [ints("a", -1, 1)]),
    "norms": (17, [node("ReduceL2", "x", "l", axes=[2]), node("ReduceL1", "x", "k", axes=[2]),
                   node("Add", "l k")], []),
    "einsum of two": (12, [node("Einsum", "x x", equation="bij,bkj->bik")], []),
    "einsum with a matrix": (13, [node("Einsum", "x m", equation="bij,jk->kbi")], [M]),
    "einsum of one": (17, [node("Einsum", "x", equation="b i j -> j b")], []),
    "einsum over all": (17, [node("Einsum", "x x", equation="bij,bij->")], []),
    "einsum over two axes": (17, [node("Einsum", "x w", equation="bij,kij")], [
        tensor("w", rng.standard_normal((4, 3, 8)))]),
    "einsum of outer products": (17, [node("Einsum", "x w", equation="bij,bkl->bkjil")], [
        tensor("w", rng.standard_normal((2, 4, 5)))]),
    "clip": (11, [node("Clip", "x low high")], [tensor("low", -0.5), tensor("high", 0.5)]),
    "clip below": (12, [node("Clip", "x low")], [tensor("low", -0.5)]),
    "clip from 0 to 6": (13, [node("Clip", "x low high")], [tensor("low", 0), tensor("high", 6)]),
    "softmax before 13": (12, [node("Softmax", "x", axis=1)], []),
    "softmax before 13, last axis": (11, [node("LogSoftmax", "x", axis=2)], []),
    "softmax from 13": (13, [node("Softmax", "x", axis=1)], []),
    "pad": (11, [node("Pad", "x p v")], [ints("p", 0, 0, 1, 0, 0, 2), tensor("v", 1.5)]),
    "pad of some axes": (18, [node("Pad", "x p v a")], [ints("p", 1, 2), tensor("v", 1.5),
                                                        ints("a", -1)]),
    "pad by reflection": (13, [node("Pad", "x p", mode="reflect")], [ints("p", 0, 0, 1, 0, 0, 2)]),
    "pad by the edge": (13, [node("Pad", "x p", mode="edge")], [ints("p", 0, 0, 1, 0, 0, 2)]),
    "slice": (11, [node("Slice", "x s e a t")], [ints("s", 1, -6), ints("e", 3, 2**62),
                                                 ints("a", 1, 2), ints("t", 1, 2)]),
    "slice backwards": (13, [node("Slice", "x s e a t")], [ints("s", -1), ints("e", -(2**62)),
                                                           ints("a", 2), ints("t", -1)]),
    "split before 13": (11, [node("Split", "x", "y z", axis=2, split=[3, 5])], []),
    "split from 13": (13, [node("Split", "x s", "y z", axis=2)], [ints("s", 3, 5)]),
    "split evenly": (18, [node("Split", "x", "y z", axis=2, num_outputs=2)], []),
    "resize by scales": (11, [node("Resize", "x r s", mode="nearest", nearest_mode="floor",
                                   coordinate_transformation_mode="asymmetric")],
                         [tensor("r", []), tensor("s", [1, 1, 2])]),
    "resize by sizes": (13, [helper.make_node("Resize", ["x", "", "", "n"], ["y"], mode="linear")],
                        [ints("n", 2, 3, 13)]),
    "resize to corners": (19, [helper.make_node(
        "Resize", ["x", "", "", "n"], ["y"], mode="linear",
        coordinate_transformation_mode="align_corners")], [ints("n", 2, 3, 13)]),
    "hard sigmoid": (11, [node("HardSigmoid", "x", "h"), node("HardSigmoid", "h", alpha=1 / 6,
                                                              beta=0.5)], []),
    "activations": (14, [node("Selu", "x", "a"), node("Celu", "a", "b", alpha=1.5),
                         node("Softsign", "b", "c"), node("LeakyRelu", "c", "d"),
                         node("Elu", "d", "e"), node("Softplus", "e", "f"),
                         node("HardSwish", "f")], []),
    "any number of inputs": (13, [node("Sum", "x x x", "a"), node("Max", "a x m", "b"),
                                  node("Min", "b", "c"), node("Mean", "c x")],
                             [tensor("m", 0.25)]),
    "whole numbers": (13, [node("Cast", "x", "i", to=INT), node("Div", "i two", "d"),
                           node("Mod", "d two", "r"), node("Add", "d r", "e"),
                           node("Cast", "e", to=FLOAT)], [tensor("two", 2, np.int64)]),
    "fmod": (13, [node("Mod", "x m", fmod=1)], [tensor("m", 0.3)]),
    "power of an integer": (13, [node("Pow", "x two")], [tensor("two", 2, np.int64)]),
    "prelu": (16, [node("PRelu", "x s", "p"), node("PRelu", "p v")],
              [tensor("s", rng.standard_normal((3, 1))), tensor("v", rng.standard_normal(8))]),
    "conv": (11, [node("Conv", "x w", auto_pad="SAME_UPPER", strides=[2])], [W]),
    "conv of more padding on a side": (11, [node("Conv", "x w", pads=[2, 0])], [W]),
    "a weight that is computed": (13, [node("Mul", "w two", "v"), node("Conv", "x v")],
                                  [W, tensor("two", 2.0)]),
    "pools": (12, [node("MaxPool", "x", "p", kernel_shape=[3], pads=[0, 1], strides=[2]),
                   node("AveragePool", "p", "q", kernel_shape=[2], auto_pad="SAME_UPPER",
                        count_include_pad=1), node("GlobalMaxPool", "q")], []),
    "gemm": (13, [node("Flatten", "x", "f"), node("Gemm", "f g c", alpha=0.5, beta=2.0, transB=1)],
             [tensor("g", rng.standard_normal((5, 24))), tensor("c", rng.standard_normal(5))]),
    "matmul by a transpose": (13, [node("Transpose", "t", "m", perm=[1, 0]), node("MatMul", "x m")],
                              [tensor("t", rng.standard_normal((5, 8)))]),
    "group of channels": (17, [node("InstanceNormalization", "x s b")],
                          [tensor("s", [1, 2, 3]), tensor("b", [0, 1, 0])]),
    "constants": (13, [node("Constant", "", "c", value_floats=[1.0] * 8),
                       node("Constant", "", "d", value=tensor("", 2.0)),
                       node("Add", "x c", "e"), node("Mul", "e d")], []),
    "gather and indices": (13, [node("Gather", "x i", "g", axis=2), node("GatherND", "g j", "h"),
                                node("Unsqueeze", "h a")],
                           [ints("i", 3, 0, -1), ints("a", 0),
                            tensor("j", [[0, 1], [1, 2]], np.int64)]),
    "dropout": (13, [node("Dropout", "x")], []),
    "lrn": (13, [node("Unsqueeze", "x a", "u"), node("LRN", "u", size=3)], [ints("a", 3)]),
}  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
def test_every_operator_set_is_read_as_onnx_runtime_reads_it(name, tmp_path):
    opset, nodes, tensors = VARIANTS[name]
    outputs = ("y", "z") if "split" in name else ("y",)
    agree(tmp_path, build(nodes, tensors, opset, outputs=outputs))


def test_a_clip_from_0_to_6_is_a_relu6_and_a_transposed_weight_is_stored_once(tmp_path):
    opset, nodes, tensors = VARIANTS["clip from 0 to 6"]
    graph, _ = onnx_import.read(write(tmp_path, build(nodes, tensors, opset)))
    assert [n.op for n in graph.nodes] == ["relu6"]
    opset, nodes, tensors = VARIANTS["matmul by a transpose"]
    graph, stored = onnx_import.read(write(tmp_path, build(nodes, tensors, opset)))
    assert [n.op for n in graph.nodes] == ["linear"]
    assert list(stored) == ["t"]


def test_shapes_computed_in_the_graph_stay_free(tmp_path):
    chain = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Unsqueeze", "n a", "n1"),
        node("Concat", "n1 rest", "shape", axis=0),
        node("Reshape", "x shape", "r"),
        node("Slice", "s first last", "sides"),
        node("Expand", "scalar sides", "e"),
        node("Shape", "e", "es"),
        node("ConstantOfShape", "es", "zeros"),
        node("Add", "zeros scalar", "ones"),
        node("ReduceSum", "ones", "total", keepdims=0),
        node("Mul", "r total"),
    ]
    tensors = [tensor("zero", 0, np.int64), ints("a", 0), ints("rest", 4, -1), ints("first", 1),
               ints("last", 3), tensor("scalar", 1.0)]  # fmt: skip
    model = build(chain, tensors, 13, shape=("batch", 8, "length"))
    graph = agree(tmp_path, model, (1, 8, 3), (3, 8, 10), (2, 8, 1))
    assert graph.free_sizes == ("batch", "length")


def test_an_example_fixes_the_sizes_that_a_file_leaves_free(tmp_path):
    """As of a reader of text lines that says it takes any height, but means 48."""
    nodes = [node("Reshape", "x sides", "r"), node("Relu", "r")]
    sides = ints("sides", 0, 3, 48, -1)
    path = write(tmp_path, build(nodes, [sides], shape=("n", 3, "height", "width")))
    with pytest.raises(SkinnyError, match="cannot express Reshape"):
        skinny.pack(path, tmp_path / "a.skinny")
    example = {"x": np.zeros((1, 3, 48, 32), np.float32)}
    skinny.pack(path, tmp_path / "a.skinny", example=example, dynamic={"x": {3: "width"}})
    assert skinny.load(tmp_path / "a.skinny").inputs == {"x": ("n", 3, 48, "width")}
    for wrong in ({"y": example["x"]}, example["x"], {"x": np.zeros(3)}):
        with pytest.raises(SkinnyError, match="the example"):
            skinny.pack(path, tmp_path / "a.skinny", example=wrong)


def test_a_branch_of_a_known_condition_is_inlined(tmp_path):
    def branch(kind):
        made = [helper.make_tensor_value_info("b", FLOAT, None)]
        return helper.make_graph([node(kind, "x c", "b")], kind, [], made, [tensor("c", 2.0)])

    condition = tensor("yes", True, bool)
    nodes = [node("If", "yes", then_branch=branch("Mul"), else_branch=branch("Add"))]
    assert [n.op for n in agree(tmp_path, build(nodes, [condition])).nodes] == ["mul"]


def test_all_unknown_operations_are_named_together(tmp_path):
    nodes = [node("Hardmax", "x", "h"), node("Relu", "h", "r"), node("Det", "x", "d"),
             node("Add", "r d")]  # fmt: skip
    with pytest.raises(SkinnyError, match=r"cannot express Hardmax \(node 'h'\); Det \(node 'd'\)"):
        onnx_import.read(write(tmp_path, build(nodes)))


def external(location, offset="0", length="16", shape=(4,)):
    proto = TensorProto(name="w", data_type=FLOAT, dims=shape)
    proto.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        proto.external_data.add(key=key, value=value)
    return build([node("Add", "x w")], [proto], shape=(1, 4))


def test_external_data_beside_the_model_is_read(tmp_path):
    np.arange(6, dtype=np.float32).tofile(tmp_path / "weights.bin")
    graph, tensors = onnx_import.read(write(tmp_path, external("weights.bin", offset="8")))
    np.testing.assert_array_equal(tensors["w"], [2, 3, 4, 5])
    assert [n.op for n in graph.nodes] == ["constant", "add"]


HOSTILE_DATA = {
    "a folder above": ("../secret.bin", "0", "16", (4,)),
    "an absolute path": ("/etc/hostname", "0", "16", (4,)),
    "a link outside": ("link.bin", "0", "16", (4,)),
    "a folder": (".", "0", "16", (4,)),
    "no file": ("nothing.bin", "0", "16", (4,)),
    "a zero byte": ("a\0b", "0", "16", (4,)),
    "too long": ("weights.bin", "0", str(2**40), (2**38,)),
    "longer than the file": ("weights.bin", "16", "16", (4,)),
    "a negative offset": ("weights.bin", "-4", "16", (4,)),
    "another length": ("weights.bin", "0", "8", (4,)),
    "no number": ("weights.bin", "x", "16", (4,)),
    "negative sides": ("weights.bin", "0", "16", (-2, -2)),
    "very many sides": ("weights.bin", "0", "16", (2**62, 2**62)),
}


@pytest.mark.parametrize("name", HOSTILE_DATA)
def test_external_data_stays_in_the_folder(name, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    for place in (tmp_path / "secret.bin", home / "weights.bin"):
        np.arange(4, dtype=np.float32).tofile(place)
    os.symlink(tmp_path / "secret.bin", home / "link.bin")
    with pytest.raises(SkinnyError, match="the tensor 'w'"):
        onnx_import.read(write(home, external(*HOSTILE_DATA[name])))


GOOD = build([node("Conv", "x w", "c"), node("Relu", "c")], [W])


def changed(change):
    model = onnx.load_from_string(GOOD)
    change(model)
    return model.SerializeToString()


def _set(path, value):
    def change(model):
        target = model
        *parents, last = path
        for step in parents:
            target = target[step] if isinstance(step, int) else getattr(target, step)
        setattr(target, last, value)

    return change


HOSTILE_FILES = {
    "empty": b"",
    "no ONNX": b"not an ONNX file" * 9,
    "cut off": GOOD[: len(GOOD) // 2],
    "old operators": changed(_set(("opset_import", 0, "version"), 9)),
    "future operators": changed(_set(("opset_import", 0, "version"), 99)),
    "foreign operators": changed(_set(("graph", "node", 0, "domain"), "com.example")),
    "an unknown tensor type": changed(_set(("graph", "initializer", 0, "data_type"), 200)),
    "a tensor too short": changed(_set(("graph", "initializer", 0, "raw_data"), b"1234")),
    "a sequence for an input": changed(lambda m: m.graph.input[0].type.Clear()),
    "an input without axes": changed(
        lambda m: m.graph.input[0].type.tensor_type.ClearField("shape")),
    "an output nobody computes": changed(_set(("graph", "output", 0, "name"), "z")),
    "a value twice": changed(lambda m: m.graph.node[1].output.__setitem__(0, "c")),
    "a cycle": changed(lambda m: m.graph.node[0].input.__setitem__(0, "y")),
    "no outputs": changed(lambda m: m.graph.ClearField("output")),
    "a node without inputs": changed(lambda m: m.graph.node[0].ClearField("input")),
    "a node without outputs": changed(lambda m: m.graph.node[0].ClearField("output")),
    "a kernel in words": build([helper.make_node("MaxPool", ["x"], ["y"], kernel_shape="abc")]),
    "pads of too few": build([node("Conv", "x w", pads=[1])], [W]),
    "strides of nothing": build([node("Conv", "x w", strides=[0])], [W]),
    "a huge constant": build([node("ConstantOfShape", "s", "c"), node("Add", "x c")],
                             [ints("s", 2**40, 2**40)]),
    "a negative shape": build([node("Reshape", "x s")], [ints("s", -5, -1)]),
    "an axis too far": build([node("Softmax", "x", axis=77)]),
    "an index outside": build([node("Gather", "x i", axis=1)], [ints("i", 99)]),
    "text": build([helper.make_node("Constant", [], ["y"], value_string=b"x")]),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE_FILES)
def test_a_damaged_or_hostile_file_is_one_clear_error(name, tmp_path):
    with pytest.raises(SkinnyError) as caught:
        graph, tensors = onnx_import.read(write(tmp_path, HOSTILE_FILES[name]))
        running.run(graph, {"x": np.zeros((2, 3, 8), np.float32)}, tensors)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(SkinnyError, match="cannot read"):
        onnx_import.read(tmp_path / "nothing.onnx")
