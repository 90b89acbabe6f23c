"""Accelerate's `cv_example`: a data set of its own over a list of files, all prepared."""

import os
import sys

import record
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import Compose, RandomResizedCrop, ToTensor

import prebake


def extract_label(fname):
    return os.path.basename(os.path.dirname(fname))


class PetsDataset(Dataset):
    def __init__(self, file_names, image_transform=None, label_to_id=None):
        self.file_names = file_names
        self.image_transform = image_transform
        self.label_to_id = label_to_id

    def __len__(self):
        return len(self.file_names)

    def __getitem__(self, idx):
        fname = self.file_names[idx]
        raw_image = Image.open(fname)
        image = raw_image.convert("RGB")
        if self.image_transform is not None:
            image = self.image_transform(image)
        label = extract_label(fname)
        if self.label_to_id is not None:
            label = self.label_to_id[label]
        return {"image": image, "label": label}


record.seed()
set_seed(record.SEED)
accelerator = Accelerator(cpu=True)
files = sorted(os.path.join(folder, name) for folder, _, names in os.walk(sys.argv[1]) for name in names)
labels = sorted({extract_label(file) for file in files})
train_tfm = Compose([RandomResizedCrop(96, scale=(0.5, 1.0)), ToTensor()])
dataset = PetsDataset(files, train_tfm, {label: i for i, label in enumerate(labels)})
dataset = prebake.wrap(dataset)
loader = DataLoader(dataset, shuffle=True, batch_size=16, num_workers=2, drop_last=True)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 7, 4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(len(labels))
)
model(torch.zeros(1, 3, 96, 96))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for _epoch in range(2):
    for batch in loader:
        loss = torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"])
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        record.batch(batch, loss=loss)
