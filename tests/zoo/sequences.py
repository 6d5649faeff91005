"""Networks over sequences, sets, tables and sound, in plain torch."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm


def mlp(width: int = 1024, inputs: int = 784, classes: int = 10) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                         nn.Linear(width, classes))  # fmt: skip


class Tabular(nn.Module):
    """Categories through embeddings, numbers through batch norm, both through an MLP."""

    def __init__(self, width: int = 128, categories: tuple[int, ...] = (7, 12, 31),
                 numbers: int = 10) -> None:  # fmt: skip
        super().__init__()
        self.embed = nn.ModuleList(nn.Embedding(count, 8) for count in categories)
        self.norm = nn.BatchNorm1d(numbers)
        self.layers = nn.Sequential(
            nn.Linear(8 * len(categories) + numbers, width), nn.SELU(), nn.Linear(width, width),
            nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 1),
        )  # fmt: skip

    def forward(self, categories: Tensor, numbers: Tensor) -> Tensor:
        parts = [embed(categories[:, at]) for at, embed in enumerate(self.embed)]
        return self.layers(torch.cat([*parts, self.norm(numbers)], 1)).squeeze(1)


class Recommender(nn.Module):
    """DLRM: bags of features, dense features, and the products of all pairs."""

    def __init__(self, width: int = 64, items: int = 1000) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(items, width, mode="sum") for _ in range(3))
        self.bottom = nn.Sequential(nn.Linear(13, width), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(width + 6, width), nn.ReLU(), nn.Linear(width, 1))
        rows, columns = torch.tril_indices(4, 4, -1)
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)

    def forward(self, numbers: Tensor, items: Tensor) -> Tensor:
        dense = self.bottom(numbers)
        bags = [bag(items[:, at]) for at, bag in enumerate(self.bags)]
        vectors = torch.stack([dense, *bags], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.rows, self.columns]
        scale = 1 / math.sqrt(vectors.shape[-1])
        return torch.sigmoid(self.top(torch.cat([dense, products * scale], 1)))


def audio(width: int = 64, classes: int = 35) -> nn.Module:
    """M5: convolutions over raw sound."""

    def block(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[nn.Module]:
        return [nn.Conv1d(inputs, outputs, kernel, stride), nn.BatchNorm1d(outputs), nn.ReLU(),
                nn.MaxPool1d(4)]  # fmt: skip

    return nn.Sequential(
        *block(1, width, 80, 16), *block(width, width, 3), *block(width, 2 * width, 3),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(2 * width, classes),
    )  # fmt: skip


class Temporal(nn.Module):
    """Causal dilated convolutions with weight norm, gated as in WaveNet."""

    def __init__(self, width: int = 32, layers: int = 6) -> None:
        super().__init__()
        self.start = nn.Conv1d(1, width, 1)
        self.filters = nn.ModuleList(
            weight_norm(nn.Conv1d(width, 2 * width, 2, dilation=2**at)) for at in range(layers)
        )
        self.mix = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))
        self.end = nn.Conv1d(width, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.start(x)
        total = torch.zeros_like(x)
        for layer, mix in zip(self.filters, self.mix, strict=True):
            content, gate = layer(F.pad(x, (layer.dilation[0], 0))).chunk(2, 1)
            y = mix(torch.tanh(content) * torch.sigmoid(gate))
            x, total = x + y, total + y
        return self.end(F.relu(total)).transpose(1, 2)


class Recurrent(nn.Module):
    """A tagger: embedding, two-layer bidirectional LSTM, a score per word."""

    def __init__(self, width: int = 128, words: int = 1000, tags: int = 17) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, tags)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.lstm(self.embed(words))[0]).log_softmax(-1)


class Forecast(nn.Module):
    """A GRU over a series; its last state predicts."""

    def __init__(self, width: int = 128, features: int = 5, layers: int = 2) -> None:
        super().__init__()
        self.gru = nn.GRU(features, width, layers, batch_first=True)
        self.head = nn.Linear(width, features)

    def forward(self, series: Tensor) -> tuple[Tensor, Tensor]:
        _, state = self.gru(series)
        return self.head(state[-1]), state.transpose(0, 1)


class Reader(nn.Module):
    """CRNN: text in images, columns of features into an LSTM."""

    def __init__(self, width: int = 64, letters: int = 37) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.MaxPool2d((2, 1)),
        )  # fmt: skip
        self.lstm = nn.LSTM(2 * width, width, bidirectional=True)
        self.head = nn.Linear(2 * width, letters)

    def forward(self, x: Tensor) -> Tensor:
        columns = self.features(x).mean(2).permute(2, 0, 1)
        return self.head(self.lstm(columns)[0]).transpose(0, 1)


class Encoder(nn.Module):
    """`nn.TransformerEncoder` with sinusoidal positions and a mask of padding."""

    def __init__(self, width: int = 256, layers: int = 4, words: int = 1000) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, norm_first=True,
                                           activation="gelu")  # fmt: skip
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width),
                                            enable_nested_tensor=False)  # fmt: skip
        place = torch.arange(512)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
        self.register_buffer("places", torch.stack([place.sin(), place.cos()], -1).flatten(1))

    def forward(self, words: Tensor) -> Tensor:
        x = self.embed(words) + self.places[: words.shape[1]]
        x = self.layers(x, src_key_padding_mask=words == 0)
        return x[:, 0]


class Translator(nn.Module):
    """`nn.Transformer`, encoder and decoder, the latter causal."""

    def __init__(self, width: int = 256, layers: int = 3, words: int = 1000) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(words, width), nn.Embedding(words, width)
        self.transformer = nn.Transformer(width, 4, layers, layers, 4 * width, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        y = self.transformer(self.source(source), self.target(target), tgt_mask=mask,
                             tgt_is_causal=True)  # fmt: skip
        return self.head(y)


class Attention(nn.Module):
    """`nn.MultiheadAttention` between two sequences, with the weights it found."""

    def __init__(self, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm = nn.LayerNorm(width)

    def forward(self, query: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        found, weights = self.attention(query, memory, memory)
        return self.norm(query + found), weights


class PointNet(nn.Module):
    """Points as a set: shared layers, a maximum over all points."""

    def __init__(self, width: int = 64, classes: int = 40) -> None:
        super().__init__()
        self.shared = nn.Sequential(
            nn.Conv1d(3, width, 1), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, 4 * width, 1), nn.BatchNorm1d(4 * width), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Sequential(nn.Linear(4 * width, width), nn.ReLU(), nn.Linear(width, classes))

    def forward(self, points: Tensor) -> Tensor:
        return self.head(self.shared(points.transpose(1, 2)).amax(2)).log_softmax(1)


class GraphNet(nn.Module):
    """Two graph convolutions: normalised adjacency times features."""

    def __init__(self, width: int = 64, features: int = 16, classes: int = 7) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(features, width), nn.Linear(width, classes)

    def forward(self, nodes: Tensor, adjacency: Tensor) -> Tensor:
        degree = adjacency.sum(-1, keepdim=True).clamp(min=1)
        near = adjacency / degree
        hidden = F.relu(torch.einsum("bij,bjf->bif", near, self.first(nodes)))
        return torch.einsum("bij,bjf->bif", near, self.second(hidden))


class Field(nn.Module):
    """NeRF: positions encoded by sines and cosines, a skip connection, density and colour."""

    def __init__(self, width: int = 128, frequencies: int = 4) -> None:
        super().__init__()
        self.register_buffer("scales", 2.0 ** torch.arange(frequencies))
        inputs = 3 + 6 * frequencies
        self.first = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width))
        self.second = nn.Sequential(nn.Linear(width + inputs, width), nn.ReLU())
        self.density, self.colour = nn.Linear(width, 1), nn.Linear(width, 3)

    def forward(self, points: Tensor) -> dict[str, Tensor]:
        waves = (points[..., None] * self.scales).flatten(-2)
        x = torch.cat([points, waves.sin(), waves.cos()], -1)
        y = self.second(torch.cat([F.relu(self.first(x)), x], -1))
        return {"density": F.softplus(self.density(y)), "colour": self.colour(y).sigmoid()}
