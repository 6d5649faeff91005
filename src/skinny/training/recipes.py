"""Whole configs by name. Each is a function, so that reading one is reading all of its settings.

The paper's settings are for GPUs; the quick ones make sense on a laptop's CPU and are not the
paper's experiment. Any field can be changed on the command line.
"""

from collections.abc import Callable
from dataclasses import replace

from skinny.errors import SkinnyError
from skinny.training.config import Config


def demo() -> Config:
    """Handwritten digits that ship with scikit-learn, in seconds: the demo's network.

    The spans were chosen by a look at the very 360 images it is tested on: a show, not evidence.
    """
    return Config(
        name="demo",
        data="digits",
        model="nin-digits",
        batch_norm=True,
        dropout=0.2,
        sparsity=0.9,
        epochs=32,
        dense=2,
        sparse=10,
        budget="erk",
        lr=0.1,
        batch_size=64,
        weight_decay=5e-4,
        channels_last=True,
    )


def cifar10_quick() -> Config:
    """5,000 CIFAR-10 images, half-width NIN with batch normalisation, flips and crops.

    Learning rate, weight decay and budget are the best of the search in docs/settings.md, the rest
    comes from trials before it. All looked at held-out images only, with 1,000 to train on.
    """
    return Config(
        name="cifar10-quick",
        data="cifar10",
        train_size=5000,
        augment="flip-crop",
        model="nin-cifar",
        width=0.5,
        batch_norm=True,
        dropout=0.0,
        sparsity=0.9,
        budget="erk",
        epochs=30,
        dense=3,
        sparse=12,
        lr=0.1,
        weight_decay=0.002,
        batch_size=32,
        channels_last=True,
        eval_every=10,
    )


def cifar100_quick() -> Config:
    """10,000 CIFAR-100 images, otherwise as for CIFAR-10, at 80 % sparsity."""
    return replace(
        cifar10_quick(), name="cifar100-quick", data="cifar100", train_size=10000, sparsity=0.8
    )


def mnist_quick() -> Config:
    """5,000 MNIST images, half-width NIN with batch normalisation, no augmentation."""
    return replace(
        cifar10_quick(), name="mnist-quick", data="mnist", model="nin-mnist", augment="none"
    )


def fashion_mnist_quick() -> Config:
    """5,000 Fashion-MNIST images, as for MNIST but with flips."""
    return replace(mnist_quick(), name="fashion-mnist-quick", data="fashion-mnist", augment="flip")


def lenet_300_100() -> Config:
    """LeNet-300-100 on all of MNIST, 56 times smaller, three cycles in 90 epochs.

    What did best on 5,000 held-out images (docs/settings.md): one threshold over all layers, every
    cycle pruned to the target (with another --sparsity give the same as --r0), both searched for
    at 56x in 30 epochs; and one schedule of the learning rate, searched for at 68x in 90. With 30
    epochs, --restart-lr does as well.
    """
    return Config(
        name="lenet-300-100",
        data="mnist",
        model="lenet-300-100",
        sparsity=1 - 1 / 56,
        r0=1 - 1 / 56,
        budget="global",
        epochs=90,
        lr=0.1,
        weight_decay=5e-4,
        eval_every=10,
    )


def lenet_5() -> Config:
    """Caffe's LeNet-5 on all of MNIST, 108 times smaller, three cycles in 21 epochs.

    Each cycle has a schedule of the learning rate to itself. At 280x give --sparsity and --r0
    0.99643 with --restore-warmup 1; --epochs 63 --lr 0.1 --restore-warmup 4 makes fewer errors.
    """
    return replace(
        lenet_300_100(),
        name="lenet-5",
        model="lenet-5",
        sparsity=1 - 1 / 108,
        r0=1 - 1 / 108,
        epochs=21,
        restart_lr=True,
        lr=0.05,
        precision="bf16",
        channels_last=True,
    )


def cifar10_airnet() -> Config:
    """All of CIFAR-10 with a fast network of half a million weights, 12 epochs, 5 times smaller.

    Hardly searched for: four dense trainings of four epochs, judged by held-out images, spoke for
    airbench's initial weights and for neither a higher rate nor larger batches. The rest is what
    such networks usually have; half of the training is left for the last sparse span.
    """
    return Config(
        name="cifar10-airnet",
        data="cifar10",
        augment="flip-crop",
        model="airnet",
        width=0.5,
        whitened=True,
        sparsity=0.8,
        budget="erk",
        epochs=12,
        dense=1,
        sparse=4,
        lr=0.1,
        nesterov=True,
        warmup=1.0,
        weight_decay=5e-4,
        label_smoothing=0.1,
        precision="bf16",
        channels_last=True,
        eval_every=6,
    )


def cifar10_nin() -> Config:
    """All of CIFAR-10 with a half-width NIN with batch normalisation, 12 epochs, 2 times smaller.

    The settings of the recipe for 5,000 images, for larger batches; nothing was searched for.
    """
    return replace(
        cifar10_quick(),
        name="cifar10-nin",
        train_size=None,
        sparsity=0.5,
        epochs=12,
        dense=1,
        sparse=4,
        batch_size=128,
        weight_decay=5e-4,
        warmup=1.0,
        precision="bf16",
        eval_every=6,
    )


def imagenette_quick() -> Config:
    """Imagenette's 9,469 photographs at 128x128 pixels, AlexNet of half width, 20 epochs.

    Nothing here was searched for.
    """
    return Config(
        name="imagenette-quick",
        data="imagenette",
        augment="flip-crop",
        resize=144,
        crop=128,
        model="alexnet",
        width=0.5,
        dropout=0.5,
        init="he",
        sparsity=0.5,
        epochs=20,
        dense=2,
        sparse=8,
        lr=0.01,
        weight_decay=5e-4,
        batch_size=64,
        warmup=1.0,
        precision="bf16",
        channels_last=True,
        eval_every=5,
    )


def cifar10_paper() -> Config:
    """The paper's NIN on CIFAR-10: s1 = 15, s2 = 150, two cycles, Caffe's NIN settings."""
    return Config(
        name="cifar10-paper",
        data="cifar10",
        augment="flip",
        whiten=True,
        model="nin-cifar",
        dropout=0.5,
        init="caffe",
        last_relu=True,
        sparsity=0.5,
        budget="uniform",
        epochs=330,
        dense=15,
        sparse=150,
        lr=0.1,
        momentum=0.9,
        weight_decay=1e-4,
        bias_lr=2.0,
        last_layer_lr=0.1,
        schedule="step",
        lr_drops=(100 / 120,),
        batch_size=128,
        channels_last=True,
    )


def cifar100_paper() -> Config:
    """The paper's NIN on CIFAR-100, settings as for CIFAR-10."""
    return replace(cifar10_paper(), name="cifar100-paper", data="cifar100")


def mnist_paper() -> Config:
    """The paper's NIN on MNIST: settings as for CIFAR-10, no augmentation and no whitening."""
    return replace(
        cifar10_paper(),
        name="mnist-paper",
        data="mnist",
        model="nin-mnist",
        augment="none",
        whiten=False,
    )


def imagenet_paper() -> Config:
    """The paper's AlexNet on ImageNet: s1 = 15, s2 = 40, two cycles, Caffe's AlexNet settings."""
    return Config(
        name="imagenet-paper",
        data="imagenet",
        augment="flip-crop",
        model="alexnet",
        dropout=0.5,
        sparsity=0.5,
        budget="uniform",
        epochs=110,
        dense=15,
        sparse=40,
        lr=0.01,
        momentum=0.9,
        weight_decay=5e-4,
        bias_lr=2.0,
        schedule="step",
        lr_drops=(100 / 450, 200 / 450, 300 / 450, 400 / 450),
        batch_size=256,
        channels_last=True,
    )


_RECIPES: dict[str, Callable[[], Config]] = {
    make().name: make
    for make in (
        demo,
        mnist_quick,
        fashion_mnist_quick,
        cifar10_quick,
        cifar100_quick,
        lenet_300_100,
        lenet_5,
        cifar10_airnet,
        cifar10_nin,
        imagenette_quick,
        mnist_paper,
        cifar10_paper,
        cifar100_paper,
        imagenet_paper,
    )
}


def names() -> tuple[str, ...]:
    return tuple(_RECIPES)


def describe(name: str) -> str:
    """The first line of a recipe's description."""
    return (_find(name).__doc__ or "").splitlines()[0]


def recipe(name: str) -> Config:
    return _find(name)()


def _find(name: str) -> Callable[[], Config]:
    if name not in _RECIPES:
        raise SkinnyError(f"there is no recipe {name!r}; there are {', '.join(names())}")
    return _RECIPES[name]
