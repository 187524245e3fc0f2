# SPDX-License-Identifier: Apache-2.0
"""Names for types that every module uses."""
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
