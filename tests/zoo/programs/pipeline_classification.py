"""Classifies texts one by one with a pipeline of transformers, as its tutorial does; a tokenizer is made here."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast, pipeline

ABOUT = {
    "what": "transformers pipeline, texts one by one",
    "needs": ("transformers",),
    "step": "a call of the model: one text",
    "steps": None,
    "slow": None,
    "rules": (),
    "true": "Each text is a batch of one, as it is asked for; the model's products and the pipeline's own Python share it.",
}


def tokenizer():
    words = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "slow": 4, "fast": 5, "step": 6, "model": 7}
    made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", pad_token="[PAD]")


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = BertForSequenceClassification(
        BertConfig(vocab_size=8, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024)
    ).eval()
    classify = pipeline("text-classification", model=model, tokenizer=tokenizer(), device="cpu")
    texts = ["slow step " * 40, "fast model " * 40] * 20
    scores = [classify(text)[0]["score"] for text in texts]
    print("digest", sum(scores))


if __name__ == "__main__":
    main()
