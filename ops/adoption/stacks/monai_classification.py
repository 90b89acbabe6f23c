"""MONAI: dictionary transforms as in its tutorial, its own Dataset and DataLoader, two workers."""

import sys
from pathlib import Path

import monai
import record
import torch
from monai.transforms import (
    Compose,
    EnsureChannelFirstd,
    LoadImaged,
    RandFlipd,
    RandRotated,
    RandZoomd,
    Resized,
    ScaleIntensityd,
)

import prebake

record.seed()
monai.utils.set_determinism(seed=record.SEED)
files = sorted(Path(sys.argv[1]).glob("*/*"))
classes = sorted({file.parent.name for file in files})
data = [{"image": str(file), "label": classes.index(file.parent.name)} for file in files]
transform = Compose(
    [
        LoadImaged(
            keys="image", image_only=True, reader="PILReader", converter=lambda image: image.convert("RGB")
        ),
        EnsureChannelFirstd(keys="image", channel_dim=-1),
        ScaleIntensityd(keys="image"),
        Resized(keys="image", spatial_size=(96, 96)),
        RandRotated(keys="image", range_x=0.26, prob=0.5, keep_size=True),
        RandFlipd(keys="image", spatial_axis=0, prob=0.5),
        RandZoomd(keys="image", min_zoom=0.9, max_zoom=1.1, prob=0.5),
    ]
)
dataset = monai.data.Dataset(data=data, transform=transform)
dataset = prebake.wrap(dataset)
loader = monai.data.DataLoader(dataset, batch_size=16, shuffle=True, num_workers=2, drop_last=True)
model = monai.networks.nets.Classifier(
    in_shape=(3, 96, 96), classes=len(classes), channels=(4, 8), strides=(4, 4)
)
optimizer = torch.optim.Adam(model.parameters(), 1e-5)
for _epoch in range(2):
    for batch in loader:
        loss = torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.batch({"image": batch["image"], "label": batch["label"]}, loss=loss)
