"""Tensors that several processes hold together: in shards (FSDP2), or a copy each (DDP).

A sharded tensor is a DTensor whose rows are spread over ranks, rank after rank (`Shard(0)`), so
that the flat indices of a rank's entries follow those of the rank before. For a plain tensor there
is one rank. Whatever counts is a collective operation: every rank must come to it.
"""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from skinny.errors import SkinnyError

if TYPE_CHECKING:  # loading it takes a while, and whoever has one has loaded it
    from torch.distributed.tensor import DTensor


def is_sharded(tensor: Tensor) -> bool:
    return hasattr(tensor, "placements")


def local(tensor: Tensor) -> Tensor:
    """This rank's shard, which shares its memory with the tensor."""
    if not is_sharded(tensor):
        return tensor
    with torch.no_grad():
        return cast("DTensor", tensor).to_local().detach()


def whole(tensor: Tensor) -> Tensor:
    """All shards put together, on every rank."""
    return cast("DTensor", tensor).full_tensor() if is_sharded(tensor) else tensor


def like(shard: Tensor, tensor: Tensor, shape: Sequence[int] | None = None) -> Tensor:
    """A tensor whose shard on this rank is `shard`, spread over ranks as `tensor` is. It has the
    shape of `tensor`, or another with as many rows."""
    if not is_sharded(tensor):
        return shard
    from torch.distributed.tensor import DTensor

    spread = cast("DTensor", tensor)
    stride = spread.stride() if shape is None else torch.empty(shape, device="meta").stride()
    return DTensor.from_local(
        shard,
        spread.device_mesh,
        spread.placements,
        run_check=False,
        shape=spread.shape if shape is None else torch.Size(shape),
        stride=stride,
    )


@torch.no_grad()
def spread(value: Tensor, tensor: Tensor) -> Tensor:
    """A new tensor with the value, spread over ranks as `tensor` is and in its memory format."""
    if is_sharded(tensor) and not is_sharded(value):  # saved by one process
        from torch.distributed.tensor import distribute_tensor

        kind = cast("DTensor", tensor)
        value = distribute_tensor(
            value.to(local(tensor).device),
            kind.device_mesh,
            kind.placements,
            src_data_rank=None,  # every rank has the value
        )
    elif not is_sharded(tensor):
        value = whole(value)
    shard = torch.empty_like(local(tensor), dtype=value.dtype, requires_grad=False)
    return like(shard.copy_(local(value)), tensor)


def total(counts: Tensor, tensor: Tensor) -> Tensor:
    """The sum over the ranks that hold shards of `tensor`."""
    group = _group(tensor)
    if group is not None:
        dist.all_reduce(counts, group=group)
    return counts


def total_of(tensor: Tensor, *counts: int) -> list[int]:
    """The same for whole numbers."""
    if not is_sharded(tensor):
        return list(counts)
    found = total(torch.tensor(counts, device=local(tensor).device), tensor)
    return [int(count) for count in found]


def count_nonzero(tensor: Tensor) -> int:
    return total_of(tensor, int(local(tensor.detach()).count_nonzero()))[0]


def before(count: int, tensor: Tensor) -> int:
    """The sum of `count` over the ranks whose shards come before this one."""
    group = _group(tensor)
    if group is None:
        return 0
    mine = torch.tensor([count], device=local(tensor).device)
    all_of_them = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(all_of_them, mine, group=group)
    return sum(int(each) for each in all_of_them[: dist.get_rank(group)])


def spanned(tensors: Iterable[Tensor]) -> list[Any]:
    """The process groups that sharded tensors are spread over, one for each axis of their mesh, so
    that what is reduced over each of them in turn is reduced over all ranks; none if all are plain.
    """
    spread = next((cast("DTensor", tensor) for tensor in tensors if is_sharded(tensor)), None)
    return [] if spread is None else list(spread.device_mesh.get_all_groups())


def check_supported(name: str, parameter: Tensor) -> None:
    """Refuse tensors that are neither plain nor spread over ranks by rows."""
    if not is_sharded(parameter):
        if type(parameter.data) is not Tensor:
            raise SkinnyError(
                f"{name} is a {type(parameter.data).__name__}, which IHT cannot threshold: exclude "
                "it, or attach IHT to a model with plain or fully_shard-ed parameters"
            )
        return
    placements = cast("DTensor", parameter).placements
    kinds = [str(placement) for placement in placements if not placement.is_replicate()]
    if len(kinds) > 1 or any(not p.is_shard(0) for p in placements if not p.is_replicate()):
        raise SkinnyError(
            f"{name} is spread over ranks by {', '.join(map(str, placements))}: IHT takes "
            "Shard(0) alone, as of fully_shard and ColwiseParallel (with replicas too); exclude it"
        )


def check_not_flat(model: nn.Module) -> None:
    if any(type(module).__name__ == "FullyShardedDataParallel" for module in model.modules()):
        raise SkinnyError(
            "FullyShardedDataParallel (FSDP1) flattens the weights of layers into one parameter, "
            "in which no layer has a budget: use torch.distributed.fsdp.fully_shard (FSDP2; in "
            "Lightning the ModelParallelStrategy, in accelerate fsdp_version=2)"
        )


def reshard(model: nn.Module) -> None:
    """Free the gathered weights that FSDP2 may keep after a forward pass: they are copies, and
    would hide from the next pass what is done to the shards."""
    for module in model.modules():
        if hasattr(module, "reshard") and hasattr(module, "unshard"):
            cast(Any, module).reshard()


@contextlib.contextmanager
def together(group: Any, device: torch.device) -> Iterator[None]:
    """An error within on one rank of a group is an error on all of them, which would otherwise wait
    for that rank in their next collective operation. Without a group there is one rank."""
    problem = None
    try:
        yield
    except SkinnyError as error:
        problem = error
    if group is not None:
        mine = torch.tensor([problem is not None], dtype=torch.int32, device=device)
        theirs = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
        dist.all_gather(theirs, mine, group=group)
        failed = [rank for rank, flag in enumerate(theirs) if flag]
        if failed and problem is None:
            problem = SkinnyError(f"the mask update failed on rank {failed[0]}, which says why")
    if problem is not None:
        raise problem


def check_equal(masks: Mapping[str, Tensor], group: Any) -> None:
    """An error on every rank unless the masks are the same on all ranks of a group."""
    digests = [_digest(mask) for mask in masks.values()]
    mine = torch.tensor(digests, device=next(iter(masks.values())).device)
    theirs = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(theirs, mine, group=group)
    for rank, other in enumerate(theirs):
        differ = [name for name, same in zip(masks, other == theirs[0], strict=True) if not same]
        if differ:
            raise SkinnyError(
                f"the masks of {', '.join(differ)} on rank {rank} differ from those on rank 0: the "
                "weights differ, because something changed them on one rank alone after "
                "DistributedDataParallel was made; load and change weights on all ranks alike"
            )


def _digest(mask: Tensor) -> int:
    data = mask.cpu().contiguous().numpy().data
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little", signed=True)


def _group(tensor: Tensor) -> Any:
    """The ranks over which the rows are spread; None where this one has them all."""
    if not is_sharded(tensor):
        return None
    whole = cast("DTensor", tensor)
    for dim, placement in enumerate(whole.placements):
        if placement.is_shard():
            return whole.device_mesh.get_group(dim)
    return None
