"""Hugging Face Trainer: a causal language model on text, tokenized with `map`, as in `run_clm`."""

import sys
from itertools import chain

import record
from datasets import load_dataset
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

import prebake

set_seed(record.SEED)
record.seed()
raw = load_dataset("text", data_files=sys.argv[1], split="train", cache_dir=str(record.FOLDER / "hf"))
words = Tokenizer(models.BPE(unk_token="[UNK]"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
words.train(
    [sys.argv[1]], trainers.BpeTrainer(vocab_size=2000, special_tokens=["[UNK]"], show_progress=False)
)
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
BLOCK = 64


def tokenize_function(examples):
    return tokenizer(examples["text"])


def group_texts(examples):
    joined = {key: list(chain(*examples[key])) for key in examples}
    length = len(joined["input_ids"]) // BLOCK * BLOCK
    grouped = {key: [t[i : i + BLOCK] for i in range(0, length, BLOCK)] for key, t in joined.items()}
    grouped["labels"] = grouped["input_ids"].copy()
    return grouped


with record.preparing():
    # was: tokens = raw.map(tokenize_function, batched=True, remove_columns=["text"])
    tokens = prebake.hf.map(raw, tokenize_function, batched=True, remove_columns=["text"])
    dataset = tokens.map(group_texts, batched=True)
model = GPT2LMHeadModel(GPT2Config(vocab_size=2000, n_positions=BLOCK, n_embd=32, n_layer=1, n_head=2))


class Recorded(Trainer):
    def compute_loss(self, model, inputs, *args, **kwargs):
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        record.batch(dict(inputs), loss=loss)
        return loss


Recorded(
    model=model,
    args=TrainingArguments(
        output_dir=str(record.FOLDER / "out"),
        max_steps=20,
        per_device_train_batch_size=8,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
    ),
    train_dataset=dataset,
    data_collator=default_data_collator,
).train()
