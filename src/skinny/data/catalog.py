"""The data sets with official files: what these are called, where they come from, their checksums.

Every MD5 here is published by the authors of the data or used by several independent readers;
those of MNIST and of CIFAR-10's binary files were also computed from the files themselves.
"""

from dataclasses import dataclass

from skinny.data.cifar import Version

_IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


@dataclass(frozen=True)
class Download:
    """One file to fetch: its name, MD5, and the addresses of folders that hold it, best first."""

    file: str
    md5: str
    mirrors: tuple[str, ...]


@dataclass(frozen=True)
class IdxEntry:
    """A data set of four idx files, each plain or `.gz`.

    folders: sub-folders of a data folder where the files are usually kept.
    """

    name: str
    classes: tuple[str, ...]
    folders: tuple[str, ...]
    downloads: tuple[Download, ...]
    plain_md5: dict[str, str]

    @property
    def files(self) -> tuple[str, ...]:
        """Training images and labels, test images and labels, without `.gz`."""
        return _IDX_FILES

    @property
    def md5(self) -> dict[str, str]:
        """Checksum by file name, plain and compressed."""
        return self.plain_md5 | {download.file: download.md5 for download in self.downloads}


@dataclass(frozen=True)
class CifarForm:
    """One version of CIFAR: the folder its archive unfolds to and the batch files in it."""

    version: Version
    archive: str
    archive_md5: str
    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    md5: dict[str, str]


@dataclass(frozen=True)
class CifarEntry:
    """A data set in CIFAR's binary and python versions, the preferred one first."""

    name: str
    classes: tuple[str, ...]
    folders: tuple[str, ...]
    downloads: tuple[Download, ...]
    forms: tuple[CifarForm, ...]


Entry = IdxEntry | CifarEntry


def _idx_downloads(mirrors: tuple[str, ...], *md5: str) -> tuple[Download, ...]:
    return tuple(
        Download(f"{file}.gz", checksum, mirrors)
        for file, checksum in zip(_IDX_FILES, md5, strict=True)
    )


MNIST = IdxEntry(
    name="mnist",
    classes=tuple("0123456789"),
    folders=("mnist", "MNIST/raw", "MNIST"),
    downloads=_idx_downloads(
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
    plain_md5={
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    },
)

FASHION_MNIST = IdxEntry(
    name="fashion-mnist",
    classes=(
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ),
    folders=("fashion-mnist", "FashionMNIST/raw", "FashionMNIST", "fashion_mnist", "fashion"),
    downloads=_idx_downloads(
        (
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        ),
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
    plain_md5={
        "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
        "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
        "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
    },
)

_TORONTO = ("https://www.cs.toronto.edu/~kriz/",)

CIFAR10 = CifarEntry(
    name="cifar10",
    classes=(
        *("airplane", "automobile", "bird", "cat", "deer"),
        *("dog", "frog", "horse", "ship", "truck"),
    ),
    folders=("cifar10", "cifar-10", "CIFAR10", "CIFAR-10"),
    downloads=(Download("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", _TORONTO),),
    forms=(
        CifarForm(
            version="binary",
            archive="cifar-10-binary.tar.gz",
            archive_md5="c32a1d4ab5d03f1284b67883e8d87530",
            folder="cifar-10-batches-bin",
            train=tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
            test=("test_batch.bin",),
            md5={
                "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
                "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
                "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
                "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
                "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
                "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
            },
        ),
        CifarForm(
            version="python",
            archive="cifar-10-python.tar.gz",
            archive_md5="c58f30108f718f92721af3b95e74349a",
            folder="cifar-10-batches-py",
            train=tuple(f"data_batch_{i}" for i in range(1, 6)),
            test=("test_batch",),
            md5={
                "data_batch_1": "c99cafc152244af753f735de768cd75f",
                "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
                "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
                "data_batch_4": "634d18415352ddfa80567beed471001a",
                "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
                "test_batch": "40351d587109b95175f43aff81a1287e",
            },
        ),
    ),
)

_CIFAR100_CLASSES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup
dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower
leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid
otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray
road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle
wardrobe whale willow_tree wolf woman worm
"""

CIFAR100 = CifarEntry(
    name="cifar100",
    classes=tuple(_CIFAR100_CLASSES.split()),
    folders=("cifar100", "cifar-100", "CIFAR100", "CIFAR-100"),
    downloads=(Download("cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8", _TORONTO),),
    forms=(
        CifarForm(
            version="binary",
            archive="cifar-100-binary.tar.gz",
            archive_md5="03b5dce01913d631647c71ecec9e9cb8",
            folder="cifar-100-binary",
            train=("train.bin",),
            test=("test.bin",),
            md5={
                "train.bin": "6172c7755cfe09b2fe270c85cebc1b15",
                "test.bin": "4499cfba6c016c1be1438163640a0898",
            },
        ),
        CifarForm(
            version="python",
            archive="cifar-100-python.tar.gz",
            archive_md5="eb9058c3a382ffc7106e4002c42a8d85",
            folder="cifar-100-python",
            train=("train",),
            test=("test",),
            md5={
                "train": "16019d7e3df5f24257cddd939b257f8d",
                "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
            },
        ),
    ),
)

OFFICIAL: dict[str, Entry] = {
    entry.name: entry for entry in (MNIST, FASHION_MNIST, CIFAR10, CIFAR100)
}
