"""Edits between two reads, by name. Each must show from the next read on, as it would without a cache."""

from __future__ import annotations

import random
from collections.abc import Callable

import file_edits
import state_edits
from target import Target


def nothing(job: Target) -> None:
    """So that an epoch may also follow upon another unchanged."""


#: A seed chooses by position: what is added belongs at the end, or all seeds mean something else.
EDITS: dict[str, Callable[[Target], None]] = {
    "nothing": nothing,
    "pixel": file_edits.pixel,
    "same size": file_edits.same_size,
    "label": file_edits.label,
    "configuration": state_edits.configuration,
    "class attributes": state_edits.class_attributes,
    "lookup table": state_edits.lookup_table,
    "helper global": state_edits.helper_global,
    "helper function": state_edits.helper_function,
    "held array": state_edits.held_array,
    "held table": state_edits.held_table,
    "replace": file_edits.replace,
    "extra": state_edits.extra,
    "add file": file_edits.add_file,
    "touch": file_edits.touch,
    "inherited attribute": state_edits.inherited_attribute,
    "variable": state_edits.variable,
    "deep": state_edits.deep,
    "module global": state_edits.module_global,
    "array global": state_edits.array_global,
    "object global": state_edits.object_global,
    "object field": state_edits.object_field,
    "other module": state_edits.other_module,
    "other module of it": state_edits.other_module_of_it,
    "held by property": state_edits.held_otherwise,
    "held in slot": state_edits.held_otherwise,
    "bound object": state_edits.bound_object,
    "cell": state_edits.cell,
    "default": state_edits.default,
    "held nested": state_edits.held_nested,
    "weights": state_edits.weights,
    "epoch": state_edits.epoch,
    "sidecar": file_edits.sidecar,
    "remove sidecars": file_edits.remove_sidecars,
    "step method": state_edits.step_method,
    "bound method": state_edits.bound_method,
    "swap": file_edits.swap,
    "data in memory": state_edits.data_in_memory,
}


def draw(numbers: random.Random) -> str:
    """Which edit is next."""
    return numbers.choice(list(EDITS))
