"""A small BERT on text by Hugging Face's Trainer, packed and run.

    python examples/train_transformers.py

Needs skinny-nn[train,transformers].
"""

import random

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

import skinny
from skinny.integrations.transformers import IHTCallback

LIKED, DISLIKED = ["good", "lovely", "great", "funny"], ["bad", "boring", "awful", "sad"]
WORDS = ["[PAD]", "[UNK]", *LIKED, *DISLIKED, "the", "film", "play", "was", "not", "quite", "very"]


def reviews(count: int) -> list[tuple[str, int]]:
    """Whether somebody liked it; "not" turns it over."""
    draw = random.Random(0)
    made = []
    for _ in range(count):
        good, turned = draw.random() < 0.5, draw.random() < 0.3
        word = draw.choice(LIKED if good else DISLIKED)
        how = draw.choice(["not"] if turned else ["quite", "very", ""])
        made.append((f"the {draw.choice(['film', 'play'])} was {how} {word}", int(good != turned)))
    return made


def main(
    epochs: int = 12, texts: int = 512, folder: str = "runs/bert", **options
) -> dict[str, int]:
    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]")
    rows = [{**tokenizer(text), "labels": label} for text, label in reviews(texts)]
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=16,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    arguments = TrainingArguments(
        folder, num_train_epochs=epochs, per_device_train_batch_size=32, learning_rate=3e-3,
        report_to=[], **options,
    )  # fmt: skip
    collator = DataCollatorWithPadding(tokenizer)
    trainer = Trainer(model, arguments, collator, rows, processing_class=tokenizer)

    iht = IHTCallback(trainer, skinny.timeline.sdnn(epochs=epochs, sparsity=0.8))  # 1
    trainer.add_callback(iht)  # 2: `trainer.train(resume_from_checkpoint=...)` resumes it, too
    trainer.train()

    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    example = tokenizer(["the film was good", "bad"], padding=True, return_tensors="pt")
    inputs = {name: example[name] for name in ("input_ids", "attention_mask")}
    free = {name: {1: "length"} for name in inputs}
    skinny.pack(model, f"{folder}/bert.skinny", example=inputs, dynamic=free)
    net = skinny.load(f"{folder}/bert.skinny")  # no torch needed from here on
    question = tokenizer(["the play was not boring", "awful"], padding=True, return_tensors="np")
    print(np.argmax(net(**{name: question[name] for name in inputs})["logits"], axis=1))
    return iht.iht.finish()


if __name__ == "__main__":
    main()
