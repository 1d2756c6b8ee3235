"""Trains adapters (LoRA) of a small GPT-2 with peft and the Trainer."""

import tempfile

import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

ABOUT = {
    "what": "transformers Trainer, LoRA of peft",
    "needs": ("transformers", "peft", "accelerate"),
    "step": "an optimizer step of the Trainer",
    "steps": 20,
    "slow": None,
    "rules": (),
    "true": "The frozen products take most of a step; only the adapters are updated.",
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
            n_positions=64,
            n_embd=192,
            n_layer=3,
            n_head=4,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            activation_function="gelu_pytorch_tanh",
        )
    )
    model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules=["c_attn"], fan_in_fan_out=True))
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=20,
            per_device_train_batch_size=8,
            use_cpu=True,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            optim="adamw_torch_fused",
        )
        Trainer(model, arguments, train_dataset=list(torch.randint(512, (160, 64))), data_collator=collate).train()
    print("digest", sum(p.double().sum().item() for p in model.parameters() if p.requires_grad))


if __name__ == "__main__":
    main()
