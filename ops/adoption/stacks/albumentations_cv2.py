"""Albumentations on a data set of one's own, as in its PyTorch classification tutorial, two workers."""

import sys
from pathlib import Path

import albumentations as A
import cv2
import record
import torch
from albumentations.pytorch import ToTensorV2
from torch.utils.data import DataLoader, Dataset

import prebake


class Images(Dataset):
    def __init__(self, images_filepaths, transform=None):
        self.images_filepaths = images_filepaths
        self.transform = transform

    def __len__(self):
        return len(self.images_filepaths)

    def __getitem__(self, idx):
        image_filepath = self.images_filepaths[idx]
        image = cv2.imread(image_filepath)
        image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
        label = int(Path(image_filepath).parent.name[-1])
        if self.transform is not None:
            image = self.transform(image=image)["image"]
        return image, label


record.seed()
transform = A.Compose(
    [
        A.SmallestMaxSize(max_size=112),
        A.RandomCrop(height=96, width=96),
        A.HorizontalFlip(p=0.5),
        A.RandomBrightnessContrast(p=0.5),
        A.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
        ToTensorV2(),
    ],
    seed=record.SEED,
)
files = sorted(str(path) for path in Path(sys.argv[1]).glob("*/*"))
dataset = Images(files, transform)
dataset = prebake.wrap(dataset, inputs=files.__getitem__)
loader = DataLoader(dataset, batch_size=16, shuffle=True, num_workers=2, drop_last=True)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 7, 4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10)
)
model(torch.zeros(1, 3, 96, 96))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _epoch in range(2):
    for image, target in loader:
        loss = torch.nn.functional.cross_entropy(model(image), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.batch(image, target, loss=loss)
