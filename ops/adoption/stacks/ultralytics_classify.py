"""ultralytics: its classification trainer on a model built from its configuration, two workers."""

import sys
from pathlib import Path

import record
from ultralytics import YOLO
from ultralytics.models.yolo.classify import ClassificationTrainer

import prebake


class Trainer(ClassificationTrainer):
    def build_dataset(self, img_path, mode="train", batch=None):
        dataset = super().build_dataset(img_path, mode, batch)
        # was: return dataset
        return prebake.wrap(dataset)

    def preprocess_batch(self, batch):
        batch = super().preprocess_batch(batch)
        if self.model.training:
            record.batch(batch)
        return batch


folder = record.FOLDER.parent / "split"
if not folder.exists():
    folder.mkdir()
    for part in ("train", "val"):
        (folder / part).symlink_to(Path(sys.argv[1]).resolve())
YOLO("yolo11n-cls.yaml").train(
    trainer=Trainer,
    data=str(folder),
    epochs=2,
    imgsz=96,
    batch=16,
    workers=2,
    device="cpu",
    seed=record.SEED,
    val=False,
    plots=False,
    save=False,
    project=str(record.FOLDER),
    verbose=False,
)
