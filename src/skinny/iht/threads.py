"""On how many threads torch works."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Many small operations on one thread, which takes less time than their barriers would.

    Each operation of torch ends with a barrier of all its threads. Where other processes are busy,
    one of them is nearly always waiting for a core.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
