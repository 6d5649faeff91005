"""Many runs: none twice, each from its checkpoint, and the rest go on when one fails."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skinny.errors import SkinnyError
from skinny.experiments.job import Event, Executor, Job, Outcome, Tell, attempt
from skinny.experiments.store import Store
from skinny.training import Config
from skinny.training.session import load_data


@dataclass(frozen=True)
class Serial:
    """An executor: one job after another in this process, as a debugger wants it."""

    device: str = "auto"
    data_dir: str | None = None

    def __call__(self, jobs: Sequence[Job], tell: Tell) -> None:
        for job in jobs:
            tell(attempt(job, tell, device=self.device, data_dir=self.data_dir))


def sweep(
    configs: Sequence[Config],
    store: Store,
    *,
    executor: Executor,
    tell: Tell = lambda event: None,
    starts: Mapping[Config, Path] | None = None,
    check_data: bool = True,
    data_dir: str | None = None,
) -> list[Outcome]:
    """Train every config that the store has no run of, and say how each ended, in their order.

    A run that diverged is over too. starts: of a config whose layers are searched first, the dense
    run the search starts from. check_data: see first, here, that the data can be read, so that it
    is fetched once and missed once, not by every worker.
    """
    jobs = []
    for config in dict.fromkeys(configs):
        start = (starts or {}).get(config)
        path = store.path(config)
        jobs.append(Job(config, path if start is None else Path(f"{path}-to-be-searched"), start))
    over: dict[Job, Outcome] = {}

    def listen(event: Event) -> None:
        if isinstance(event, Outcome):
            over[event.job] = event
        tell(event)

    for job in jobs:
        if job.start is not None:  # what will be trained is known after the search
            continue
        try:
            result = store.result(job.config)
        except SkinnyError as error:
            listen(Outcome(job, "failed", error=str(error)))
            continue
        if result is not None:
            listen(Outcome(job, "already trained", accuracy=result["test_accuracy"]))
        elif (reason := store.diverged(job.config)) is not None:
            listen(Outcome(job, "diverged", error=reason))
    if check_data:
        missing: dict[tuple[object, ...], str | None] = {}
        for job in jobs:
            if job in over:
                continue
            config = job.config
            sizes = (config.train_size, config.val_size, config.test_size)
            key = (config.data, *sizes, config.resize, config.crop)
            if key not in missing:
                missing[key] = _why_no_data(config, data_dir)
            if (why := missing[key]) is not None:
                listen(Outcome(job, "failed", error=why))
    if left := [job for job in jobs if job not in over]:
        executor(left, listen)
    return [over[job] for job in jobs]


def _why_no_data(config: Config, data_dir: str | None) -> str | None:
    try:
        load_data(config, data_dir)
    except SkinnyError as error:
        return str(error)
    return None
