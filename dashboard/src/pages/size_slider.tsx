// SPDX-License-Identifier: Apache-2.0
// d, any whole number from 1 on: what grows with it grows over decades, and so does the slider.
import { useEffect, useState } from "preact/hooks";
import { useSettled } from "../lib/hooks.ts";

const MARKS = [4, 64, 512] as const;

/** The next size that a key means. */
const STEPS: Record<string, (size: number) => number> = {
  ArrowLeft: (size) => size - 1,
  ArrowDown: (size) => size - 1,
  ArrowRight: (size) => size + 1,
  ArrowUp: (size) => size + 1,
  PageDown: (size) => Math.round(size / 2),
  PageUp: (size) => size * 2,
  Home: () => 1,
  End: () => Infinity,
};

interface SizeSliderProps {
  size: number;
  most: number;
  onChange: (size: number) => void;
}

export function SizeSlider({ size, most, onChange }: SizeSliderProps) {
  const [shown, setShown] = useState(size);
  useEffect(() => setShown(size), [size]);
  const settled = useSettled(shown, 150);
  useEffect(() => {
    if (settled !== size) onChange(settled);
  }, [settled]);
  const onKeyDown = (event: KeyboardEvent) => {
    const step = STEPS[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    setShown((old) => Math.min(most, Math.max(1, step(old))));
  };
  return (
    <label class="field size">
      <span>d = {shown}</span>
      <input
        type="range"
        min={0}
        max={Math.log2(most)}
        step="any"
        list="sizes"
        value={Math.log2(shown)}
        aria-valuetext={`d = ${shown}`}
        onInput={(event) => setShown(Math.round(2 ** Number(event.currentTarget.value)))}
        onKeyDown={onKeyDown}
      />
      <datalist id="sizes">
        {MARKS.map((mark) => (
          <option key={mark} value={Math.log2(mark)} label={String(mark)} />
        ))}
      </datalist>
    </label>
  );
}
