/** What the colours of the heat map mean. */

import { useEffect, useRef } from "preact/hooks";
import { GPU_STATES, type Metric } from "../api/types";
import { theme } from "../state/theme";
import { axisValues } from "../units";
import { LEVELS, ramp } from "./colour";
import { rampOf, type Scale } from "./picture";

export function HeatLegend({ metric, scale }: { metric: Metric | null; scale: Scale }) {
  return (
    <div class="heat-legend">
      {metric ? <Ramp metric={metric} scale={scale} /> : <States />}
      <span class="legend-item">
        <span class="swatch hatched" /> no data
      </span>
    </div>
  );
}

function States() {
  return (
    <>
      {GPU_STATES.filter((state) => state !== "unknown").map((state) => (
        <span class="legend-item" key={state}>
          <span class={`swatch state-${state}`} /> {state}
        </span>
      ))}
    </>
  );
}

function Ramp({ metric, scale }: { metric: Metric; scale: Scale }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const shade = theme.value;
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    ramp(shade, rampOf(metric.unit)).forEach((colour, level) => {
      context.fillStyle = colour;
      context.fillRect(level * 4, 0, 4, 10);
    });
  }, [shade, metric.unit]);
  const [low, high] = axisValues([scale.low, scale.high], metric.unit);
  return (
    <span class="legend-item">
      {low}
      <canvas ref={canvas} class="ramp" width={LEVELS * 4} height={10} aria-hidden="true" />
      {high}
    </span>
  );
}
