"""torchaudio: a data set over WAV files, mel spectrograms, masked in the step. No workers."""

import sys
from pathlib import Path

import record
import soundfile
import torch
import torchaudio
from torch.utils.data import DataLoader, Dataset

import prebake


class Digits(Dataset):
    def __init__(self, folder, transform=None):
        self.files = sorted(Path(folder).glob("*.wav"))
        self.transform = transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        samples, rate = soundfile.read(self.files[index], dtype="float32")
        waveform = torchaudio.functional.resample(torch.from_numpy(samples)[None], rate, 16000)
        waveform = torch.nn.functional.pad(waveform, (0, 16000))[:, :16000]
        if self.transform is not None:
            waveform = self.transform(waveform)
        return waveform, int(self.files[index].name[0])


record.seed()
transform = torch.nn.Sequential(
    torchaudio.transforms.MelSpectrogram(sample_rate=16000, n_mels=64),
    torchaudio.transforms.AmplitudeToDB(),
)
dataset = Digits(sys.argv[1], transform)
dataset = prebake.wrap(dataset, inputs=dataset.files.__getitem__)
loader = DataLoader(dataset, batch_size=16, shuffle=True, drop_last=True)
mask = torch.nn.Sequential(torchaudio.transforms.TimeMasking(20), torchaudio.transforms.FrequencyMasking(10))
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(10))
optimizer = None
for _epoch in range(2):
    for spectrogram, target in loader:
        loss = torch.nn.functional.cross_entropy(model(mask(spectrogram)), target)
        optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=1e-4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.batch(spectrogram, target, loss=loss)
