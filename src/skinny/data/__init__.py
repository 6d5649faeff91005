"""Data sets, and batches of them that are a pure function of (seed, epoch).

dataset = load("cifar10")
for images, labels in training_batches(dataset, batch_size=128, seed=0).epoch(0):
    ...
"""

from skinny.data.augment import Augment
from skinny.data.batches import Batches, MemoryBatches
from skinny.data.errors import CorruptImageWarning, DataError
from skinny.data.folder_batches import FolderBatches
from skinny.data.item_batches import ItemBatches
from skinny.data.loading import NAMES, is_users, load
from skinny.data.preprocessing import Normalization, Preprocessing
from skinny.data.sets import Dataset, FolderSet, ImageSet, ItemSet
from skinny.data.share import Share
from skinny.data.splits import fit_preprocessing, test_batches, training_batches
from skinny.data.whitening import Whitening

__all__ = [
    "NAMES",
    "Augment",
    "Batches",
    "CorruptImageWarning",
    "DataError",
    "Dataset",
    "FolderBatches",
    "FolderSet",
    "ImageSet",
    "ItemBatches",
    "ItemSet",
    "MemoryBatches",
    "Normalization",
    "Preprocessing",
    "Share",
    "Whitening",
    "fit_preprocessing",
    "is_users",
    "load",
    "test_batches",
    "training_batches",
]
