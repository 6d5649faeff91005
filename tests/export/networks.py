"""Networks in the styles the graph must cover, small enough to run in a test."""

import torch
import torch.nn.functional as F
from torch import nn


def vgg():
    def block(inputs, outputs):
        return [
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        ]

    return nn.Sequential(
        *block(3, 8),
        *block(8, 8),
        nn.MaxPool2d(2),
        *block(8, 16),
        nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d((4, 4)),
        nn.Flatten(),
        nn.Linear(256, 32),
        nn.ReLU(True),
        nn.Dropout(),
        nn.Linear(32, 10),
    )


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8))
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.layers = nn.Sequential(Residual(8, 8, 1), Residual(8, 16, 2), Residual(16, 16, 1))
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        x = self.pool(F.relu(self.stem(x)))
        x = F.adaptive_avg_pool2d(self.layers(x), 1)
        return self.fc(torch.flatten(x, 1))


class PreActivation(nn.Module):
    """Batch norms with nothing before them to fold into, a dense-net concatenation, a mean."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding="same")
        self.bn = nn.BatchNorm2d(8, affine=False)
        self.conv = nn.Conv2d(8, 4, 3, padding="same", dilation=2)
        self.out = nn.Conv2d(12, 10, 1, groups=2)

    def forward(self, x):
        x = self.stem(x)
        x = torch.cat([x, self.conv(F.silu(self.bn(x)))], dim=1)
        return F.log_softmax(self.out(x).mean((2, 3)), dim=-1)


class Activations(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.inner = nn.ModuleList(
            [
                nn.ReLU6(),
                nn.LeakyReLU(0.2),
                nn.ELU(0.7),
                nn.Sigmoid(),
                nn.Tanh(),
                nn.SiLU(),
                nn.GELU(),
                nn.GELU(approximate="tanh"),
                nn.Hardswish(),
                nn.Hardsigmoid(),
                nn.Hardtanh(-0.4, 0.6),
            ]
        )

    def forward(self, x):
        x = self.conv(x)
        parts = [layer(x * 1 if layer is None else x) for layer in self.inner]
        return torch.cat([*parts, x.clamp(-1, 1)], 1).softmax(1)


class Pools(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.ModuleList(
            [
                nn.MaxPool2d(3, 2, 1, ceil_mode=True),
                nn.MaxPool2d(2, 2, dilation=2, ceil_mode=True),
                nn.MaxPool2d((3, 2), (2, 1)),
                nn.AvgPool2d(3, 2, ceil_mode=True),
                nn.AvgPool2d(3, 2, 1, count_include_pad=False),
                nn.AvgPool2d(3, 2, 1, ceil_mode=True),
                nn.AvgPool2d(2, divisor_override=3),
                nn.AdaptiveAvgPool2d((3, 5)),
                nn.LocalResponseNorm(3, alpha=0.1, beta=0.5, k=2.0),
            ]
        )

    def forward(self, x):
        return tuple(layer(x) for layer in self.inner)


class Shapes(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 4)

    def forward(self, x):
        x = F.dropout(x, 0.5, self.training)
        y = x.view(x.size(0), -1, 16)
        y = self.fc(y).unsqueeze(1).squeeze(1)
        return y.reshape(y.shape[0], 4, -1) + y.flatten(1).view(-1, 4, y.shape[1])
