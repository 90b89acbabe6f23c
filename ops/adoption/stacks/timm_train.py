"""timm: create_dataset, create_loader with its training transform, create_model; two workers."""

import sys

import record
import timm
import torch
from timm.data import create_dataset, create_loader
from timm.optim import create_optimizer_v2

import prebake

record.seed()
dataset = create_dataset("folder", root=sys.argv[1])
dataset = prebake.wrap(dataset)
loader = create_loader(
    dataset,
    input_size=(3, 96, 96),
    batch_size=16,
    is_training=True,
    use_prefetcher=False,
    auto_augment="rand-m7-mstd0.5-inc1",
    re_prob=0.25,
    num_workers=2,
    persistent_workers=False,
)
model = timm.create_model("test_resnet", pretrained=False, num_classes=10)
optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3)
for _epoch in range(2):
    for image, target in loader:
        loss = torch.nn.functional.cross_entropy(model(image), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.batch(image, target, loss=loss)
