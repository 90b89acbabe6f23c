"""Fine-tuning with torchvision's own inference transform: all of it is deterministic. No workers."""

import sys

import record
import torch
from torch.utils.data import DataLoader, random_split
from torchvision import models
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import prebake

record.seed()
transform = v2.Compose(
    [
        v2.Resize(112),
        v2.CenterCrop(96),
        v2.ToImage(),
        v2.ToDtype(torch.float, scale=True),
        v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        v2.ToPureTensor(),
    ]
)
dataset = ImageFolder(sys.argv[1], transform)
train, _ = random_split(dataset, [0.9, 0.1])
train = prebake.wrap(train)
loader = DataLoader(train, batch_size=16, shuffle=True, drop_last=True)
model = models.squeezenet1_1(num_classes=10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _epoch in range(2):
    for image, target in loader:
        loss = torch.nn.functional.cross_entropy(model(image), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.batch(image, target, loss=loss)
