/* SPDX-License-Identifier: Apache-2.0 */
/* Row operations for what every machine of this architecture has. */
#define ROWOPS_NAME baseline
#define ROWOPS_BYTES 16
#define ROWOPS_TEST true
#include "core/kernels/rowops_set.h"
