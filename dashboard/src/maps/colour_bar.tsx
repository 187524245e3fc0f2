// SPDX-License-Identifier: Apache-2.0
import { useLayoutEffect, useRef } from "preact/hooks";
import { LEVELS } from "../lib/colours.ts";
import { number } from "../lib/text.ts";
import { rampOf, valueOf, type Scale } from "./scale.ts";

/** All colours with what they stand for; hidden and odd cells have signs of their own. */
export function ColourBar({ scale, text, odd }: { scale: Scale; text: string; odd: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const context = canvas.current!.getContext("2d")!;
    const image = context.createImageData(LEVELS, 1);
    const ramp = rampOf(scale);
    for (let level = 0; level < LEVELS; level++)
      image.data.set([...ramp.subarray(3 * level, 3 * level + 3), 255], 4 * level);
    context.putImageData(image, 0, 0);
  }, [scale.isDiverging]);
  return (
    <figure class="colourbar">
      <div class="bar">
        <div>
          <canvas ref={canvas} width={LEVELS} height={1} aria-hidden="true" />
          <div class="ticks">
            {[0, 0.25, 0.5, 0.75, 1].map((part) => (
              <span key={part}>{number(valueOf(scale, part * (LEVELS - 1)), 2)}</span>
            ))}
          </div>
        </div>
        <span class="sign">
          <span class="hatch" /> hidden
        </span>
        <span class="sign">
          <span class="odd" /> NaN, ∞{odd > 0 && <strong>({odd} here)</strong>}
        </span>
      </div>
      <figcaption>{text}</figcaption>
    </figure>
  );
}
