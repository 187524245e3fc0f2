# SPDX-License-Identifier: Apache-2.0
"""Names for types that every module uses."""
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]


def tensor(given: Any) -> Array:
    """As an array; lists of plain numbers, whole ones too, are float32, as they are in JSON."""
    first = given
    while isinstance(first, (list, tuple)) and first:
        first = first[0]
    plain = first is not given and type(first) in (int, float)
    return np.asarray(given, np.float32 if plain else None)
