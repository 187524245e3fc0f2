// SPDX-License-Identifier: Apache-2.0
// The colours of maps: the ramps that the daemon draws its PNG in (tools/generate_ramps.c). A ramp
// goes through anchors in Oklab and is cut into steps that look equally long; its lightness falls
// all the way, so that order shows in grey and to the colour-blind.

type Anchor = readonly [lightness: number, chroma: number, hue: number];
type Lab = readonly [number, number, number];
/** Red, green and blue of each level, one after the other. */
export type Ramp = Uint8Array;
export const LEVELS = 256;

const SEQUENTIAL: readonly Anchor[] = [
  [0.985, 0.015, 95],
  [0.9, 0.085, 125],
  [0.8, 0.115, 160],
  [0.68, 0.105, 195],
  [0.55, 0.115, 240],
  [0.42, 0.135, 270],
  [0.3, 0.115, 283],
  [0.2, 0.06, 290],
];
const BELOW: readonly Anchor[] = [
  [0.975, 0.004, 245],
  [0.9, 0.04, 240],
  [0.76, 0.095, 245],
  [0.6, 0.125, 252],
  [0.45, 0.12, 260],
  [0.28, 0.085, 267],
];
const ABOVE: readonly Anchor[] = [
  [0.975, 0.004, 70],
  [0.9, 0.05, 70],
  [0.78, 0.115, 62],
  [0.63, 0.145, 48],
  [0.47, 0.135, 38],
  [0.29, 0.08, 30],
];

function labAt(anchors: readonly Anchor[], place: number): Lab {
  const x = place * (anchors.length - 1);
  const left = Math.min(Math.floor(x), anchors.length - 2);
  const from = anchors[left],
    to = anchors[left + 1];
  const mix = (i: number) => from[i] + (x - left) * (to[i] - from[i]);
  const hue = (mix(2) * Math.PI) / 180;
  return [mix(0), mix(1) * Math.cos(hue), mix(1) * Math.sin(hue)];
}

function encoded(linear: number): number {
  const part = Math.min(1, Math.max(0, linear));
  return Math.round(255 * (part <= 0.0031308 ? 12.92 * part : 1.055 * part ** (1 / 2.4) - 0.055));
}

function toRgb([L, a, b]: Lab): number[] {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map(encoded);
}

/** `count` colours at equal distances from each other. */
function evenly(anchors: readonly Anchor[], count: number): number[][] {
  const fine = 2048;
  const points = Array.from({ length: fine + 1 }, (_, i) => labAt(anchors, i / fine));
  const lengths = [0];
  for (let i = 1; i <= fine; i++)
    lengths.push(
      lengths[i - 1] + Math.hypot(...points[i].map((x, axis) => x - points[i - 1][axis])),
    );
  let at = 0;
  return Array.from({ length: count }, (_, level) => {
    const wanted = (lengths[fine] * level) / (count - 1);
    while (at < fine - 1 && lengths[at + 1] < wanted) at++;
    const part = (wanted - lengths[at]) / (lengths[at + 1] - lengths[at]);
    return toRgb(labAt(anchors, (at + part) / fine));
  });
}

export const sequential: Ramp = Uint8Array.from(evenly(SEQUENTIAL, LEVELS).flat());
export const diverging: Ramp = Uint8Array.from(
  [...evenly(BELOW, LEVELS / 2).reverse(), ...evenly(ABOVE, LEVELS / 2)].flat(),
);

export const css = (ramp: Ramp, level: number): string =>
  `rgb(${ramp.subarray(3 * level, 3 * level + 3).join(" ")})`;
