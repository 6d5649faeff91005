"""All networks of the zoo."""

import torch
from tests.zoo import images, pictures, sequences
from tests.zoo.hugging import HUGGING
from tests.zoo.network import Inputs, Network, noise


def _images(batch: int, side: int) -> Inputs:
    return {"x": noise(batch, 3, side, side)}


def _input_images(batch: int, side: int) -> Inputs:
    """For nn.Sequential, which calls its argument so."""
    return {"input": noise(batch, 3, side, side)}


def _input_vectors(batch: int, size: int) -> Inputs:
    return {"input": torch.randn(batch, size)}


def _input_sound(batch: int, length: int) -> Inputs:
    return {"input": noise(batch, 1, length)}


def _sound(batch: int, length: int) -> Inputs:
    return {"x": noise(batch, 1, length)}


def _words(batch: int, length: int) -> Inputs:
    """The second half of the last sample is padding."""
    words = torch.randint(1, 50, (batch, length))
    words[-1, length // 2 :] = 0
    return {"words": words}


def _two_texts(batch: int, length: int) -> Inputs:
    return {name: torch.randint(0, 50, (batch, size))
            for name, size in (("source", length), ("target", length - 1))}  # fmt: skip


def _table(batch: int, numbers: int) -> Inputs:
    return {"categories": torch.randint(0, 7, (batch, 3)), "numbers": torch.randn(batch, numbers)}


def _items(batch: int, size: int) -> Inputs:
    return {"numbers": torch.randn(batch, 13), "items": torch.randint(0, 50, (batch, 3, size))}


def _series(batch: int, length: int) -> Inputs:
    return {"series": torch.randn(batch, length, 5)}


def _line_of_text(batch: int, width: int) -> Inputs:
    return {"x": noise(batch, 1, 16, width)}


def _vectors(batch: int, size: int) -> Inputs:
    return {"query": torch.randn(batch, 3, size), "memory": torch.randn(batch, 5, size)}


def _points(batch: int, count: int) -> Inputs:
    return {"points": noise(batch, count, 3)}


def _graph(batch: int, nodes: int) -> Inputs:
    edges = (torch.rand(batch, nodes, nodes) < 0.4).float()
    return {"nodes": torch.randn(batch, nodes, 16), "adjacency": edges}


def _video(batch: int, side: int) -> Inputs:
    return {"input": noise(batch, 3, 4, side, side)}


SIDES = {2: "height", 3: "width"}
TEN = {"classes": 10}

PLAIN = [
    Network("mobilenet_v2", images.mobilenet_v2, _images, (32, 224),
            {"width": 0.25, "depth": 0.7, "stages": 3, **TEN}),
    Network("mobilenet_v3", images.mobilenet_v3, _images, (32, 224),
            {"width": 0.5, "blocks": 4, **TEN}),
    Network("efficientnet", images.efficientnet, _images, (32, 224),
            {"width": 0.25, "stages": 3, **TEN}),
    Network("densenet", images.densenet, _images, (16, 32), {"growth": 4, "layers": 2}),
    Network("squeezenet", images.squeezenet, _input_images, (48, 224), {"width": 0.25, **TEN}),
    Network("inception", images.inception, _images, (32, 224), {"width": 8, **TEN}),
    Network("resnet", images.resnet, _images, (32, 224), {"width": 8, "blocks": (1, 1), **TEN},
            dynamic={"x": SIDES}, other=40),
    Network("regnet", images.regnet, _images, (32, 224),
            {"widths": (8, 16), "group": 4, "blocks": (1, 2), **TEN}),
    Network("shufflenet", images.shufflenet, _images, (32, 224), {"width": 8, "units": 1, **TEN}),
    Network("vgg", images.vgg, _input_images, (32, 224), {"width": 4, "side": 2, **TEN},
            {"width": 16}),
    Network("group_norm_resnet", images.group_norm_resnet, _images, (16, 32),
            {"width": 8, "blocks": 2}),
    Network("mixer", images.Mixer, _images, (32, 224),
            {"width": 16, "depth": 2, "patch": 8, "side": 32, **TEN}),
    Network("unet", pictures.UNet, _images, (16, 128), {"width": 8, "depth": 2},
            dynamic={"x": SIDES}, other=24),
    Network("autoencoder", pictures.Autoencoder, _images, (16, 32),
            {"width": 8, "code": 8, "side": 16}),
    Network("super_resolution", pictures.super_resolution, _input_images, (9, 64), {"width": 8},
            dynamic={"input": SIDES}, other=12),
    Network("deeplab", pictures.Atrous, _images, (24, 128), {"width": 8, "classes": 3},
            dynamic={"x": SIDES}, other=32),
    Network("style_transfer", pictures.StyleTransfer, _images, (16, 128), {"width": 4}),
    Network("dcgan", pictures.generator, _input_vectors, (6, 100), {"width": 4, "code": 6}),
    Network("detector", pictures.Detector, _images, (32, 320), {"width": 8}),
    Network("video", pictures.video, _video, (16, 64), {"width": 4}),
    Network("mlp", sequences.mlp, _input_vectors, (30, 784), {"width": 32, "inputs": 30}),
    Network("tabular", sequences.Tabular, _table, (10, 10), {"width": 32}),
    Network("dlrm", sequences.Recommender, _items, (4, 20), {"width": 8, "items": 50}),
    Network("audio", sequences.audio, _input_sound, (2000, 16000), {"width": 8}),
    Network("wavenet", sequences.Temporal, _sound, (40, 2000), {"width": 8, "layers": 3},
            dynamic={"x": {2: "length"}}, other=50),
    Network("lstm", sequences.Recurrent, _words, (6, 64), {"width": 8, "words": 50},
            dynamic={"words": {1: "length"}}, other=9),
    Network("gru", sequences.Forecast, _series, (6, 96), {"width": 8}),
    Network("crnn", sequences.Reader, _line_of_text, (24, 128), {"width": 8}),
    Network("encoder", sequences.Encoder, _words, (6, 64),
            {"width": 16, "layers": 1, "words": 50}, dynamic={"words": {1: "length"}}, other=9),
    Network("translator", sequences.Translator, _two_texts, (6, 32),
            {"width": 16, "layers": 1, "words": 50}),
    Network("attention", sequences.Attention, _vectors, (16, 256), {"width": 16, "heads": 2}),
    Network("pointnet", sequences.PointNet, _points, (20, 1024), {"width": 8},
            dynamic={"points": {1: "count"}}, other=31),
    Network("gcn", sequences.GraphNet, _graph, (7, 100), {"width": 8}),
    Network("nerf", sequences.Field, _points, (5, 1024), {"width": 16}),
]  # fmt: skip

ZOO = {network.name: network for network in [*PLAIN, *HUGGING]}
