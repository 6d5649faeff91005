"""Networks whose outputs are images or maps: segmentation, generation, detection."""

import torch
import torch.nn.functional as F
from tests.zoo.images import conv_norm
from torch import Tensor, nn


class UNet(nn.Module):
    def __init__(self, width: int = 32, depth: int = 4, classes: int = 2) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(depth)]
        self.down = nn.ModuleList(
            conv_norm(before, after, 3)
            for before, after in zip([3, *widths[:-1]], widths, strict=True)
        )
        self.bottom = conv_norm(widths[-1], 2 * widths[-1], 3)
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths))
        self.merge = nn.ModuleList(conv_norm(2 * w, w, 3) for w in reversed(widths))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottom(x)
        for up, merge, skip in zip(self.up, self.merge, reversed(skips), strict=True):
            x = merge(torch.cat([up(x), skip], 1))
        return self.head(x)


class Autoencoder(nn.Module):
    """Strided convolutions down, transposed ones up; returns picture and code."""

    def __init__(self, width: int = 32, code: int = 64, side: int = 32) -> None:
        super().__init__()
        self.small = side // 4
        self.encode = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1), nn.LeakyReLU(0.1), nn.Conv2d(width, 2 * width, 3, 2, 1),
            nn.LeakyReLU(0.1), nn.Flatten(), nn.Linear(2 * width * self.small**2, code),
        )  # fmt: skip
        self.expand = nn.Linear(code, 2 * width * self.small**2)
        self.decode = nn.Sequential(
            nn.ConvTranspose2d(2 * width, width, 3, 2, 1, output_padding=1), nn.ELU(),
            nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        code = self.encode(x)
        y = self.expand(code).view(x.shape[0], -1, self.small, self.small)
        return {"picture": self.decode(y), "code": code}


def super_resolution(width: int = 64, scale: int = 3) -> nn.Module:
    """ESPCN: all convolutions at the low resolution, then pixel shuffle."""
    return nn.Sequential(
        nn.Conv2d(3, width, 5, padding=2), nn.PReLU(width),
        nn.Conv2d(width, width // 2, 3, padding=1), nn.PReLU(),
        nn.Conv2d(width // 2, 3 * scale**2, 3, padding=1), nn.PixelShuffle(scale),
    )  # fmt: skip


class Atrous(nn.Module):
    """DeepLab's head: dilated convolutions beside an image's mean, upsampled to the input."""

    def __init__(self, width: int = 64, classes: int = 21) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv_norm(3, width, 3, 2), conv_norm(width, width, 3, 2))
        self.branches = nn.ModuleList(
            nn.Conv2d(width, width, 3, padding=rate, dilation=rate) for rate in (1, 2, 4)
        )
        self.mean = nn.Conv2d(width, width, 1)
        self.head = nn.Conv2d(4 * width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        mean = self.mean(F.adaptive_avg_pool2d(y, 1))
        parts = [F.relu(branch(y)) for branch in self.branches]
        parts.append(F.interpolate(mean, y.shape[2:], mode="bilinear", align_corners=False))
        y = self.head(torch.cat(parts, 1))
        return F.interpolate(y, x.shape[2:], mode="bilinear", align_corners=False)


class StyleTransfer(nn.Module):
    """Reflection padding, instance norms, nearest upsampling."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()

        def layer(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
            return nn.Sequential(
                nn.ReflectionPad2d(kernel // 2),
                nn.Conv2d(inputs, outputs, kernel, stride),
                nn.InstanceNorm2d(outputs, affine=True),
                nn.ReLU(),
            )

        self.down = nn.Sequential(layer(3, width, 9), layer(width, 2 * width, 3, 2))
        self.block = layer(2 * width, 2 * width, 3)
        self.up = nn.Sequential(nn.Upsample(scale_factor=2), layer(2 * width, width, 3))
        self.out = nn.Conv2d(width, 3, 9, padding=4, padding_mode="replicate")

    def forward(self, x: Tensor) -> Tensor:
        x = self.down(x)
        return self.out(self.up(x + self.block(x)))


def generator(width: int = 64, code: int = 100) -> nn.Module:
    """DCGAN: noise to picture."""

    def up(inputs: int, outputs: int) -> list[nn.Module]:
        return [nn.ConvTranspose2d(inputs, outputs, 4, 2, 1, bias=False), nn.BatchNorm2d(outputs),
                nn.ReLU(True)]  # fmt: skip

    return nn.Sequential(
        nn.Unflatten(1, (code, 1, 1)), nn.ConvTranspose2d(code, 4 * width, 4, bias=False),
        nn.BatchNorm2d(4 * width), nn.ReLU(True), *up(4 * width, 2 * width), *up(2 * width, width),
        nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh(),
    )  # fmt: skip


class Detector(nn.Module):
    """A single-shot detector of the YOLO kind: two scales, boxes decoded from a grid."""

    def __init__(self, width: int = 32, classes: int = 4, anchors: int = 3) -> None:
        super().__init__()
        self.anchors = anchors
        silu = nn.SiLU
        self.stem = nn.Sequential(conv_norm(3, width, 3, 2, activation=silu),
                                  conv_norm(width, width, 3, 2, activation=silu))  # fmt: skip
        self.deep = conv_norm(width, 2 * width, 3, 2, activation=silu)
        self.merge = conv_norm(3 * width, width, 1, activation=silu)
        self.pools = nn.MaxPool2d(5, 1, 2)
        self.heads = nn.ModuleList(
            nn.Conv2d(channels, anchors * (5 + classes), 1) for channels in (width, 2 * width)
        )
        self.register_buffer("sizes", torch.tensor([[1.0, 2.0], [3.0, 3.0], [5.0, 4.0]]))

    def forward(self, x: Tensor) -> Tensor:
        shallow = self.stem(x)
        deep = self.deep(shallow)
        deep = deep + self.pools(deep)
        shallow = self.merge(torch.cat([shallow, F.interpolate(deep, scale_factor=2)], 1))
        found = [self._boxes(head(y)) for head, y in zip(self.heads, (shallow, deep), strict=True)]
        return torch.cat(found, 1)

    def _boxes(self, y: Tensor) -> Tensor:
        batch, _, height, width = y.shape
        y = y.view(batch, self.anchors, -1, height, width).permute(0, 1, 3, 4, 2)
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        grid = torch.stack([columns, rows], -1)
        place, size, scores = y.sigmoid().split([2, 2, y.shape[-1] - 4], -1)
        place = (2 * place - 0.5 + grid) / width
        size = (2 * size) ** 2 * self.sizes[:, None, None]
        return torch.cat([place, size, scores], -1).flatten(1, 3)


def video(width: int = 32, classes: int = 10) -> nn.Module:
    """Three-dimensional convolutions over frames [batch, 3, frames, height, width]."""
    return nn.Sequential(
        nn.Conv3d(3, width, 3, (1, 2, 2), 1, bias=False), nn.BatchNorm3d(width), nn.ReLU(),
        nn.MaxPool3d((1, 2, 2)),
        nn.Conv3d(width, 2 * width, (1, 3, 3), padding=(0, 1, 1), bias=False),
        nn.BatchNorm3d(2 * width), nn.ReLU(),
        nn.Conv3d(2 * width, 2 * width, (3, 1, 1), padding=(1, 0, 0)), nn.ReLU(),
        nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(2 * width, classes),
    )  # fmt: skip
