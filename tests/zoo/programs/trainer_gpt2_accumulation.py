"""Trains a small GPT-2 with the Trainer, whose optimizer steps every four batches."""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

ABOUT = {
    "what": "transformers Trainer, GPT-2, gradients of 4 batches accumulated",
    "needs": ("transformers", "accelerate"),
    "step": "an optimizer step of the Trainer: four batches",
    "steps": 12,
    "slow": None,
    "rules": (),
    "true": "A step is four forward and backward passes and one update; products take most of it.",
}


def collate(samples):
    tokens = torch.stack(samples)
    return {"input_ids": tokens, "labels": tokens.clone()}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=512,
            n_positions=128,
            n_embd=128,
            n_layer=2,
            n_head=4,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=12,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=4,
            use_cpu=True,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            optim="adamw_torch_fused",
        )
        data = list(torch.randint(512, (256, 64)))
        Trainer(model, arguments, train_dataset=data, data_collator=collate).train()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
