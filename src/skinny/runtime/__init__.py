"""Running packed models on a CPU: `load` a file, call the network. No torch, only NumPy."""

from skinny.runtime.classifier import Classifier, Prediction
from skinny.runtime.general import GeneralNetwork
from skinny.runtime.images import InputError
from skinny.runtime.memory import MemoryLimitError
from skinny.runtime.network import Network, load
from skinny.runtime.profile import Profile

__all__ = [
    "Classifier",
    "GeneralNetwork",
    "InputError",
    "MemoryLimitError",
    "Network",
    "Prediction",
    "Profile",
    "load",
]
