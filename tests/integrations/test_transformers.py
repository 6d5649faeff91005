"""`IHTCallback` in Hugging Face's Trainer, and IHT on what `accelerator.prepare` returns."""

import shutil

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch import nn
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import skinny
from skinny.errors import SkinnyError
from skinny.integrations.transformers import FILE, IHTCallback

EPOCHS = skinny.timeline.sdnn(epochs=4, sparsity=0.8, dense=1, sparse=1)  # D1 S1 D1 S1
STEPS = skinny.timeline.sdnn(steps=12, sparsity=0.8, dense=2, sparse=3)  # D2 S3 D2 S5
LINES = pytest.mark.parametrize("line", [EPOCHS, STEPS], ids=["epochs", "steps"])
EXCLUDE = "*embeddings*"  # large here, and left dense


class Rows(Dataset):
    """Twelve rows of words; the class is whether the first is even."""

    def __len__(self):
        return 12

    def __getitem__(self, index):
        words = torch.randint(0, 40, (6,), generator=torch.Generator().manual_seed(index))
        mask = torch.ones(6, dtype=torch.int64)
        return {"input_ids": words, "attention_mask": mask, "labels": int(words[0]) % 2}


def bert():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=8,
    )  # fmt: skip
    return BertForSequenceClassification(config)


class Small(nn.Module):
    """For torch.compile, which takes seconds for BERT."""

    def __init__(self):
        super().__init__()
        self.embeddings, self.classifier = nn.Embedding(40, 16), nn.Linear(16, 2)

    def forward(self, input_ids, attention_mask, labels):
        logits = self.classifier(self.embeddings(input_ids).mean(1))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def trainer(folder, line=STEPS, log_layers=False, iht=None, model=bert, **options):
    """Three steps an epoch."""
    given = {
        "output_dir": str(folder), "num_train_epochs": 4, "per_device_train_batch_size": 4,
        "learning_rate": 1e-2, "report_to": [], "use_cpu": True, "disable_tqdm": True,
        "save_strategy": "no", "logging_steps": 4, "dataloader_pin_memory": False, **options,
    }  # fmt: skip
    made = Trainer(model(), TrainingArguments(**given), train_dataset=Rows(), eval_dataset=Rows())
    made.add_callback(
        IHTCallback(made, line, log_layers=log_layers, exclude=EXCLUDE, **(iht or {}))
    )
    return made


def callback(made):
    return next(c for c in made.callback_handler.callbacks if isinstance(c, IHTCallback))


def train(made, **options):
    made.train(**options)
    found = callback(made).iht
    assert not any(weight[~found.masks[name]].any() for name, weight in found.weights.items())
    return found


def same(a, b):
    return all(map(torch.equal, a.model.parameters(), b.model.parameters()))


@LINES
def test_checkpoints_at_any_step_resume_exactly(line, tmp_path):
    whole = trainer(tmp_path, line, save_strategy="steps", save_steps=2, iht={"restore": "last"})
    iht = train(whole)
    assert iht.finish()
    for step in (4, 6, 8):  # in the middle of epochs and at their end, dense and sparse
        again = trainer(tmp_path, line, iht={"restore": "last"})
        found = train(again, resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))
        assert same(again, whole), step
        assert found.history == iht.history


def test_a_training_for_few_bits_resumes_exactly(tmp_path):
    options = {"iht": {"quantize": "int8"}, "save_strategy": "steps", "save_steps": 5}
    whole = trainer(tmp_path, **options)
    train(whole)
    for step in (5, 10):  # before the last span, in which weights are rounded, and within it
        again = trainer(tmp_path, **options)
        train(again, resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))
        assert same(again, whole), step


def test_a_checkpoint_in_another_folder_is_resumed_or_an_error_says_how(tmp_path):
    whole = trainer(tmp_path / "a", save_strategy="steps", save_steps=6)
    train(whole)
    folder = str(shutil.copytree(tmp_path / "a" / "checkpoint-6", tmp_path / "elsewhere"))
    other = trainer(tmp_path / "b", save_strategy="steps", save_steps=6, learning_rate=1e-3)
    train(other)  # its checkpoint-6 is of another training
    with pytest.raises(SkinnyError, match="resumed at step 6, and there is no state of IHT"):
        trainer(tmp_path / "b").train(resume_from_checkpoint=folder)
    again = trainer(tmp_path / "b", resume_from_checkpoint=folder)
    train(again, resume_from_checkpoint=folder)
    assert same(again, whole)


def test_a_damaged_state_is_one_clear_error(tmp_path):
    train(trainer(tmp_path, save_strategy="steps", save_steps=6))
    (tmp_path / "checkpoint-6" / FILE).write_bytes(b"\x80\x04")
    with pytest.raises(SkinnyError, match=r"iht\.safetensors is damaged or no state of IHT"):
        trainer(tmp_path).train(resume_from_checkpoint=str(tmp_path / "checkpoint-6"))


OPTIONS = {
    "accumulation and bf16": {
        "gradient_accumulation_steps": 2,
        "bf16": True,
        "max_grad_norm": 0.01,
    },
    "checkpointing": {"gradient_checkpointing": True},
    "torch.compile": {"torch_compile": True, "torch_compile_backend": "eager", "model": Small},
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_the_budget_holds_with_what_the_trainer_offers(kind, tmp_path):
    iht = train(trainer(tmp_path, EPOCHS, **OPTIONS[kind]))
    left = iht.finish()
    total = sum(weight.numel() for weight in iht.weights.values())
    assert sum(left.values()) == round(0.2 * total)
    assert all(not name.startswith("_orig_mod") for name in left)


def test_sparsity_and_change_ratio_are_logged_beside_the_loss(tmp_path):
    made = trainer(tmp_path, log_layers=True)
    update = train(made).history[-1]
    logs = made.state.log_history
    name = "classifier.weight"
    events = [log for log in logs if f"iht/sparsity/{name}" in log]
    assert [log["step"] for log in events] == [2, 5, 7]
    assert [log["iht/sparsity"] > 0 for log in events] == [True, False, True]
    assert events[-1]["iht/change_ratio"] == update.change_ratio
    assert events[-1][f"iht/change_ratio/{name}"] == update.change[name]
    assert [log["step"] for log in logs if "loss" in log] == [4, 8, 12]
    assert [log["step"] for log in logs if "iht/sparsity" in log][-1] == 12


def test_the_best_model_is_one_that_meets_the_budget(tmp_path):
    made = trainer(
        tmp_path, EPOCHS, save_strategy="epoch", eval_strategy="epoch",
        load_best_model_at_end=True, metric_for_best_model="badness", greater_is_better=False,
    )  # fmt: skip
    made.compute_metrics = lambda _: {"badness": made.state.epoch}  # the first epoch is the best
    iht = train(made)
    assert made.state.best_model_checkpoint == str(tmp_path / "checkpoint-12")
    assert iht.finish()


def test_a_training_that_ends_early_is_noticed(tmp_path):
    with pytest.warns(UserWarning, match="not yet what its IHT promises: .* 3 of 12 steps"):
        trainer(tmp_path, num_train_epochs=1).train()


@pytest.fixture
def new_accelerator():
    """One process has one precision, unless it forgets it."""
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.mark.parametrize("precision", ["no", "bf16"])
@pytest.mark.usefixtures("new_accelerator")
def test_a_loop_of_accelerate_trains_what_prepare_returns(precision, tmp_path):
    """With accumulation, and resumed from accelerate's own checkpoint in the middle."""

    def begin():
        accelerator = Accelerator(
            cpu=True, mixed_precision=precision, gradient_accumulation_steps=2
        )
        model = bert()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        prepared = accelerator.prepare(model, optimizer, DataLoader(Rows(), batch_size=4))
        iht = skinny.IHT(
            *prepared[:2], skinny.timeline.sdnn(steps=6, sparsity=0.8), exclude=EXCLUDE
        )
        accelerator.register_for_checkpointing(iht)
        return accelerator, *prepared, iht

    def epoch(accelerator, model, optimizer, loader, iht):
        for batch in loader:
            with accelerator.accumulate(model):
                accelerator.backward(model(**batch).loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()

    first = begin()
    for number in range(3):
        if number == 2:
            first[0].save_state(str(tmp_path))
        epoch(*first)
    again = begin()
    again[0].load_state(str(tmp_path))
    epoch(*again)
    assert again[4].finish() == first[4].finish()
    assert all(map(torch.equal, again[1].parameters(), first[1].parameters()))
