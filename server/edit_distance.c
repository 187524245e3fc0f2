/* SPDX-License-Identifier: Apache-2.0 */
/* See edit_distance.h: three rows of the usual table at a time. */
#include "server/edit_distance.h"

#include <string.h>

#include "core/checked.h"

size_t edit_distance(const char *a, const char *b) {
    size_t rows[3][EDIT_LONGEST + 1];
    const size_t length = strnlen(a, EDIT_LONGEST), width = strnlen(b, EDIT_LONGEST);
    for (size_t j = 0; j <= width; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= length; i++) {
        size_t *const row = rows[i % 3];
        const size_t *const above = rows[(i - 1) % 3], *const two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= width; j++) {
            const size_t change = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = attn_min_size(change, attn_min_size(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = attn_min_size(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[length % 3][width];
}
