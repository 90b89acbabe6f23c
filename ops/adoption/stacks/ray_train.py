"""Ray Train: TorchTrainer with two workers, each with a prepared loader over ImageFolder."""

import sys

import ray
import ray.train.torch
import record
import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import prebake


def train_loop(config):
    record.seed()
    transform = v2.Compose(
        [
            v2.Resize(112),
            v2.RandomCrop(96),
            v2.ToImage(),
            v2.ToDtype(torch.float, scale=True),
            v2.ToPureTensor(),
        ]
    )
    dataset = ImageFolder(config["folder"], transform)
    dataset = prebake.wrap(dataset)
    loader = DataLoader(dataset, batch_size=8, shuffle=True, drop_last=True)
    loader = ray.train.torch.prepare_data_loader(loader)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 7, 4), torch.nn.Flatten(), torch.nn.LazyLinear(10))
    model(torch.zeros(1, 3, 96, 96))
    model = ray.train.torch.prepare_model(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rank = ray.train.get_context().get_world_rank()
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        for image, target in loader:
            loss = torch.nn.functional.cross_entropy(model(image), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.batch(image, target, loss=loss, rank=rank)


ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1")
TorchTrainer(
    train_loop,
    train_loop_config={"folder": sys.argv[1]},
    scaling_config=ScalingConfig(num_workers=2, use_gpu=False),
    run_config=RunConfig(storage_path=str(record.FOLDER / "ray")),
).fit()
ray.shutdown()
