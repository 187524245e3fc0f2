// SPDX-License-Identifier: Apache-2.0
// Numbers and times as people read them.

/** Four significant digits; a float16 that lost all of it says so. */
export function number(value: number, digits = 4): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "+∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text =
    size >= 1e-3 && size < 1e6
      ? String(Number(value.toPrecision(digits)))
      : value.toExponential(digits - 2).replace(/\.?0+e/, "e");
  return text.replace("-", "−");
}

/** A number and its unit, which stay on one line. */
const withUnit = (text: string, unit: string): string => `${text}\u00a0${unit}`;

export const percent = (share: number): string =>
  Number.isFinite(share) ? withUnit(number(100 * share, 3), "%") : number(share);

/** "1 head", "2 heads" */
export const counted = (count: number, one: string, many = `${one}s`): string =>
  `${count} ${count === 1 ? one : many}`;

export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = count > 0 ? Math.min(units.length - 1, Math.floor(Math.log2(count) / 10)) : 0;
  return withUnit(number(count / 1024 ** power, 3), units[power]);
}

export function milliseconds(value: number): string {
  return value < 1
    ? withUnit(number(value * 1000, 3), "µs")
    : value < 1000
      ? withUnit(number(value, 3), "ms")
      : withUnit(number(value / 1000, 3), "s");
}

/** The time of day of a time in any form that the service has: seconds, or text. */
export function clockOf(time: number | string): string {
  const date = new Date(typeof time === "number" ? time * 1000 : time);
  return Number.isNaN(date.getTime())
    ? String(time)
    : date.toLocaleTimeString([], { hourCycle: "h23" });
}

/** "key 3 'cat'", or without the token where there is none. */
export function named(
  kind: "query" | "key",
  index: number,
  tokens: readonly string[] | null,
): string {
  const token = tokens?.[index];
  return token === undefined ? `${kind} ${index}` : `${kind} ${index} “${token}”`;
}
