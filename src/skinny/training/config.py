"""Everything that decides the outcome of a run, as one frozen value that is saved with it.

The command line is made from these fields, their types and the comments below them, so flags and
config cannot drift apart. What does not change the outcome (where the data lies, how progress is
shown) is not here.
"""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

from skinny.data import Augment
from skinny.errors import SkinnyError
from skinny.iht import patterns
from skinny.iht import timeline as timelines
from skinny.iht.budget import Rules, check_sparsity
from skinny.iht.timeline import Timeline
from skinny.training.field_types import is_of, told
from skinny.training.json_text import parse

MODEL_OPTIONS = ("width", "batch_norm", "dropout", "init", "last_relu")  # None: the model's own

Method = Literal["sdnn", "acdc", "dsd", "gradual", "iterative", "oneshot", "dense"]
Optimizer = Literal["sgd", "adamw"]
Schedule = Literal["cosine", "step", "constant"]
Precision = Literal["fp32", "bf16", "fp16"]
_Codebook = Literal[
    "codebook8", "codebook7", "codebook6", "codebook5", "codebook4", "codebook3", "codebook2"
]
Quantize = Literal["int8", "int8-after"] | _Codebook

# Fields that a method that prunes looks at, and which of them each method ignores.
_PRUNING = (
    *("sparsity", "unit", "dense", "sparse", "r0", "budget", "layers", "pattern"),
    *("include", "exclude", "score", "restore", "reinit", "reset_momentum", "restart_lr"),
    "restore_warmup",
)
_RESTORING = ("restore", "reset_momentum", "restart_lr", "restore_warmup")
_IGNORED: dict[Method, tuple[str, ...]] = {
    "dense": _PRUNING,
    "sdnn": (),
    "acdc": ("r0",),
    "dsd": ("r0",),
    "gradual": ("r0", "sparse", *_RESTORING),
    "iterative": ("r0", *_RESTORING),
    "oneshot": ("r0", "sparse", *_RESTORING),
}
# What dense training looks at too when its learning rate is restarted: where cycles begin.
_CYCLES = ("unit", "dense", "sparse", "restart_lr", "restore_warmup")
_MOST_EPOCHS = 10**6  # a timeline has a span for as little as one

# These change neither the weights that come out nor what they are judged by.
_NOT_IDENTITY = ("name", "eval_every")


@dataclass(frozen=True)
class Config:
    """A training run."""

    name: str = "custom"
    """What the run folder is called, before the hash of what decides the outcome."""

    data: str = "digits"
    """digits, mnist, fashion-mnist, cifar10, cifar100, imagenet, imagenette, folder:PATH, npz:PATH,
    datasets:PATH (what Hugging Face's save_to_disk wrote), or your own as package.module:function.
    That is called with `split` ("train", "test") or `train` (True, False), if that is among its
    parameters, and returns a torch.utils.data.Dataset of (image, label)."""
    train_size: int | None = None
    """Train on this many images only, class-balanced and always the same ones."""
    val_size: int | None = None
    """Hold out this many training images and judge by them; the test images are not looked at."""
    test_size: int | None = None
    """Judge by this many test images only, class-balanced and always the same ones."""
    augment: Augment = "none"
    """What training images go through: nothing, horizontal flips, or flips and shifted crops."""
    resize: int | None = None
    """Images of imagenet, imagenette, a folder or datasets:PATH: what the shorter side becomes."""
    crop: int | None = None
    """The same: the side of the square that is cut out of them."""
    whiten: bool = False
    """Global contrast normalisation and ZCA whitening instead of mean and deviation."""

    model: str = "nin-digits"
    """nin-digits, nin-mnist, nin-cifar, alexnet, lenet-300-100, lenet-5, airnet, or your own
    as package.module:function. That is called with those of `classes`, `channels` and `image_size`
    (height, width) that are among its parameters, and returns a torch.nn.Module."""
    width: float | None = None
    """Multiplies the widths of NIN, AlexNet and airnet."""
    batch_norm: bool | None = None
    """Batch normalisation after every convolution of NIN."""
    dropout: float | None = None
    """Dropout probability; each model has its own default."""
    init: Literal["he", "caffe"] | None = None
    """Initial weights of NIN and AlexNet: He's rule, or Gaussians as in Caffe."""
    last_relu: bool | None = None
    """A ReLU on NIN's class scores too, as in Caffe's model."""
    whitened: bool = False
    """Airnet begins as airbench does: its first layer whitens patches of training images and stays
    so, its other convolutions begin as identities."""

    method: Method = "sdnn"
    """When to prune and restore: the paper's sdnn, a baseline, or dense for plain training."""
    sparsity: float = 0.9
    """The fraction of weights removed when training ends."""
    epochs: int = 40
    """How long to train, all spans together."""
    unit: Literal["epoch", "step"] = "epoch"
    """What --dense and --sparse count."""
    dense: int | None = None
    """Length of a dense span of sdnn (s1), of the first one of other methods; else their own."""
    sparse: int | None = None
    """Length of a sparse span of sdnn (s2), acdc, dsd, of a round of iterative; else their own."""
    r0: float | None = None
    """Sparsity that sdnn's progressive thresholding sets out from (else 0.5, more where --sparsity
    is above 0.75); the value of --sparsity means direct."""
    budget: Literal["uniform", "erk", "global"] = "erk"
    """How the weights are shared out among layers; the paper has the same sparsity in each."""
    layers: tuple[str, ...] = ()
    """Exceptions from --budget uniform, PATTERN=SPARSITY or PATTERN=K, e.g. conv1=0.5 fc*=100."""
    pattern: str | None = None
    """1x4: groups of four input channels stay or go together; 2:4: two of every four stay."""
    quantize: Quantize | None = None
    """int8: in the last span weights and layers' inputs are rounded to 8 bits, and trained so;
    codebook2 to codebook8: weights to 4 to 256 numbers for each layer, which are trained;
    int8-after: rounded when the training is over."""
    include: tuple[str, ...] = ()
    """Threshold only layers that match one of these patterns."""
    exclude: tuple[str, ...] = ()
    """Leave layers that match one of these patterns dense."""
    score: Literal["magnitude", "random"] = "magnitude"
    """What decides which weights stay."""
    restore: Literal["zero", "last"] = "zero"
    """What a restored weight is: 0 (the paper), or its value before truncation."""
    reinit: bool = False
    """Draw the kept weights anew at every mask update instead of keeping their values."""
    reset_momentum: bool = False
    """Forget the optimizer's momentum whenever weights are restored."""

    optimizer: Optimizer = "sgd"
    """sgd has momentum; adamw decouples weight decay."""
    lr: float = 0.05
    """Learning rate at its highest."""
    momentum: float = 0.9
    """Momentum of sgd; beta1 of adamw."""
    nesterov: bool = False
    """Nesterov's momentum, for sgd."""
    weight_decay: float = 1e-4
    """L2 penalty on weights."""
    decay_biases: bool = False
    """Weight decay on biases and normalisation parameters too."""
    bias_lr: float = 1.0
    """Learning rate of biases, as a multiple (2 in Caffe's models)."""
    last_layer_lr: float = 1.0
    """Learning rate of the last layer, as a multiple (0.1 in Caffe's NIN)."""
    schedule: Schedule = "cosine"
    """How the learning rate falls."""
    lr_drops: tuple[float, ...] = (0.5, 0.75)
    """Where --schedule step divides it by ten, as fractions of the training."""
    warmup: float = 0.0
    """Epochs over which the learning rate rises from zero."""
    restart_lr: bool = False
    """Run the schedule anew in every cycle of a dense and a sparse span; dense training restarts
    where sdnn would."""
    restore_warmup: float = 0.0
    """Epochs over which the learning rate rises from zero wherever weights are restored: a network
    of very few weights may not bear the full rate when all the others come back."""
    label_smoothing: float = 0.0
    """How much of each label is spread over all classes."""
    batch_size: int = 128
    """Images per step."""
    precision: Precision = "fp32"
    """Autocast to bf16, or on GPUs fp16. A CPU without bf16 emulates it, slower than fp32."""
    channels_last: bool = False
    """Memory format NHWC: faster convolutions on most devices."""
    compile: bool = False
    """Run the model through torch.compile."""
    eval_every: int = 1
    """Epochs between evaluations on the test set; the last epoch is always evaluated."""
    seed: int = 0
    """Initial weights, order of images, augmentation, dropout."""

    @property
    def hash(self) -> str:
        """Eight hexadecimal digits of the run's identity."""
        return hashlib.sha256(identity(self).encode()).hexdigest()[:8]

    @property
    def run_name(self) -> str:
        return f"{self.name}-{self.hash}"


def check(config: Config) -> Config:
    """Every mistake that can be seen before data is loaded, as one sentence."""
    for field in dataclasses.fields(Config):
        value = getattr(config, field.name)
        if not is_of(field.type, value):
            raise SkinnyError(f"{field.name} is {value!r:.80}; allowed: {told(field.type)}")
    if not config.name or not all(c.isalnum() or c in "-_." for c in config.name):
        raise SkinnyError(f"name is {config.name!r}; use letters, digits, '-', '_' and '.'")
    check_sparsity(config.sparsity)
    for name, lowest in (("epochs", 1), ("batch_size", 1), ("eval_every", 1), ("seed", 0)):
        if getattr(config, name) < lowest:
            raise SkinnyError(f"{name} is {getattr(config, name)}; it must be at least {lowest}")
    if config.epochs > _MOST_EPOCHS:
        raise SkinnyError(f"epochs is {config.epochs}; it must be at most {_MOST_EPOCHS}")
    if config.seed >= 2**32:
        raise SkinnyError(f"seed is {config.seed}; it must be below 2**32")
    for name in (
        *("lr", "momentum", "weight_decay", "bias_lr", "last_layer_lr"),
        *("warmup", "restore_warmup"),
    ):
        value = getattr(config, name)
        if not 0 <= value < float("inf"):
            raise SkinnyError(f"{name} is {value}; it must be a number that is not negative")
    if not config.momentum < 1:
        raise SkinnyError(f"momentum is {config.momentum}; it must lie in [0, 1)")
    if not 0 <= config.label_smoothing < 1:
        raise SkinnyError(f"label_smoothing is {config.label_smoothing}; it must lie in [0, 1)")
    if config.warmup >= config.epochs:
        raise SkinnyError(f"warmup is {config.warmup} epochs, but there are {config.epochs} in all")
    if any(not 0 < drop < 1 for drop in config.lr_drops):
        raise SkinnyError(f"lr_drops are {config.lr_drops}; each must lie between 0 and 1")
    if config.nesterov and (config.optimizer != "sgd" or config.momentum == 0):
        raise SkinnyError("nesterov needs --optimizer sgd and a momentum above 0")
    rules = layer_rules(config)
    if rules and config.budget != "uniform":
        raise SkinnyError(
            f"layers can except from the uniform budget, not from {config.budget!r}: "
            "add --budget uniform"
        )
    if config.pattern is not None:
        patterns.parse(config.pattern)
    for name in ("val_size", "test_size"):
        size = getattr(config, name)
        if size is not None and size < 1:
            raise SkinnyError(f"{name} is {size}; it must be at least 1")
    if config.val_size is not None and config.test_size is not None:
        raise SkinnyError("val_size judges by training images, test_size by test images: give one")
    if config.unit == "step" and (config.reinit or config.reset_momentum):
        raise SkinnyError("reinit and reset_momentum happen between epochs: use --unit epoch")
    if config.unit == "epoch":  # how many steps there are is known when the data is
        timeline(config, steps_per_epoch=1)
        if config.restart_lr:
            cycles(config, steps_per_epoch=1)
    return config


def timeline(config: Config, steps_per_epoch: int) -> Timeline:
    """The spans this config asks for. What a method has no use for is not looked at."""
    total: dict[str, int] = (
        {"epochs": config.epochs}
        if config.unit == "epoch"
        else {"steps": config.epochs * steps_per_epoch}
    )
    uses: dict[Method, dict[str, Any]] = {
        "sdnn": {"dense": config.dense, "sparse": config.sparse, "r0": config.r0},
        "acdc": {"warmup": config.dense, "phase": config.sparse},
        "dsd": {"dense": config.dense, "sparse": config.sparse},
        "gradual": {"start": config.dense},
        "iterative": {"dense": config.dense, "sparse": config.sparse},
        "oneshot": {"dense": config.dense},
    }
    if config.method == "dense":
        return timelines.dense(**total)
    options = {name: value for name, value in uses[config.method].items() if value is not None}
    made: Timeline = getattr(timelines, config.method)(sparsity=config.sparsity, **total, **options)
    return made


def cycles(config: Config, steps_per_epoch: int) -> Timeline:
    """The timeline whose cycles `restart_lr` follows: the method's; for dense training sdnn's."""
    if canonical(config).method == "dense":
        config = dataclasses.replace(config, method="sdnn", sparsity=0.5, r0=None)
    return timeline(config, steps_per_epoch)


def canonical(config: Config) -> Config:
    """The same training with every field that its method ignores at its default.

    Configs that train the same thing become equal but for `name` and `eval_every`.
    """
    if config.method == "sdnn" and config.sparsity == 0:  # which is plain training
        config = dataclasses.replace(config, method="dense")
    default = Config()
    looked_at = _CYCLES if config.restart_lr else ()
    ignored = {
        name: getattr(default, name)
        for name in _IGNORED[config.method]
        if config.method != "dense" or name not in looked_at
    }
    if config.method == "dense":
        ignored["sparsity"] = 0.0
    elif config.r0 is not None and config.r0 == timelines.default_r0(config.sparsity):
        ignored["r0"] = None
    if config.schedule != "step":
        ignored["lr_drops"] = default.lr_drops
    return dataclasses.replace(config, **ignored)


def identity(config: Config) -> str:
    """What tells one run from another, as JSON: all that decides its weights and who judges them.

    Only fields of the canonical config that are not at their defaults: a field that comes later,
    whose default is what was done before, renames no run.
    """
    default = Config()
    told = {
        name: _whole(value)
        for name, value in vars(canonical(config)).items()
        if name not in _NOT_IDENTITY and value != getattr(default, name)
    }
    return json.dumps(told, sort_keys=True)


def _whole(value: Any) -> Any:
    """1.0 as 1: configs that are equal have one identity."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def dense_baseline(config: Config) -> Config:
    """Plain training with the same budget: one baseline, whatever the sparsity and the spans."""
    return canonical(dataclasses.replace(config, method="dense", restart_lr=False, quantize=None))


def without_spans(config: Config) -> Config:
    """The config for another method, which has spans of its own."""
    return dataclasses.replace(config, dense=None, sparse=None, r0=None)


def without_model_options(config: Config) -> Config:
    """The config for another model, to which the options of this one mean nothing."""
    return dataclasses.replace(
        config, width=None, batch_norm=None, dropout=None, init=None, last_relu=None
    )


def layer_rules(config: Config) -> Rules:
    """{pattern: sparsity or k} from the texts of `layers`; a whole number is a k."""
    rules: dict[str, float | int] = {}
    for text in config.layers:
        pattern, _, value = text.rpartition("=")
        try:
            rules[pattern] = int(value) if value.isdigit() else float(value)
        except ValueError:
            pattern = ""
        if not pattern:
            raise SkinnyError(f"layers: {text!r} is not PATTERN=SPARSITY or PATTERN=K")
    return rules


def to_json(config: Config) -> str:
    return json.dumps(dataclasses.asdict(config), indent=1)


def from_json(text: str) -> Config:
    """The inverse of `to_json`; checks what it reads, since files can be edited."""
    try:
        return from_fields(parse(text))
    except ValueError as error:
        raise SkinnyError(f"not a config: {error}") from None


def from_fields(fields: Any) -> Config:
    """A config from what JSON holds. Fields that it lacks have their defaults."""
    if not isinstance(fields, dict):
        raise SkinnyError("not a config: it holds no fields")
    fields = _with_one_pair_of_spans(fields)
    known = {field.name for field in dataclasses.fields(Config)}
    if unknown := sorted(fields.keys() - known):
        raise SkinnyError(f"not a config of this version: it has {', '.join(unknown)}")
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    try:
        return check(Config(**values))
    except (ValueError, TypeError, AttributeError) as error:
        raise SkinnyError(f"not a config: {error}") from None


def _with_one_pair_of_spans(fields: dict[str, Any]) -> dict[str, Any]:
    """Of the first configs: sdnn's spans were called s1 and s2, those of other methods as today."""
    now = {name: value for name, value in fields.items() if name not in ("s1", "s2")}
    if "s1" in fields and "s2" in fields and fields.get("method") == "sdnn":
        return now | {"dense": fields["s1"], "sparse": fields["s2"]}
    return now
