"""Gradient checkpointing was switched on for a larger model; this one fits without. The twin leaves it off."""

import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

ABOUT = {
    "what": "transformers Trainer, gradient checkpointing that is not needed",
    "needs": ("transformers", "accelerate"),
    "step": "an optimizer step of the Trainer",
    "steps": 16,
    "slow": "the forward pass of each block runs again in the backward pass",
    "rules": (),
    "true": "Each block is computed twice; without checkpointing a step takes about a fifth less.",
}


def collate(samples):
    tokens = torch.stack(samples)
    return {"input_ids": tokens, "labels": tokens.clone()}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=256,
            n_positions=64,
            n_embd=128,
            n_layer=3,
            n_head=4,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            activation_function="gelu_pytorch_tanh",
            use_cache=False,
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=16,
            per_device_train_batch_size=8,
            use_cpu=True,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            optim="adamw_torch_fused",
            gradient_checkpointing="--fixed" not in sys.argv,
        )
        data = list(torch.randint(256, (128, 64)))
        Trainer(model, arguments, train_dataset=data, data_collator=collate).train()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
