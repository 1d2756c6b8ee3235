"""Trains a small GPT-2 with the Trainer, whose optimizer steps every four batches. Its activation is written out; the twin takes the one of torch."""

import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

ABOUT = {
    "what": "transformers Trainer, GPT-2, gradients of 4 batches accumulated, default activation",
    "needs": ("transformers", "accelerate"),
    "step": "an optimizer step of the Trainer: four batches",
    "steps": 12,
    "slow": "GPT-2's default activation, `gelu_new`, is written out in eight operators",
    "rules": ("HOST003",),
    "true": "`gelu_new` is eight element-wise operators and their gradients; `gelu_pytorch_tanh` is one.",
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
            activation_function="gelu_pytorch_tanh" if "--fixed" in sys.argv else "gelu_new",
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
