"""From a config to what a training needs: data, model, optimizer, IHT; and their joint state."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import nn

from skinny import data, models
from skinny.data.batches import seed_of
from skinny.errors import SkinnyError
from skinny.iht import input_range
from skinny.iht.controller import IHT
from skinny.iht.events import Event
from skinny.iht.input_range import Ranges
from skinny.iht.timeline import Timeline
from skinny.training import config as configs
from skinny.training import precision
from skinny.training.batch_norm import synchronise
from skinny.training.config import Config
from skinny.training.distributed import Ranks
from skinny.training.validation import hold_out, share_of_test

_WHITENED_BY = 5000 * 32 * 32  # pixels of images whose patches the first layer whitens


@dataclass
class Session:
    """What one training works with. Everything that changes while it runs is in `state()`."""

    config: Config
    ranks: Ranks
    device: torch.device
    dataset: data.Dataset
    train_batches: data.Batches
    test_batches: data.Batches
    timeline: Timeline
    model: nn.Module  # holds the parameters
    forward: nn.Module  # what is called: the model, or its compiled form
    replica: nn.Module  # what training calls: the model, or its copy on this rank
    optimizer: torch.optim.Optimizer
    iht: IHT
    scaler: torch.amp.GradScaler

    def autocast(self) -> torch.autocast:
        return precision.autocast(self.config.precision, self.device)

    @cached_property
    def data_digest(self) -> str:
        """Names the classes and the labels: what is trained on and tested by, but for pixels."""
        digest = hashlib.sha256(repr(self.dataset.classes).encode())
        for split in (self.dataset.train, self.dataset.test):
            digest.update(split.labels.numpy().data)
        return digest.hexdigest()[:16]

    def state(self) -> dict[str, Any]:
        """All that changes, for any number of ranks: but for random numbers it is theirs alike."""
        random = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(self.device)
        elif self.device.type == "mps":
            random["mps"] = torch.mps.get_rng_state()
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "iht": self.iht.state_dict(),
            "ranges": input_range.find(self.model),
            "scaler": self.scaler.state_dict(),
            "random": random,
            "random_of_other_ranks": self.ranks.gather(random)[1:],
            "data": self.data_digest,
        }

    def take_ranges(self, ranges: Ranges) -> None:
        """Round the inputs of layers: in the model, since a compiled form knows of no new hooks."""
        input_range.attach(self.model, ranges)
        self.forward = self.model if ranges else self.forward

    def load_state(self, state: dict[str, Any]) -> None:
        if state.get("data", self.data_digest) != self.data_digest:
            raise ValueError("the data have changed since it was saved: other labels or classes")
        self.model.load_state_dict(state["model"])
        _check_settings(state["optimizer"], self.optimizer)
        self.optimizer.load_state_dict(state["optimizer"])
        _check_moments(self.optimizer)
        self.iht.load_state_dict(state["iht"])
        if self.config.quantize == "int8-after":
            self.take_ranges(state["ranges"])
        self.scaler.load_state_dict(state["scaler"])
        of_ranks = [state["random"], *state.get("random_of_other_ranks", [])]
        if self.ranks.index >= len(of_ranks):  # saved by fewer ranks
            return
        random = of_ranks[self.ranks.index]
        torch.set_rng_state(random["cpu"])
        if self.device.type == "cuda" and "cuda" in random:
            torch.cuda.set_rng_state(random["cuda"], self.device)
        elif self.device.type == "mps" and "mps" in random:
            torch.mps.set_rng_state(random["mps"])


def build(
    config: Config,
    *,
    device: str = "auto",
    data_dir: str | None = None,
    on_event: Callable[[IHT, Event], None] | None = None,
    ranks: Ranks | None = None,
) -> Session:
    """A training that is ready for its first step."""
    configs.check(config)
    ranks = ranks or Ranks()
    target = choose_device(device, ranks.local_index)
    precision.check(config.precision, target)
    with ranks.first_on_machine():  # which may download the data, and keep their whitening
        dataset = load_data(config, data_dir)
        train_batches = data.training_batches(
            dataset,
            batch_size=config.batch_size,
            seed=config.seed,
            device=target,
            augment=config.augment,
            whiten=config.whiten,
            channels_last=config.channels_last,
            share=ranks.share,
        )
    _check_shares(train_batches, ranks)
    test_batches = data.test_batches(
        dataset,
        batch_size=max(256 * ranks.count, config.batch_size),
        device=target,
        whiten=config.whiten,
        channels_last=config.channels_last,
        share=ranks.share,
    )
    torch.manual_seed(config.seed)
    model = build_model(config, dataset)
    if config.whitened:
        models.begin_whitened(model, _some_images(config, dataset))
    model = model.to(target)
    if config.channels_last:
        # Module.to with a memory format converts every four-dimensional parameter
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = build_optimizer(config, model)
    timeline = configs.timeline(config, len(train_batches))
    if ranks.count > 1:
        synchronise(model)
    forward = torch.compile(model) if config.compile else model
    assert isinstance(forward, nn.Module)
    replica = ranks.replicate(forward, target)
    iht = IHT(
        replica,
        optimizer,
        timeline,
        budget=configs.layer_rules(config) or config.budget,
        pattern=config.pattern,
        quantize=None if config.quantize == "int8-after" else config.quantize,
        include=config.include or None,
        exclude=config.exclude,
        score=config.score,
        restore=config.restore,
        seed=config.seed,
        on_event=on_event,
    )
    if ranks.index:  # each rank drops out other activations
        torch.manual_seed(seed_of(config.seed, ranks.index))
    scaler = torch.amp.GradScaler(target.type, enabled=config.precision == "fp16")
    return Session(
        config,
        ranks,
        target,
        dataset,
        train_batches,
        test_batches,
        timeline,
        model,
        forward,
        replica,
        optimizer,
        iht,
        scaler,
    )


def _some_images(config: Config, dataset: data.Dataset) -> torch.Tensor:
    """Training images as the network gets them, but for augmentation: the same for every seed."""
    height, width = dataset.image_size
    size = min(max(1, _WHITENED_BY // (height * width)), len(dataset.train.labels))
    batches = data.training_batches(dataset, batch_size=size, seed=0, whiten=config.whiten)
    images, _ = next(iter(batches.epoch(0)))
    return images


def load_data(config: Config, data_dir: str | None = None) -> data.Dataset:
    """What the config trains on and is judged by: test images, or with `val_size` held-out ones."""
    load = partial(
        data.load, config.data, data_dir=data_dir, resize=config.resize, crop=config.crop
    )
    if config.val_size is not None:
        return hold_out(load(), config.train_size, config.val_size)
    dataset = load(train_size=config.train_size)
    return dataset if config.test_size is None else share_of_test(dataset, config.test_size)


def build_model(config: Config, dataset: data.Dataset) -> nn.Module:
    return make_model(config, len(dataset.classes), dataset.channels, dataset.image_size)


def make_model(
    config: Config, classes: int, channels: int, image_size: tuple[int, int] | None = None
) -> nn.Module:
    """The config's model for images that are not at hand."""
    options = {
        name: value
        for name in configs.MODEL_OPTIONS
        if (value := getattr(config, name)) is not None
    }
    return models.build(
        config.model,
        classes=classes,
        channels=channels,
        image_size=image_size,
        **options,
    )


def build_optimizer(config: Config, model: nn.Module) -> torch.optim.Optimizer:
    """Groups by what differs: weights or biases (all that is one-dimensional), last layer or not.

    Each group's `multiple` is what its learning rate is of the schedule's.
    """
    last = [module for module in model.modules() if isinstance(module, nn.Linear | nn.Conv2d)][-1:]
    in_last = {id(parameter) for module in last for parameter in module.parameters()}
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for parameter in model.parameters():
        if parameter.requires_grad:
            key = (parameter.dim() <= 1, id(parameter) in in_last)
            groups.setdefault(key, []).append(parameter)
    if not groups:
        raise SkinnyError(f"the model {config.model} has no trainable parameter")
    described = [
        {
            "params": parameters,
            "weight_decay": 0.0 if is_bias and not config.decay_biases else config.weight_decay,
            "multiple": (config.bias_lr if is_bias else 1.0)
            * (config.last_layer_lr if is_last else 1.0),
        }
        for (is_bias, is_last), parameters in groups.items()
    ]
    if config.optimizer == "adamw":
        return torch.optim.AdamW(described, lr=config.lr, betas=(config.momentum, 0.999))
    return torch.optim.SGD(
        described, lr=config.lr, momentum=config.momentum, nesterov=config.nesterov
    )


# `load_state_dict` of an optimizer looks at neither of these, and its next step would fail or train
# something else.


def _check_settings(saved: dict[str, Any], optimizer: torch.optim.Optimizer) -> None:
    """ValueError unless the settings that the config decides are the config's; the loop sets lr."""
    own_groups = optimizer.state_dict()["param_groups"]
    for saved_group, own in zip(saved["param_groups"], own_groups, strict=True):
        for name in own.keys() & saved_group.keys() - {"lr"}:
            if saved_group[name] != own[name]:
                raise ValueError(f"the optimizer's {name} is {saved_group[name]!r:.40}")


def _check_moments(optimizer: torch.optim.Optimizer) -> None:
    """ValueError unless every parameter has the same kinds of state, each of its own shape."""
    kinds = {tuple(sorted(state)) for state in optimizer.state.values()}
    if len(kinds) > 1:
        raise ValueError(f"the optimizer's state is {' and '.join(map(str, sorted(kinds)))}")
    for parameter, state in optimizer.state.items():
        for name, value in state.items():
            shape = torch.Size() if name == "step" else parameter.shape
            if not torch.is_tensor(value) or value.shape != shape:
                found = list(value.shape) if torch.is_tensor(value) else repr(value)
                raise ValueError(
                    f"the optimizer's {name} has the shape {found}, its parameter {list(shape)}"
                )
        if not 0 < float(state.get("step", 1)) < float("inf"):
            raise ValueError(f"the optimizer has taken {float(state['step'])} steps")


def _check_shares(batches: data.Batches, ranks: Ranks) -> None:
    last = batches.size(len(batches) - 1)
    if last < ranks.count:
        raise SkinnyError(
            f"the last batch of an epoch has too few images ({last}) for {ranks.count} processes: "
            "give another --batch-size, or start fewer processes"
        )


def choose_device(device: str, index: int = 0) -> torch.device:
    """index: which of the machine's GPUs, where `device` names none."""
    if device in ("auto", "cuda") and torch.cuda.is_available():
        if index >= torch.cuda.device_count():
            raise SkinnyError(
                f"there are {torch.cuda.device_count()} GPUs for more processes on this machine: "
                "start one process for each GPU, or give --device cpu"
            )
        return torch.device("cuda", index)
    if device == "auto":
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.empty(1, device=chosen)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise SkinnyError(f"the device {device!r} cannot be used here: {reason}") from None
    return chosen
