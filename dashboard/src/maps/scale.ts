// SPDX-License-Identifier: Apache-2.0
// From a value to one of the colours.
import { LEVELS, diverging, sequential, type Ramp } from "../lib/colours.ts";
import { Kind, type Grid } from "../sources/source.ts";

export interface Scale {
  low: number;
  high: number;
  isLog: boolean;
  isDiverging: boolean;
}

export const rampOf = (scale: Scale): Ramp => (scale.isDiverging ? diverging : sequential);

/** Whole numbers from 0 to 255; what lies outside the range has the colour of its end. */
export function levelOf({ low, high, isLog }: Scale, value: number): number {
  const part = isLog ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  return Number.isNaN(part) ? 0 : Math.round(Math.min(1, Math.max(0, part)) * (LEVELS - 1));
}

/** The value in the middle of a level's colour. */
export function valueOf({ low, high, isLog }: Scale, level: number): number {
  const part = level / (LEVELS - 1);
  return isLog ? low * (high / low) ** part : low + part * (high - low);
}

/** The largest magnitude among a grid's finite values. */
export function largest(grid: Grid): number {
  let most = 0;
  grid.values.forEach((value, i) => {
    if (grid.kinds[i] === Kind.Value) most = Math.max(most, Math.abs(value));
  });
  return most;
}

/** Both ends at the same distance from zero, where a difference and a score have their middle. */
export function around(most: number): Scale {
  return { low: -(most || 1), high: most || 1, isLog: false, isDiverging: true };
}
