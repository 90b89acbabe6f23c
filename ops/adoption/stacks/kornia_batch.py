"""kornia: decoded and resized in the data set, augmented as batches in the step. No workers."""

import sys

import kornia.augmentation as K
import record
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import Compose, Resize, ToTensor

import prebake

record.seed()
dataset = ImageFolder(sys.argv[1], Compose([Resize((96, 96)), ToTensor()]))
dataset = prebake.wrap(dataset)
loader = DataLoader(dataset, batch_size=16, shuffle=True, drop_last=True)
augment = K.AugmentationSequential(
    K.RandomHorizontalFlip(p=0.5), K.ColorJitter(0.1, 0.1, 0.1, 0.1, p=0.8), data_keys=["input"]
)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 7, 4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10)
)
model(torch.zeros(1, 3, 96, 96))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _epoch in range(2):
    for image, target in loader:
        augmented = augment(image)
        loss = torch.nn.functional.cross_entropy(model(augmented), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.batch(image, augmented, target, loss=loss)
