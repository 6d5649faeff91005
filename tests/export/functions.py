"""Small functions and modules that between them use every ATen operation the registry imports."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

torch.manual_seed(0)
aten = torch.ops.aten


class Of(nn.Module):
    """A function as a model; `parts` are its layers."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            if isinstance(part, Tensor) and part.is_floating_point():
                part = nn.Parameter(part)
            if isinstance(part, Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)
        self.parts = tuple(parts)

    def forward(self, *x: Tensor) -> Any:
        return self.function(*x, **{name: getattr(self, name) for name in self.parts})


def r(*shape: int) -> Tensor:
    return torch.randn(shape)


def i(*shape: int, high: int = 4) -> Tensor:
    return torch.randint(0, high, shape)


def written(x: Tensor, y: Tensor) -> Tensor:
    """Parts of a tensor written over."""
    shifted = torch.zeros_like(x)
    shifted[:, 1:] = y[:, :-1]
    shifted[:, 0] = 7
    return shifted


V, M, C, B = r(2, 6), r(2, 4, 4), r(2, 4, 6, 6), r(2, 6) > 0
POS = V.abs() + 0.1

# name -> (function, example, layers)
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "of_floats": (lambda x: tuple(
        getattr(torch, name)(x)
        for name in ("sigmoid", "tanh", "sqrt", "rsqrt", "exp", "expm1", "log", "log1p", "erf",
                     "sin", "cos", "reciprocal", "relu", "abs", "neg", "floor", "ceil", "round",
                     "sign", "logical_not", "trunc")), (POS,)),
    "activations": (lambda x: tuple(
        getattr(F, name)(x)
        for name in ("silu", "mish", "hardswish", "hardsigmoid", "relu6", "hardtanh", "leaky_relu",
                     "elu", "selu", "celu", "gelu", "softplus", "softsign", "logsigmoid",
                     "tanhshrink", "hardshrink", "softshrink")), (V,)),
    "of_two": (lambda x, y: tuple(
        getattr(torch, name)(x, y)
        for name in ("add", "sub", "mul", "div", "true_divide", "floor_divide", "remainder", "fmod",
                     "minimum", "maximum", "eq", "ne", "lt", "le", "gt", "ge", "logical_and",
                     "logical_or", "logical_xor")), (V, POS)),
    "pow": (lambda x: (x.pow(2.5), 2.0**x, x**2), (POS,)),
    "alpha": (lambda x, y: (torch.add(x, y, alpha=2), torch.sub(x, y, alpha=3), 1 - x,
                            torch.rsub(x, y, alpha=2)), (V, POS)),
    "rounding": (lambda x, y: (torch.div(x, y, rounding_mode="floor"),
                               torch.div(x, y, rounding_mode="trunc"),
                               torch.div(x.int(), 3, rounding_mode="trunc")), (9 * V, POS)),
    "bits": (lambda x, y: (x & y, x | y, x ^ y, ~x, torch.bitwise_and(x, y),
                           torch.bitwise_or(x, y), torch.bitwise_xor(x, y)), (B, B.flip(1))),
    "not_of_integers": (lambda x: ~x, (i(2, 6),)),
    "where": (lambda c, x: (torch.where(c, x, 0.0), x.masked_fill(c, -torch.inf)), (B, V)),
    "cast": (lambda x, y: (x.to(torch.int64), x.double().float(), x.type_as(y), x > 0.5),
             (V, i(2, 6))),
    "clamp": (lambda x: (x.clamp(0, 6), x.clamp(-0.5, 0.5), x.clamp_min(0.1), x.clamp_max(0.1),
                         x.clamp(min=0), F.relu6(x), F.hardtanh(x, -2, 2), torch.clip(x, max=1)),
              (V,)),
    "prelu": (lambda x, w, v: (F.prelu(x, w), F.prelu(x, v)), (C,), {"w": r(4), "v": r(1)}),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), (V,)),
    "softmax": (lambda x: (x.softmax(1), x.log_softmax(0), F.softmin(x, 1)), (V,)),
    # sizes and constants
    "filled": (lambda x: (x.new_zeros(3), x.new_ones(2, 2), x.new_full((2,), 7.0),
                          torch.full((2, 2), 3), torch.zeros(2), torch.ones(3),
                          torch.full_like(x, 2), torch.zeros_like(x), torch.ones_like(x),
                          torch.scalar_tensor(2.5) + x), (V,)),
    # of memory that nobody wrote, which may hold infinities
    "empty": (lambda x: tuple(e.nan_to_num() * 0 for e in (
        torch.empty_like(x), torch.empty(3), x.new_empty(2))), (V,)),
    "of_sizes": (lambda x: (torch.zeros(x.shape[0], 3), torch.arange(x.shape[0]) + x.shape[0] * 2,
                            x.reshape(x.shape[0] * 2, -1), x.new_full((x.shape[0],), x.shape[0])),
                 (V,)),
    "arange": (lambda x: (torch.arange(6) + x, torch.arange(1, 7, 1.0), torch.arange(9, 3, -1),
                          torch.arange(0.5, 2, 0.25), torch.linspace(0, 1, 6) * x), (V,)),
    "constants": (lambda x: x + torch.tensor([1.0, 2, 3, 4, 5, 6]) * torch.tensor(2.0), (V,)),
    # shapes
    "reshape": (lambda x: (x.view(x.shape[0], -1), x.reshape(-1, 4), x.flatten(1), x.flatten(1, 2),
                           x.unsqueeze(1), x[:, None].squeeze(1), x.unflatten(1, (2, 2)),
                           x[:, :1].squeeze(), x.flatten(0, 1), x.ravel(), x.view_as(x)), (M,)),
    # what torch decomposes only where other operations must be
    "whole": (lambda x, b: (x.flatten(1), x.flatten(0, 1), x.reshape(-1, 6), b(x),
                            x.flatten(2).unflatten(1, (2, 2)), x.mean().flatten()), (C,),
              {"b": nn.BatchNorm2d(4)}),
    "whole_rows": (lambda x, y: (*x.chunk(4, 1), x[:, :1].expand_as(y), x.reshape_as(y), x.diff(),
                                 x.view_as(y), x.diff(2, 1, y[:, :1], y[:, 1:]),
                                 x.diff(dim=1, append=y), x.diff(dim=1, prepend=y)), (V, V)),
    "assigned": (lambda x, y: written(x, y), (V, i(2, 6))),
    "not_finite": (lambda x: (torch.nan_to_num(x / 0), torch.nan_to_num(x.log(), 1.0, 2.0, 3.0),
                              torch.nan_to_num((x * 0).log(), neginf=-9.0)), (V,)),
    "in_place": (lambda x, b: F.relu(b(x), inplace=True).mul_(2)[:, 1:].add_(x[:, :1]).flatten(1),
                 (C,), {"b": nn.BatchNorm2d(4)}),
    "permute": (lambda x: (x.transpose(1, 2), x.permute(0, 2, 1), x.mT, x[:, 0].t(), x[0].T,
                           x.movedim(0, 2), x.swapaxes(0, 1), x.contiguous()), (M,)),
    "expand": (lambda x, y: (x[:, :1].expand(-1, 5), x[:, :1].expand_as(y),
                             x.broadcast_to(3, *x.shape)), (V, V)),
    "slices": (lambda x: (x[:, 1:], x[:, -2:], x[:, ::2], x.narrow(1, 1, 3), x[:, 2], x[0],
                          x.select(1, -1), x[..., :-1], x[:1]), (V,)),
    "narrow_by_size": (lambda x: torch.cat([x, x]).narrow(0, 1, x.shape[0]), (V,)),
    "splits": (lambda x: (*x.split(4, 1), *x.split([1, 5], 1), *x.chunk(4, 1), *x.unbind(1),
                          *x.tensor_split(4, 1), *torch.hsplit(x, 2)), (V,)),
    "joins": (lambda x, y: (torch.cat([x, y], 1), torch.stack([x, y], -1), torch.concat([x, y]),
                            torch.hstack([x, y]), torch.cat([x, torch.zeros(0)])), (V, V)),
    "pads": (lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, -1, 2, 0), value=3.0),
                        F.pad(x, (1, 2, 3, 0), mode="reflect"),
                        F.pad(x, (1, 2, 0, 1), mode="replicate"),
                        F.pad(x, (1, 2, 0, 1), mode="circular")), (C,)),
    "pads_1d": (lambda x: (F.pad(x, (1, 2), mode="reflect"), F.pad(x, (2, 1), mode="replicate")),
                (M,)),
    "pads_3d": (lambda x: (F.pad(x, (1, 1, 1, 0, 0, 1), mode="reflect"),
                           F.pad(x, (1, 1, 1, 0, 0, 1), mode="replicate")), (r(1, 2, 3, 3, 3),)),
    "order": (lambda x: (x.flip(1), x.roll(2, 1), x.roll((1, -1), (1, 2)), x.repeat(1, 2, 1),
                         x.tile(2), x.repeat_interleave(2, 1), x.rot90(1, (1, 2))), (M,)),
    "pixels": (lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 3), F.channel_shuffle(x, 2)),
               (C,)),
    # indexing
    "unfold": (lambda x: (x.unfold(2, 3, 2), x.unfold(-1, 2, 1), x.unfold(1, 4, 5)), (C,)),
    "index": (lambda x, j: (x[:, j[0]], x[j[0] % 2, j[0]], x.index_select(1, j[0]),
                            x.gather(1, j), x[:, [0, 2]]), (V, i(2, 4))),
    "index_apart": (lambda x, j: x[j[0] % 2, :, j[1]], (M, i(2, 3))),
    "triangles": (lambda x: (x.tril(), x.triu(1), x.tril(-1), torch.tril(torch.ones(4, 4)) * x),
                  (M,)),
    # matrices
    "products": (lambda x, y, w: (x @ y, torch.bmm(x, y), x @ w, x[:, 0] @ w.t(), x[0] @ y[0],
                                  torch.einsum("bij,bjk->bik", x, y), x @ y[0, 0], x[0].mv(y[0, 0]),
                                  torch.dot(x[0, 0], y[0, 0]), torch.mm(x[0], y[0]),
                                  torch.baddbmm(x, x, y, alpha=0.5, beta=2), torch.outer(x[0, 0],
                                                                                        w[0])),
                 (M, M), {"w": r(4, 4)}),
    "addmm": (lambda x, w, b: (torch.addmm(b, x, w), torch.addmm(b, x, w, beta=2, alpha=0.5),
                               torch.addmm(x, x, w)), (V,),
              {"w": r(6, 6), "b": r(6)}),
    "linear": (lambda x, f, g: (f(x), g(x), F.linear(x, x), F.linear(x, f.weight * 2, f.bias)),
               (r(2, 6),),
               {"f": nn.Linear(6, 3), "g": nn.Linear(6, 2, bias=False)}),
    "embedding": (lambda j, e: (e(j), F.embedding(j, e.weight * 2)), (i(2, 5),),
                  {"e": nn.Embedding(7, 3, padding_idx=1)}),
    "bag": (lambda j, e: e(j), (i(3, 5),), {"e": nn.EmbeddingBag(7, 3, mode="mean")}),
    "bag_max": (lambda j, e: e(j), (i(3, 5),), {"e": nn.EmbeddingBag(7, 3, mode="max")}),
    # layers
    "conv1d": (lambda x, f, g: (f(x), g(x)), (r(2, 4, 9),),
               {"f": nn.Conv1d(4, 3, 3, 2, 1), "g": nn.ConvTranspose1d(4, 3, 3, 2, 1, 1)}),
    "conv2d": (lambda x, f, g, s: (f(x), g(x), s(x), f(x[0])), (C,),
               {"f": nn.Conv2d(4, 6, 3, groups=2, dilation=2, padding=1),
                "g": nn.ConvTranspose2d(4, 3, (3, 2), 2), "s": nn.Conv2d(4, 4, 2, padding="same")}),
    "conv3d": (lambda x, f, g: (f(x), g(x)), (r(1, 2, 4, 4, 4),),
               {"f": nn.Conv3d(2, 3, 3, padding="same"), "g": nn.ConvTranspose3d(2, 2, 2, 2)}),
    "weight_norm": (lambda x, f, g: (f(x), g(x)), (r(2, 4, 9),), {
        "f": nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 3, 3)),
        "g": nn.utils.parametrizations.weight_norm(nn.Linear(9, 5))}),
    "spectral_norm": (lambda x, f: f(x), (C,), {
        "f": nn.utils.parametrizations.spectral_norm(nn.Conv2d(4, 3, 3)).eval()}),
    "computed by torch from stored tensors": (lambda x, f, g: (f(x), g(x)), (r(2, 4),), {
        "f": nn.utils.parametrizations.orthogonal(nn.Linear(4, 3), orthogonal_map="cayley"),
        "g": nn.utils.parametrizations.orthogonal(nn.Linear(4, 4))}),
    "pools": (lambda x: (F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2), F.max_pool2d(x[0], 2),
                         F.avg_pool2d(x, 3, 2, 1, True, False), F.adaptive_avg_pool2d(x, (2, None)),
                         F.adaptive_avg_pool2d(x, 4), F.adaptive_max_pool2d(x, 2),
                         F.max_pool2d(x, 2, return_indices=True)[0], F.lp_pool2d(x.abs(), 2, 2)),
              (C,)),
    "pools_1d": (lambda x: (F.max_pool1d(x, 2), F.avg_pool1d(x, 2), F.adaptive_avg_pool1d(x, 3),
                            F.adaptive_max_pool1d(x, 3)), (r(2, 4, 9),)),
    "pools_3d": (lambda x: (F.max_pool3d(x, 2), F.avg_pool3d(x, 2), F.adaptive_avg_pool3d(x, 2),
                            F.adaptive_max_pool3d(x, 2)), (r(1, 2, 4, 4, 4),)),
    "resize": (lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, (9, 4)),
                          F.interpolate(x, scale_factor=1.5, mode="bilinear"),
                          F.interpolate(x, (9, 4), mode="bilinear", align_corners=True),
                          F.interpolate(x, (9, 4), mode="bicubic"), nn.Upsample(scale_factor=2)(x)),
               (C,)),
    "resize_1d": (lambda x: (F.interpolate(x, 7), F.interpolate(x, 7, mode="linear")), (M,)),
    "resize_3d": (lambda x: (F.interpolate(x, (5, 2, 7)),
                             F.interpolate(x, (5, 2, 7), mode="trilinear")), (r(1, 2, 3, 3, 3),)),
    "norms": (lambda x, b, g, n, m: (b(x), g(x), n(x), m(x), F.normalize(x, dim=1)), (C,),
              {"b": nn.BatchNorm2d(4), "g": nn.GroupNorm(2, 4), "n": nn.InstanceNorm2d(4),
               "m": nn.InstanceNorm2d(4, affine=True, track_running_stats=True)}),
    "norms_in_place": (lambda x, b, s: (b(x).relu_(), s(x)), (C,), {
        "b": nn.BatchNorm2d(4), "s": nn.BatchNorm2d(4, track_running_stats=False)}),
    "batch_statistics": (lambda x, s: s(x), (C,), {
        "s": nn.BatchNorm2d(4, track_running_stats=False)}),
    "layer_norms": (lambda x, f, g, h: (f(x), g(x), h(x)), (M,),
                    {"f": nn.LayerNorm(4), "g": nn.LayerNorm((4, 4), elementwise_affine=False),
                     "h": nn.RMSNorm(4)}),
    "lrn": (lambda x: F.local_response_norm(x, 3, 0.1, 0.75, 2.0), (C,)),
    "attention": (lambda q, k: (F.scaled_dot_product_attention(q, k, k),
                                F.scaled_dot_product_attention(q, k, k, is_causal=True),
                                F.scaled_dot_product_attention(q, k, k, q @ k.mT > 0),
                                F.scaled_dot_product_attention(q, k[:, :2], k[:, :2],
                                                               enable_gqa=True, scale=0.3)),
                  (r(2, 4, 3, 4), r(2, 4, 3, 4))),
    "multihead": (lambda x, m: m(x, x, x)[0], (M,), {"m": nn.MultiheadAttention(
        4, 2, batch_first=True)}),
    "lstm": (lambda x, f: f(x), (M,), {
        "f": nn.LSTM(4, 3, 2, bidirectional=True, batch_first=True)}),
    "gru": (lambda x, f: f(x), (M,), {"f": nn.GRU(4, 3, batch_first=True, bias=False)}),
    # reductions
    "reductions": (lambda x: (x.mean(1), x.sum((1, 2), keepdim=True), x.sum(), x.prod(1),
                              x.amax((1, 2)), x.amin(1), x.max(), x.max(1), x.min(2, keepdim=True),
                              (x > 0).any(1), (x > 0).all(2), x.norm(dim=1), x.norm(1, dim=2),
                              torch.linalg.vector_norm(x, 3, dim=1), x.norm(float("inf"), dim=1),
                              x.logsumexp(1), (x > 0).sum(1), x.mean(), (x > 0).any()), (M,)),
    "variances": (lambda x: (x.var(1), x.std(1), x.var((1, 2), unbiased=False), x.var(),
                             torch.var_mean(x, 1), x.std((1, 2), correction=0)), (M,)),
    "choices": (lambda x: (x.argmax(1), x.argmin(2, keepdim=True), x.argmax(), x.topk(2, 1),
                           x.sort(1), x.sort(2, descending=True), x.topk(2, 2, largest=False)),
                (M,)),
    "cumulative": (lambda x: (x.cumsum(1), (x > 0).cumsum(2)), (M,)),
    "dropouts": (lambda x, d, e: (d(x), e(x), F.dropout(x, 0.5, False), x.clone(), x.detach()),
                 (C,), {"d": nn.Dropout(), "e": nn.Dropout2d()}),
    "integers": (lambda x: (x + 1, x * 0.5, x / 2, x // 2, x % 3, x.abs(), x.clamp(1, 2), -x,
                            x.sum(1), x.float().mean(1), x == 2), (i(2, 6),)),
    # what torch decomposes other operations into, some only in other versions
    "inner": (lambda x: (aten._softmax(x, 1, False), aten._log_softmax(x, 1, False),
                         aten.norm(x, 2, [1]), aten.norm(x, 3, [1], True),
                         aten.constant_pad_nd(x, [1, 2], 0.5)), (V,)),
    "inner_images": (lambda x, w, s: (
        aten.convolution(x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
        aten.convolution(x, w, None, [2, 2], [0, 0], [1, 1], True, [1, 0], 1),
        aten.reflection_pad2d(x, [1, 2, 0, 3]), aten.replication_pad2d(x, [1, 2, 0, 3]),
        aten._adaptive_avg_pool2d(x, [2, 3]), aten._prelu_kernel(x, s),
        aten.native_group_norm(x, None, None, x.shape[0], 4, 36, 2, 1e-5)[0]), (C,),
        {"w": r(4, 4, 2, 2), "s": r(1, 4, 1, 1)}),
    "inner_vectors": (lambda x, w, b: (
        aten.native_layer_norm(x, [4], w, b, 1e-5)[0], aten._fused_rms_norm(x, [4], w, 1e-5)[0],
        aten.reflection_pad1d(x, [1, 2]), aten.replication_pad1d(x, [1, 2])), (M,),
        {"w": r(4), "b": r(4)}),
    "inner_volumes": (lambda x: (
        aten.reflection_pad3d(x, [1] * 6), aten.replication_pad3d(x, [1] * 6),
        aten._adaptive_avg_pool3d(x, [2, 2, 3]),
        aten.max_pool3d_with_indices(x, [2, 2, 2])[0]), (r(1, 2, 4, 4, 4),)),
    "inner_bags": (lambda j, w: (aten._embedding_bag(w, j, torch.arange(2) * 2)[0],
                                 aten._embedding_bag_forward_only(
                                     w.detach(), j, torch.arange(2))[0]), (i(4),), {"w": r(7, 3)}),
    "inner_attention": (lambda q: aten._scaled_dot_product_flash_attention_for_cpu(
        q, q, q, is_causal=True)[0], (r(2, 4, 3, 4),)),
}  # fmt: skip


def model(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    function, example, *parts = FUNCTIONS[name]
    return Of(function, **(parts[0] if parts else {})).eval(), example
