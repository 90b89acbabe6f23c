"""webdataset: shards of JPEGs, decoded and resized in the pipeline. No workers."""

import io
import sys
from pathlib import Path

import numpy
import record
import torch
import webdataset as wds
from PIL import Image

import prebake

record.seed()
folder = record.FOLDER.parent / "shards"
if not folder.exists():
    folder.mkdir()
    files = sorted(Path(sys.argv[1]).glob("*/*"))
    with wds.ShardWriter(str(folder / "%03d.tar"), maxcount=40, verbose=0) as writer:
        for i, file in enumerate(files):
            writer.write({"__key__": f"{i:05}", "jpg": file.read_bytes(), "cls": int(file.parent.name[-1])})


def decode(sample):
    image = Image.open(io.BytesIO(sample["jpg"])).convert("RGB").resize((96, 96))
    return {**sample, "jpg": numpy.asarray(image)}


shards = sorted(str(path) for path in folder.glob("*.tar"))
dataset = wds.WebDataset(shards, shardshuffle=False)
# was: dataset = dataset.map(decode)
dataset = dataset.compose(prebake.wds.cached(wds.map(decode)))
dataset = dataset.shuffle(64, seed=record.SEED).to_tuple("jpg", "cls").batched(16, partial=False)
loader = wds.WebLoader(dataset, batch_size=None)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 7, 4), torch.nn.Flatten(), torch.nn.LazyLinear(10))
model(torch.zeros(1, 3, 96, 96))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _epoch in range(2):
    for image, target in loader:
        x = torch.as_tensor(image).permute(0, 3, 1, 2) / 255
        y = torch.tensor([int(each) for each in target])
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.batch(x, y, loss=loss)
