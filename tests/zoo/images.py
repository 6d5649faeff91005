"""Networks that classify images, written as people write them. Widths and depths are arguments."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def conv_norm(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1,
              activation: type[nn.Module] | None = nn.ReLU) -> nn.Sequential:  # fmt: skip
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([] if activation is None else [activation()]))


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int, inner: int, activation: type[nn.Module] = nn.ReLU,
                 gate: type[nn.Module] = nn.Sigmoid) -> None:  # fmt: skip
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(channels, inner, 1), nn.Conv2d(inner, channels, 1)
        self.activation, self.gate = activation(), gate()

    def forward(self, x: Tensor) -> Tensor:
        scale = F.adaptive_avg_pool2d(x, 1)
        return x * self.gate(self.expand(self.activation(self.reduce(scale))))


class Classifier(nn.Module):
    """Features, global average pooling, one linear layer."""

    def __init__(self, features: nn.Module, channels: int, classes: int) -> None:
        super().__init__()
        self.features, self.head = features, nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.adaptive_avg_pool2d(self.features(x), 1).flatten(1))


class InvertedResidual(nn.Module):
    """The block of MobileNet and EfficientNet: expand, depthwise, optional gate, project."""

    def __init__(self, inputs: int, outputs: int, expand: int, kernel: int, stride: int,
                 activation: type[nn.Module], gate: nn.Module | None = None) -> None:  # fmt: skip
        super().__init__()
        inner = inputs * expand
        wide = [] if expand == 1 else [conv_norm(inputs, inner, 1, activation=activation)]
        self.block = nn.Sequential(
            *wide,
            conv_norm(inner, inner, kernel, stride, inner, activation),
            *([] if gate is None else [gate]),
            conv_norm(inner, outputs, 1, activation=None),
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.block(x) if self.residual else self.block(x)


def mobilenet_v2(width: float = 1.0, depth: float = 1.0, stages: int = 7, classes: int = 1000
                 ) -> nn.Module:  # fmt: skip
    settings = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                (6, 160, 3, 2), (6, 320, 1, 1)]  # fmt: skip
    channels = int(32 * width)
    layers: list[nn.Module] = [conv_norm(3, channels, 3, 2, activation=nn.ReLU6)]
    for expand, outputs, repeats, stride in settings[:stages]:
        for at in range(max(1, int(repeats * depth))):
            wanted = int(outputs * width)
            layers.append(InvertedResidual(channels, wanted, expand, 3, stride if at == 0 else 1,
                                           nn.ReLU6))  # fmt: skip
            channels = wanted
    last = int(1280 * width)
    layers.append(conv_norm(channels, last, 1, activation=nn.ReLU6))
    return Classifier(nn.Sequential(*layers), last, classes)


def mobilenet_v3(width: float = 1.0, blocks: int = 7, classes: int = 1000) -> nn.Module:
    """The small one: hard-swish, hard-sigmoid gates."""
    settings = [(1, 16, 3, 2, True, False), (4, 24, 3, 2, False, False), (4, 40, 5, 2, True, True),
                (6, 40, 5, 1, True, True), (3, 48, 5, 1, True, True), (6, 96, 5, 2, True, True),
                (6, 96, 5, 1, True, True)]  # fmt: skip
    channels = int(16 * width)
    layers: list[nn.Module] = [conv_norm(3, channels, 3, 2, activation=nn.Hardswish)]
    for expand, outputs, kernel, stride, gated, hard in settings[:blocks]:
        wide, wanted = channels * expand, int(outputs * width)
        gate = SqueezeExcite(wide, max(2, wide // 4), gate=nn.Hardsigmoid) if gated else None
        activation = nn.Hardswish if hard else nn.ReLU
        layers.append(InvertedResidual(channels, wanted, expand, kernel, stride, activation, gate))
        channels = wanted
    last = int(576 * width)
    layers.append(conv_norm(channels, last, 1, activation=nn.Hardswish))
    return Classifier(nn.Sequential(*layers), last, classes)


def efficientnet(width: float = 1.0, depth: float = 1.0, stages: int = 7, classes: int = 1000
                 ) -> nn.Module:  # fmt: skip
    """EfficientNet-B0: SiLU and squeeze-and-excitation."""
    settings = [(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
                (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)]  # fmt: skip
    channels = int(32 * width)
    layers: list[nn.Module] = [conv_norm(3, channels, 3, 2, activation=nn.SiLU)]
    for expand, outputs, repeats, stride, kernel in settings[:stages]:
        for at in range(max(1, int(repeats * depth))):
            wanted = int(outputs * width)
            gate = SqueezeExcite(channels * expand, max(1, channels // 4), nn.SiLU)
            layers.append(InvertedResidual(channels, wanted, expand, kernel,
                                           stride if at == 0 else 1, nn.SiLU, gate))  # fmt: skip
            channels = wanted
    last = int(1280 * width)
    layers.append(conv_norm(channels, last, 1, activation=nn.SiLU))
    return Classifier(nn.Sequential(*layers), last, classes)


class DenseLayer(nn.Module):
    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = (
            nn.BatchNorm2d(inputs),
            nn.Conv2d(inputs, 4 * growth, 1, bias=False),
        )
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv2(F.relu(self.norm2(self.conv1(F.relu(self.norm1(x))))))
        return torch.cat([x, y], 1)


def densenet(growth: int = 12, layers: int = 16, classes: int = 10) -> nn.Module:
    """DenseNet-BC for small images: three blocks, halved between."""
    channels = 2 * growth
    parts: list[nn.Module] = [nn.Conv2d(3, channels, 3, padding=1, bias=False)]
    for block in range(3):
        for _ in range(layers):
            parts.append(DenseLayer(channels, growth))
            channels += growth
        if block < 2:
            halved = nn.Conv2d(channels, channels // 2, 1, bias=False)
            parts += [nn.BatchNorm2d(channels), nn.ReLU(), halved, nn.AvgPool2d(2)]
            channels //= 2
    parts += [nn.BatchNorm2d(channels), nn.ReLU()]
    return Classifier(nn.Sequential(*parts), channels, classes)


class Fire(nn.Module):
    def __init__(self, inputs: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeeze, 1)
        self.expand1 = nn.Conv2d(squeeze, expand, 1)
        self.expand3 = nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.expand1(x)), F.relu(self.expand3(x))], 1)


def squeezenet(width: float = 1.0, classes: int = 1000) -> nn.Module:
    """SqueezeNet 1.1: no fully connected layer, pools that round up."""

    def w(channels: int) -> int:
        return max(2, int(channels * width))

    def fire(inputs: int, squeeze: int, expand: int) -> Fire:
        return Fire(2 * w(inputs // 2), w(squeeze), w(expand))

    def pool() -> nn.Module:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    return nn.Sequential(
        nn.Conv2d(3, 2 * w(32), 3, 2), nn.ReLU(), pool(),
        fire(64, 16, 64), fire(128, 16, 64), pool(),
        fire(128, 32, 128), fire(256, 32, 128), pool(),
        fire(256, 48, 192), fire(384, 48, 192), fire(384, 64, 256), fire(512, 64, 256),
        nn.Dropout(), nn.Conv2d(2 * w(256), classes, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip


class InceptionBlock(nn.Module):
    """Four branches, concatenated; one of them has 1x7 and 7x1 kernels, one pools."""

    def __init__(self, inputs: int, branch: int) -> None:
        super().__init__()
        self.one = conv_norm(inputs, branch, 1)
        self.three = nn.Sequential(conv_norm(inputs, branch, 1), conv_norm(branch, branch, 3))
        self.seven = nn.Sequential(
            conv_norm(inputs, branch, 1),
            nn.Conv2d(branch, branch, (1, 7), padding=(0, 3)),
            nn.Conv2d(branch, branch, (7, 1), padding=(3, 0)),
            nn.ReLU(),
        )
        self.pooled = conv_norm(inputs, branch, 1)

    def forward(self, x: Tensor) -> Tensor:
        pooled = self.pooled(F.avg_pool2d(x, 3, 1, 1, count_include_pad=False))
        return torch.cat([self.one(x), self.three(x), self.seven(x), pooled], 1)


def inception(width: int = 64, classes: int = 1000) -> nn.Module:
    return Classifier(
        nn.Sequential(
            conv_norm(3, width, 3, 2),
            InceptionBlock(width, width),
            nn.MaxPool2d(3, 2),
            InceptionBlock(4 * width, width),
            nn.MaxPool2d(3, 2),
            InceptionBlock(4 * width, width),
        ),
        4 * width,
        classes,
    )


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, outputs: int, inner: int, stride: int, groups: int = 1,
                 gate: nn.Module | None = None) -> None:  # fmt: skip
        super().__init__()
        self.block = nn.Sequential(
            conv_norm(inputs, inner, 1),
            conv_norm(inner, inner, 3, stride, groups),
            *([] if gate is None else [gate]),
            conv_norm(inner, outputs, 1, activation=None),
        )
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else conv_norm(inputs, outputs, 1, stride,
                                                             activation=None)  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.block(x) + self.shortcut(x))


def resnet(
    width: int = 64, blocks: tuple[int, ...] = (3, 4, 6, 3), classes: int = 1000
) -> nn.Module:
    """ResNet-50."""
    layers: list[nn.Module] = [conv_norm(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = width
    for stage, repeats in enumerate(blocks):
        inner = width * 2**stage
        for at in range(repeats):
            stride = 2 if stage > 0 and at == 0 else 1
            layers.append(Bottleneck(channels, 4 * inner, inner, stride))
            channels = 4 * inner
    return Classifier(nn.Sequential(*layers), channels, classes)


def regnet(widths: tuple[int, ...] = (48, 104, 208, 440), group: int = 8,
           blocks: tuple[int, ...] = (1, 3, 6, 6), classes: int = 1000) -> nn.Module:  # fmt: skip
    """RegNetY-400MF: grouped convolutions with squeeze-and-excitation."""
    layers: list[nn.Module] = [conv_norm(3, 4 * group, 3, 2)]
    channels = 4 * group
    for width, repeats in zip(widths, blocks, strict=True):
        for at in range(repeats):
            gate = SqueezeExcite(width, max(1, channels // 4))
            layers.append(Bottleneck(channels, width, width, 2 if at == 0 else 1, width // group,
                                     gate))  # fmt: skip
            channels = width
    return Classifier(nn.Sequential(*layers), channels, classes)


class ShuffleUnit(nn.Module):
    """Half of the channels pass, the others are convolved, then the halves are interleaved."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.branch = nn.Sequential(
            conv_norm(half, half, 1),
            conv_norm(half, half, 3, groups=half, activation=None),
            conv_norm(half, half, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        kept, changed = x.chunk(2, 1)
        return F.channel_shuffle(torch.cat([kept, self.branch(changed)], 1), 2)


def shufflenet(width: int = 116, units: int = 4, classes: int = 1000) -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, width, 3, 2), nn.MaxPool2d(3, 2, 1)]
    for stage in range(2):
        layers += [ShuffleUnit(width * 2**stage) for _ in range(units)]
        layers.append(conv_norm(width * 2**stage, width * 2 ** (stage + 1), 3, 2))
    return Classifier(nn.Sequential(*layers), 4 * width, classes)


def vgg(width: int = 64, classes: int = 1000, side: int = 7) -> nn.Module:
    layers: list[nn.Module] = []
    channels = 3
    for stage, repeats in enumerate((1, 1, 2, 2, 2)):
        for _ in range(repeats):
            wanted = width * min(8, 2**stage)
            layers += [nn.Conv2d(channels, wanted, 3, padding=1), nn.ReLU(True)]
            channels = wanted
        layers.append(nn.MaxPool2d(2))
    hidden = 64 * width
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(side), nn.Flatten(),
        nn.Linear(channels * side * side, hidden), nn.ReLU(True), nn.Dropout(),
        nn.Linear(hidden, hidden), nn.ReLU(True), nn.Dropout(), nn.Linear(hidden, classes),
    )  # fmt: skip


class GroupNormBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, channels), nn.GroupNorm(4, channels)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(F.mish(self.norm1(x)))
        return x + self.conv2(F.mish(self.norm2(y)))


def group_norm_resnet(width: int = 64, blocks: int = 4, classes: int = 10) -> nn.Module:
    parts = [GroupNormBlock(width) for _ in range(blocks)]
    return Classifier(nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), *parts), width, classes)


class MixerBlock(nn.Module):
    """A perceptron over the patches, one over the channels."""

    def __init__(self, patches: int, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(patches, width // 2), nn.GELU(),
                                    nn.Linear(width // 2, patches))  # fmt: skip
        self.channels = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                      nn.Linear(4 * width, width))  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, width: int = 256, depth: int = 8, patch: int = 16, side: int = 224,
                 classes: int = 1000) -> None:  # fmt: skip
        super().__init__()
        self.stem = nn.Conv2d(3, width, patch, patch)
        self.blocks = nn.Sequential(
            *(MixerBlock((side // patch) ** 2, width) for _ in range(depth))
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.stem(x).flatten(2).transpose(1, 2))
        return self.head(self.norm(x).mean(1))
