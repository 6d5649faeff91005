"""Ranks in processes of their own, for the tests here."""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def run(function, ranks, *args):
    """function(*args) on every rank of a process group.

    The processes are forked from a server that has imported torch: importing it takes longer than
    what they do.
    """
    mp.get_context("forkserver").set_forkserver_preload(["torch", function.__module__])
    mp.start_processes(_one_rank, (ranks, function, *args), ranks, start_method="forkserver")


def _one_rank(rank, ranks, function, folder, *args):
    torch.set_num_threads(1)
    file = f"file://{folder}/ranks of {function.__name__}"
    dist.init_process_group("gloo", init_method=file, rank=rank, world_size=ranks)
    try:
        function(folder, *args)
    finally:
        dist.destroy_process_group()
