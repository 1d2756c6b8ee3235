"""A collator of the user's own cleans and pads each text, in the process that trains; the twin has it done in workers."""

import random
import sys
import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

ABOUT = {
    "what": "transformers Trainer, own slow collator in the training process",
    "needs": ("transformers", "accelerate"),
    "step": "an optimizer step of the Trainer",
    "steps": 24,
    "slow": "the collator works through each text word by word before each step, while nothing trains",
    "rules": ("DATA001", "DATA004"),
    "true": "The collator takes a third of a step or more in the training process; with two workers the step waits less.",
}

WORDS = ["trace", "step", "kernel", "queue", "batch", "model", "layer", "token"]


def texts(count):
    random.seed(0)
    return [" ".join(random.choices(WORDS, k=400)) for _ in range(count)]


class Texts(torch.utils.data.Dataset):
    def __init__(self, count):
        self.texts = texts(count)

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, at):
        return {"text": self.texts[at], "label": at % 2}


def encode(text):
    tokens = []
    for word in text.lower().split():
        number = 0
        for letter in word:
            number = (number * 31 + ord(letter)) % 991
        tokens.append(number + 5)
    return tokens[:48]


def collate(samples):
    tokens = [encode(each["text"] * 4) for each in samples]
    return {
        "input_ids": torch.tensor(tokens),
        "attention_mask": torch.ones(len(tokens), 48, dtype=torch.long),
        "labels": torch.tensor([each["label"] for each in samples]),
    }


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = BertConfig(
        vocab_size=1000,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=256,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = BertForSequenceClassification(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=24,
            per_device_train_batch_size=8,
            use_cpu=True,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            optim="adamw_torch_fused",
            dataloader_num_workers=2 if "--fixed" in sys.argv else 0,
        )
        Trainer(model, arguments, train_dataset=Texts(256), data_collator=collate).train()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
