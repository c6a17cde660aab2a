"""The Trainer of transformers on a small model of its own, with two batches to an optimizer's step."""

import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

torch.manual_seed(0)
model = BertForSequenceClassification(
    BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
)
data = [
    {"input_ids": torch.randint(64, (12,)), "attention_mask": torch.ones(12, dtype=torch.long), "labels": index % 2}
    for index in range(256)
]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, num_train_epochs=4, per_device_train_batch_size=4, gradient_accumulation_steps=2, report_to=[],
        save_strategy="no", logging_strategy="no", use_cpu=not torch.cuda.is_available(), disable_tqdm=True,
    )  # fmt: skip
    Trainer(model=model, args=arguments, train_dataset=data).train()
