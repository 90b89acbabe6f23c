"""torchvision's reference training: ImageFolder and transforms v2, two workers."""

import sys

import record
import torch
from torch.utils.data import DataLoader
from torchvision import models
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import prebake

record.seed()
transform = v2.Compose(
    [
        v2.RandomResizedCrop(96, antialias=True),
        v2.RandomHorizontalFlip(),
        v2.PILToTensor(),
        v2.ToDtype(torch.float, scale=True),
        v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        v2.ToPureTensor(),
    ]
)
dataset = ImageFolder(sys.argv[1], transform)
dataset = prebake.wrap(dataset)
loader = DataLoader(dataset, batch_size=16, shuffle=True, num_workers=2, drop_last=True)
model = models.shufflenet_v2_x0_5(num_classes=10)
criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _epoch in range(2):
    for image, target in loader:
        loss = criterion(model(image), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.batch(image, target, loss=loss)
