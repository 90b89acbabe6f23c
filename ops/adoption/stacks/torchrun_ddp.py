"""torchrun: two ranks over gloo, DistributedDataParallel and DistributedSampler. No workers."""

import sys

import record
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import prebake

dist.init_process_group("gloo")
record.seed()
transform = v2.Compose(
    [
        v2.PILToTensor(),
        v2.Resize((112, 112), antialias=True),
        v2.RandomCrop(96),
        v2.ToDtype(torch.float, scale=True),
    ]
)
dataset = ImageFolder(sys.argv[1], transform)
dataset = prebake.wrap(dataset)
sampler = DistributedSampler(dataset, seed=record.SEED)
loader = DataLoader(dataset, batch_size=8, sampler=sampler, drop_last=True)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 7, 4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10)
)
model(torch.zeros(1, 3, 96, 96))
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for image, target in loader:
        loss = torch.nn.functional.cross_entropy(model(image), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.batch(image, target, loss=loss, rank=dist.get_rank())
dist.destroy_process_group()
