// SPDX-License-Identifier: Apache-2.0
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Grid } from "../sources/source.ts";
import { useTheme } from "../ui/theme.ts";
import { drawGlyphs, paint, type View } from "./drawing.ts";
import type { Scale } from "./scale.ts";

interface HeatmapProps {
  grid: Grid;
  view: View;
  scale: Scale;
  width: number;
  height: number;
  name?: string; // for those who cannot see it; without one it is decoration
  isMaskOnly?: boolean;
}

/** A grid as a picture; who needs the numbers is shown them beside it. */
export function Heatmap({ grid, view, scale, width, height, name, isMaskOnly }: HeatmapProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  useLayoutEffect(() => {
    const context = canvas.current!.getContext("2d")!;
    const image = context.createImageData(width, height);
    paint(image, grid, view, { scale, theme, isMaskOnly });
    context.putImageData(image, 0, 0);
    if (!isMaskOnly) drawGlyphs(context, grid, view);
  }, [
    grid,
    view.rows.join(),
    view.cols.join(),
    scale.low,
    scale.high,
    scale.isLog,
    scale.isDiverging,
    width,
    height,
    theme,
    isMaskOnly,
  ]);
  return (
    <canvas
      ref={canvas}
      width={width}
      height={height}
      {...(name ? { role: "img", "aria-label": name } : { "aria-hidden": true })}
    />
  );
}
