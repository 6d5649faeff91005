"""The networks of results/pretrained_train.py in 8-bit integers: their accuracy and bytes.

    python results/pretrained_int8.py --images IMAGENETTE --folder FOLDER

Each network is packed once more, to compute in int8 with the ranges of 500 training photographs,
and judged by the validation photographs.
"""

import sys
from pathlib import Path

import numpy as np
import tyro

import skinny

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import prune_pretrained as example
from pretrained_train import write_record


def main(images: Path, folder: Path = Path("build/pruned")) -> None:
    photographs, _ = example.read_images(images / "train", slice(50))
    ranges = [example.normalised(batch) for batch in photographs.split(example.BATCH)]
    x, y = example.read_images(images / "val")
    for file in sorted(folder.glob("*.skinny")):
        record = file.with_name(f"{file.stem}-int8.json")
        if file.stem.endswith("-int8") or not file.with_suffix(".json").exists() or record.exists():
            continue
        model = example.mobilenet_v2(classes=len(example.CLASSES)).eval()
        model.load_state_dict(skinny.unpack(file), strict=False)  # exact; counters are not in it
        packed = record.with_suffix(".skinny")
        example.pack(model, packed, compute="int8", calibration=ranges)
        net = skinny.load(packed)
        right = [
            net(part.numpy()).argmax(1) == of.numpy()
            for part, of in zip(x.split(100), y.split(100), strict=True)
        ]
        accuracy = float(np.concatenate(right).mean())
        write_record(record, {"accuracy": accuracy, "bytes": packed.stat().st_size})


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
