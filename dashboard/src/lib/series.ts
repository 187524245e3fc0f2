// SPDX-License-Identifier: Apache-2.0
// Values over time, some of which are not there.

const isThere = (value: number | null | undefined): boolean => (value ?? null) !== null;

/** Places of values without one beside them, to which no line leads. */
export const lonely = (values: ArrayLike<number | null | undefined>): number[] =>
  Array.from(values).flatMap((value, at) =>
    isThere(value) && !isThere(values[at - 1]) && !isThere(values[at + 1]) ? [at] : [],
  );
