"""Keras on tf.data: files listed, decoded, resized, cached, shuffled, as in TensorFlow's tutorial."""

import sys

import keras
import record
import tensorflow as tf

import prebake

keras.utils.set_random_seed(record.SEED)


def process_path(file_path):
    image = tf.io.decode_jpeg(tf.io.read_file(file_path), channels=3)
    label = tf.strings.to_number(tf.strings.substr(tf.strings.split(file_path, "/")[-2], -1, 1), tf.int32)
    return tf.image.resize(image, [96, 96]), label


files = tf.data.Dataset.list_files(sys.argv[1] + "/*/*", shuffle=False)
dataset = files.map(process_path)
# was: dataset = dataset.cache()
dataset = dataset.apply(prebake.tf.cache())
with record.preparing():
    for _ in dataset:
        pass
dataset = dataset.shuffle(1000, seed=record.SEED).batch(16, drop_remainder=True)
model = keras.Sequential(
    [
        keras.layers.Rescaling(1 / 255),
        keras.layers.Conv2D(8, 7, 4, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(10),
    ]
)


class Recorded(keras.Sequential):
    def train_step(self, data):
        logs = super().train_step(data)
        record.batch(*data, loss=logs["loss"])
        return logs


model = Recorded(model.layers)
model.compile(
    optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), run_eagerly=True
)
model.fit(dataset, epochs=2, verbose=0)
