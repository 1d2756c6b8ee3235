"""Greedy decoding without a cache of keys and values; the twin has it."""

import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

ABOUT = {
    "what": "transformers generate, greedy, without a KV cache",
    "needs": ("transformers",),
    "step": "a token: a forward pass of the model",
    "steps": None,
    "slow": "the whole sequence is computed again for each token",
    "rules": (),
    "true": "Each token costs a pass over all tokens before it; with the cache it costs a pass over one.",
}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=512,
            n_positions=256,
            n_embd=192,
            n_layer=4,
            n_head=4,
            activation_function="gelu_pytorch_tanh",
            bos_token_id=1,
            eos_token_id=None,
        )
    ).eval()
    prompt = torch.randint(512, (2, 96))
    with torch.inference_mode():
        tokens = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=64,
            do_sample=False,
            pad_token_id=0,
            use_cache="--fixed" in sys.argv,
        )
    print("digest", tokens.sum().item())


if __name__ == "__main__":
    main()
