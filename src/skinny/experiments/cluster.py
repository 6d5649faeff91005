"""Jobs on a Ray cluster (the extra `ray`): the running one, or one started on this machine.

The run folders must lie where every node sees them, and Skinny must be installed on every node.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from skinny.errors import SkinnyError
from skinny.experiments.job import Job, Outcome, Tell, attempt


@dataclass(frozen=True)
class Cluster:
    """An executor. Each job asks Ray for `threads` CPUs, and for a GPU where the cluster has any.

    address: of the cluster; None takes the one this machine belongs to, or starts one here.
    """

    threads: int = 1
    device: str = "auto"
    data_dir: str | None = None
    address: str | None = None

    def __call__(self, jobs: Sequence[Job], tell: Tell) -> None:
        try:
            import ray
        except ImportError:
            raise SkinnyError("--executor ray needs Ray: pip install 'skinny-nn[ray]'") from None
        started = not ray.is_initialized()
        if started:
            ray.init(address=self.address, include_dashboard=False, log_to_driver=False)
        try:
            gpus = 1 if self.device == "auto" and ray.cluster_resources().get("GPU") else 0
            remote = ray.remote(num_cpus=self.threads, num_gpus=gpus, max_retries=0)(_attempt)
            pending = {
                remote.remote(job, self.threads, self.device, self.data_dir): job for job in jobs
            }
            while pending:
                for reference in ray.wait(list(pending))[0]:
                    job = pending.pop(reference)
                    try:
                        outcome: Outcome = ray.get(reference)
                    except ray.exceptions.RayError as error:
                        reason = str(error).strip().splitlines()[0]
                        outcome = Outcome(job, "failed", error=f"Ray: {reason}")
                    tell(outcome)
        finally:
            if started:
                ray.shutdown()


def _attempt(job: Job, threads: int, device: str, data_dir: str | None) -> Outcome:
    torch.set_num_threads(threads)
    return attempt(job, lambda event: None, device=device, data_dir=data_dir)
