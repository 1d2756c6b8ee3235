"""Fine-tunes a small BERT with the Trainer of transformers."""

import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

ABOUT = {
    "what": "transformers Trainer, BERT of 3 layers",
    "needs": ("transformers", "accelerate"),
    "step": "an optimizer step of the Trainer",
    "steps": 24,
    "slow": None,
    "rules": (),
    "true": "Products of the encoder take most of a step; the Trainer and the fused optimizer have nothing to mend.",
}


class Sentences(torch.utils.data.Dataset):
    def __init__(self, count, length, vocabulary):
        self.tokens = torch.randint(5, vocabulary, (count, length))
        self.labels = torch.randint(2, (count,))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, at):
        tokens = self.tokens[at]
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": self.labels[at]}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = BertConfig(
        vocab_size=1000,
        hidden_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=512,
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
            logging_steps=10,
            optim="adamw_torch_fused",
        )
        Trainer(model, arguments, train_dataset=Sentences(256, 64, 1000)).train()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
