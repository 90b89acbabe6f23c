"""Lightning: a data module and a Trainer, two workers."""

import sys

import lightning
import record
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import prebake


class Images(lightning.LightningDataModule):
    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        self.transform = v2.Compose(
            [
                v2.ToImage(),
                v2.Resize((112, 112)),
                v2.RandomCrop(96),
                v2.RandomHorizontalFlip(),
                v2.ToDtype(torch.float, scale=True),
                v2.ToPureTensor(),
            ]
        )

    def setup(self, stage):
        self.train = ImageFolder(self.folder, self.transform)
        self.train = prebake.wrap(self.train)

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=16, shuffle=True, num_workers=2, drop_last=True)


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 7, 4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10)
        )
        self.model(torch.zeros(1, 3, 96, 96))

    def training_step(self, batch, batch_idx):
        image, target = batch
        loss = torch.nn.functional.cross_entropy(self.model(image), target)
        record.batch(image, target, loss=loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


lightning.seed_everything(record.SEED, workers=True)
trainer = lightning.Trainer(
    max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
)
trainer.fit(Classifier(), datamodule=Images(sys.argv[1]))
