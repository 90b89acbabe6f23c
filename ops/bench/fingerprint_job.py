"""A job of the rows of knowing: a torchvision pipeline is fingerprinted, and again. Needs torchvision.

The last line of output is the answer, JSON.
"""

from __future__ import annotations

import json
import time

from torchvision import transforms
from torchvision.datasets.folder import default_loader

from prebake.identity.code import identify


def main() -> None:
    """The command line."""
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    steps = [
        default_loader,
        transforms.Resize(256),
        transforms.CenterCrop(224),
        transforms.ToTensor(),
        transforms.Normalize(mean, std),
    ]
    spent = []
    for _ in range(2):
        start = time.perf_counter()
        for step in steps:
            identify(step)
        spent.append((time.perf_counter() - start) * 1e3)
    print(json.dumps({"fingerprint_ms": spent[:1], "fingerprint_again_ms": spent[1:]}))


if __name__ == "__main__":
    main()
