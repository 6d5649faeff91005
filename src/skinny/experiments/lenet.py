"""LeNet-300-100 and LeNet-5 on all of MNIST: what every method of pruning is measured on."""

from dataclasses import replace

from skinny.experiments import published
from skinny.experiments.arms import dense, sdnn, times
from skinny.experiments.experiment import Arm, Experiment, Panel
from skinny.experiments.published import Cited
from skinny.experiments.settings import Scale
from skinny.training import Config, recipe
from skinny.training.config import Method, Quantize, without_spans

_FEW = 3  # seeds of arms on which no claim rests
_FOUR_BITS: tuple[Quantize, ...] = ("codebook4",)
_FEW_BITS: tuple[Quantize, ...] = ("codebook4", "codebook3")
_METHODS: dict[str, Method] = {
    "gradual pruning": "gradual",
    "iterative pruning": "iterative",
    "one-shot pruning": "oneshot",
    "AC/DC": "acdc",
}


def lenet(data: str, scale: Scale) -> Experiment:
    """LeNet-300-100 and LeNet-5 on MNIST, 2 to 300 times smaller, beside published results."""
    mlp = lenet_setting("lenet-300-100", scale)
    if scale == "smoke":  # LeNet-5 needs larger images than digits of 8x8 pixels
        panels: tuple[Panel, ...] = (
            _claims("LeNet-300-100", mlp, (2, 12), published.LENET_300_100),
            _budgets("LeNet-300-100", mlp, (12,)),
            _methods("LeNet-300-100", mlp, 12),
            _codebooks("LeNet-300-100", mlp, {12: _FOUR_BITS}),
        )
    else:
        conv = lenet_setting("lenet-5", scale)
        panels = (
            _claims("LeNet-300-100", mlp, (2, 12, 20, 56, 68, 100), published.LENET_300_100),
            _claims(
                "LeNet-5",
                conv,
                (2, 12, 20, 100, 108, 280),
                published.LENET_5,
                warmed=(280,),
                one_schedule=(12, 280),
            ),
            _budgets("LeNet-300-100", mlp, (2, 5, 12, 20, 40, 60, 100)),
            _methods("LeNet-300-100", mlp, 12),
            _methods("LeNet-300-100", mlp, 56),
            _budgets("LeNet-5", conv, (2, 5, 12, 20, 40, 60, 100, 200, 300)),
            _methods("LeNet-5", conv, 12),
            _methods("LeNet-5", conv, 108),
            _codebooks("LeNet-300-100", mlp, {12: _FOUR_BITS, 56: _FEW_BITS}),
            _codebooks("LeNet-5", conv, {12: _FOUR_BITS, 108: _FOUR_BITS}),
            _smallest("LeNet-5", conv, 280, 42, 3.0),
            _smallest("LeNet-5", conv, 320, 63, 4.0, exact=(280,)),
            _longer("LeNet-300-100", mlp, (56, 68, 100), {56: _FOUR_BITS}, 90, contested=56),
            _defaults("LeNet-300-100", mlp, (12, 56)),
            _defaults("LeNet-5", conv, (12, 108), few=_FEW),
        )
    return Experiment(
        "lenet",
        "LeNets on MNIST",
        "How many weights do the LeNets need to be as good as dense ones?",
        panels,
        seeds=tuple(range(2 if scale == "smoke" else 10)),
    )


def lenet_setting(name: str, scale: Scale) -> Config:
    """A third of the recipe's epochs for LeNet-300-100, each cycle with a schedule to itself: ten
    seeds of many arms are trained."""
    base = recipe(name)
    if name == "lenet-300-100":
        base = replace(base, epochs=30, restart_lr=True)
    if scale == "paper":
        return base
    if scale == "small":
        return replace(base, name=f"{name}-small", train_size=5000)
    return replace(
        base,
        name=f"{name}-smoke",
        data="digits",
        train_size=100,
        epochs=5,
        dense=1,
        sparse=1,
        batch_size=32,
        eval_every=2,
    )


def at_ratio(base: Config, ratio: int, **changes: str) -> Arm:
    """Thresholded to the target in every cycle, as the recipes do it."""
    sparsity = 1 - 1 / ratio
    label = ", ".join([times(sparsity), *changes.values()])
    return sdnn(base, sparsity, label, r0=sparsity, **changes)


def _claims(
    network: str,
    base: Config,
    ratios: tuple[int, ...],
    cited: tuple[Cited, ...],
    warmed: tuple[int, ...] = (),
    one_schedule: tuple[int, ...] = (),
) -> Panel:
    """Dense training, the same with the learning rate restarted, and the paper's method. At the
    ratios `warmed` the rate rises after each restoration, with a control in which it does not; at
    the ratios `one_schedule` one for all epochs, as plain dense training has it, is a control."""
    plain = dense(base, restart_lr=False)
    control = dense(base, "dense, restarted", restart_lr=True)
    skinny, others = [], []
    for ratio in ratios:
        arm = at_ratio(base, ratio)
        if ratio in warmed:
            others.append(replace(arm, label=f"{arm.label}, not warmed up"))
        if ratio in one_schedule:
            single = replace(arm.config, restart_lr=False)
            others.append(Arm(f"{arm.label}, one schedule", single))
        if ratio in warmed:
            arm = replace(arm, config=replace(arm.config, restore_warmup=1.0))
        skinny.append(arm)
    return Panel(
        network,
        (plain, control, *skinny, *others),
        cited,
        note="Restarted dense training has the learning rates of the skinny networks and prunes "
        "nothing: what it gains, sparsity does not give."
        + "".join(
            f" At {ratio}x, where networks broke down, the rate rises from zero in the epoch after "
            "each restoration; neither dense training nor the controls below do that."
            for ratio in warmed
        ),
        contrasts=tuple((arm.label, control.label) for arm in skinny),
        against="dense",
        source=published.LENET_SOURCES,
    )


def _budgets(network: str, base: Config, ratios: tuple[int, ...]) -> Panel:
    budgets = ("global", "erk", "uniform")
    arms = {(r, budget): at_ratio(base, r, budget=budget) for r in ratios for budget in budgets}
    return Panel(
        f"{network}, budgets",
        (dense(base, restart_lr=False), *arms.values()),
        contrasts=tuple((arms[r, "global"].label, arms[r, "erk"].label) for r in ratios),
        against="dense",
        few=_FEW,
    )


def _methods(network: str, base: Config, ratio: int) -> Panel:
    ours = at_ratio(base, ratio)
    others = [_other(ours, name, ratio) for name in _METHODS]
    return Panel(
        f"{network}, methods at {ratio}x",
        (dense(base, restart_lr=False), ours, *others),
        note="All have one threshold over all layers (the global budget) and equal epochs. Other "
        "methods have their own spans and, as published, one schedule of the learning rate.",
        contrasts=tuple((ours.label, other.label) for other in others),
        against="dense",
    )


def _other(ours: Arm, method: str, ratio: int) -> Arm:
    """Another method at the same sparsity, with spans of its own and one schedule."""
    own = replace(without_spans(ours.config), restart_lr=False)
    return Arm(f"{method}, {ratio}x", replace(own, method=_METHODS[method]))


def _defaults(network: str, base: Config, ratios: tuple[int, ...], few: int | None = None) -> Panel:
    """The defaults of `skinny.IHT` and `timeline.sdnn` beside the settings of the recipe."""
    arms, contrasts = [dense(base, restart_lr=False)], []
    usual = Config()
    for ratio in ratios:
        chosen = at_ratio(base, ratio)
        config = replace(chosen.config, budget=usual.budget, r0=usual.r0)
        plain = Arm(f"{chosen.label}, defaults", replace(config, restart_lr=usual.restart_lr))
        arms += [chosen, plain]
        contrasts.append((plain.label, chosen.label))
    return Panel(
        f"{network}, defaults",
        tuple(arms),
        note="The defaults of `skinny.IHT` and `skinny.timeline.sdnn`: the ERK budget, a sparsity "
        "that grows from cycle to cycle, and one schedule of the learning rate. The others have "
        "one threshold over all layers, the target sparsity in every cycle, and restarts.",
        contrasts=tuple(contrasts),
        against="dense",
        few=few,
    )


def _longer(
    network: str,
    base: Config,
    ratios: tuple[int, ...],
    shared: dict[int, tuple[Quantize, ...]],
    epochs: int,
    contested: int,
) -> Panel:
    """More epochs, in one schedule of the learning rate, beside dense training of that length;
    `shared`: the ratios at which the weights share few values as well. At the ratio `contested`
    there are the methods too that do better with few epochs."""
    longer = replace(base, epochs=epochs, restart_lr=False)
    exact = [at_ratio(longer, ratio) for ratio in ratios]
    few = [
        at_ratio(longer, ratio, quantize=kind) for ratio, kinds in shared.items() for kind in kinds
    ]
    ours = at_ratio(longer, contested)
    others = [_other(ours, name, contested) for name in ("gradual pruning", "AC/DC")]
    return Panel(
        f"{network}, {epochs} epochs",
        (dense(longer), *exact, *few, *others),
        note="One schedule of the learning rate over all epochs, which seemed better than restarts "
        "on held-out images (two networks of each). Sparse VD (2017) has 1.92 % errors at 68x.",
        contrasts=tuple((ours.label, other.label) for other in others),
        against="dense",
    )


def _smallest(
    network: str,
    base: Config,
    ratio: int,
    epochs: int,
    dense_span: float,
    exact: tuple[int, ...] = (),
) -> Panel:
    """The end of the front: 16 values a layer (`exact`: ratios without), a higher rate that rises
    anew over the dense span after each restoration, and more epochs."""
    longer = replace(base, epochs=epochs, lr=0.1, restore_warmup=dense_span)
    arms = tuple(at_ratio(longer, each) for each in exact)
    rival = " Sparse VD (2017) has 0.75 % errors at 280x." if exact else ""
    return Panel(
        f"{network}, smallest in {epochs} epochs",
        (*arms, at_ratio(longer, ratio, quantize="codebook4")),
        note="The learning rate rises from zero throughout each dense span, to 0.1 at the most: "
        "networks of so few weights may break down otherwise. There is no dense training of this "
        f"length: the tables above are for that.{rival}",
        few=None if exact else _FEW,
    )


def _codebooks(network: str, base: Config, wanted: dict[int, tuple[Quantize, ...]]) -> Panel:
    """Small files: weights that share 8 or 16 values a layer, which the last span trains."""
    arms, contrasts = [dense(base, restart_lr=False)], []
    for ratio, kinds in wanted.items():
        ours = at_ratio(base, ratio)
        few = [at_ratio(base, ratio, quantize=kind) for kind in kinds]
        arms += [ours, *few]
        contrasts += [(arm.label, ours.label) for arm in few]
    return Panel(
        f"{network}, codebooks",
        tuple(arms),
        note="In the last sparse span each layer has a codebook: 16 values (codebook4) or 8 "
        "(codebook3) that its weights share and that are trained with them.",
        contrasts=tuple(contrasts),
        against="dense",
    )
