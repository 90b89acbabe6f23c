"""open_clip: its trainer's CsvDataset, image transform and tokenizer, a small model, two workers."""

import csv
import sys
from pathlib import Path

import open_clip
import record
import torch
from open_clip.transform import image_transform
from open_clip_train.data import CsvDataset
from torch.utils.data import DataLoader

import prebake

record.seed()
table = record.FOLDER.parent / "pairs.csv"
if not table.exists():
    with table.open("w", newline="") as file:
        rows = csv.writer(file, delimiter="\t")
        rows.writerow(["filepath", "title"])
        rows.writerows(
            [path, f"a photo of {path.parent.name}"] for path in sorted(Path(sys.argv[1]).glob("*/*"))
        )
transform = image_transform(96, is_train=True, mean=(0.48, 0.46, 0.41), std=(0.27, 0.26, 0.28))
tokenizer = open_clip.SimpleTokenizer(context_length=16)
dataset = CsvDataset(str(table), transform, "filepath", "title", sep="\t", tokenizer=tokenizer)
dataset = prebake.wrap(dataset)
loader = DataLoader(dataset, batch_size=16, shuffle=True, num_workers=2, drop_last=True)
model = open_clip.CLIP(
    embed_dim=32,
    vision_cfg={"image_size": 96, "layers": 1, "width": 64, "patch_size": 16},
    text_cfg={"context_length": 16, "vocab_size": tokenizer.vocab_size, "width": 64, "heads": 2, "layers": 1},
)
criterion = open_clip.ClipLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _epoch in range(2):
    for images, texts in loader:
        loss = criterion(*model(images, texts))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.batch(images, texts, loss=loss)
