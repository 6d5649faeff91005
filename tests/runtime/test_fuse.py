import math

from runtime_builder import Builder
from runtime_cases import CASES

from skinny._native import ActivationKind
from skinny.runtime.fuse import add_residuals, fuse
from skinny.runtime.plan import split_tail
from skinny.runtime.shapes import infer


def layers_of(builder, *outputs):
    return fuse(builder.graph(*outputs))


def test_an_activation_joins_the_layer_before_it():
    builder = Builder(2, 4, 4)
    builder.conv(2, 3)
    builder.add("relu")
    (layer,) = layers_of(builder)
    assert layer.op == "conv"
    assert layer.activations[0].kind == ActivationKind.clamp
    assert layer.output == builder.last


def test_an_activation_joins_a_batch_norm_that_no_convolution_took():
    builder = Builder(2, 4, 4)
    builder.batch_norm(2)
    builder.add("silu")
    builder.conv(2, 3)
    assert [layer.op for layer in layers_of(builder)] == ["batch_norm", "conv"]


def test_a_value_with_a_second_reader_is_not_fused_away():
    builder = Builder(2, 4, 4)
    before = builder.conv(2, 3)
    after = builder.add("relu")
    builder.add("add", before, after)
    assert [layer.op for layer in layers_of(builder)] == ["conv", "activate", "add"]


def test_a_value_that_is_an_output_is_not_fused_away():
    builder = Builder(2, 4, 4)
    before = builder.conv(2, 3)
    after = builder.add("relu")
    assert [layer.op for layer in layers_of(builder, before, after)] == ["conv", "activate"]


def test_only_one_activation_joins():
    builder = Builder(2, 4, 4)
    builder.conv(2, 3)
    builder.add("relu")
    builder.add("tanh")
    assert [layer.op for layer in layers_of(builder)] == ["conv", "activate"]


def test_a_convolution_takes_the_sum_after_it_and_its_clamping():
    builder = Builder(2, 4, 4)
    first = builder.conv(2, 3)
    builder.conv(3, 3)
    builder.add("add", first, builder.last)
    builder.add("relu")
    made = add_residuals(layers_of(builder), [builder.last], lambda conv, add: True)
    assert [(layer.op, layer.residual, layer.bounds[0]) for layer in made] == [
        ("conv", None, -math.inf), ("conv", first, 0.0)]  # fmt: skip
    assert made[-1].output == builder.last


def test_a_sum_waits_for_an_operand_that_is_made_later():
    builder = Builder(2, 4, 4)
    first = builder.conv(2, 3)
    builder.conv(3, 3)
    later = builder.add("tanh")
    builder.add("sigmoid")
    builder.add("add", first, later)
    made = add_residuals(layers_of(builder), [builder.last], lambda conv, add: True)
    assert [layer.op for layer in made] == ["conv", "conv", "activate", "add"]


def tail_of(builder):
    shapes = infer(builder.graph(), lambda name: builder.tensors[name].shape)
    layers = layers_of(builder)
    first, boundary = split_tail(layers, builder.last, shapes)
    return [layer.op for layer in layers[first:]], boundary


def test_the_tail_is_the_linear_layers_at_the_end():
    ops, _ = tail_of(CASES["alexnet"]())
    assert ops == ["linear", "linear", "linear", "softmax"]


def test_a_network_of_linear_layers_is_all_tail():
    assert tail_of(CASES["only_linear"]()) == (
        ["linear", "batch_norm", "linear", "linear"],
        "x",
    )


def test_a_network_without_linear_layers_has_no_tail():
    ops, boundary = tail_of(CASES["nin"]())
    assert ops == []
    assert boundary == CASES["nin"]().last


def test_two_values_do_not_enter_the_tail():
    builder = Builder(6)
    first = builder.linear(6, 5)
    builder.linear(5, 5)
    builder.add("add", first, builder.last)
    assert tail_of(builder) == (["linear", "linear", "add"], "x")
