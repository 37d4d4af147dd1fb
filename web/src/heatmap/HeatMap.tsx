/** The fleet at a glance: a cell for each GPU, live, reachable by mouse and by keyboard. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { fullName, keyOf } from "../api/gpu";
import { GPU_STATES, type Gpu, type Metric } from "../api/types";
import { useWidth } from "../components/useWidth";
import type { Latest } from "../fleet/latest";
import { go, linkTo } from "../state/location";
import { theme, token } from "../state/theme";
import { CellTip } from "./CellTip";
import { ramp } from "./colour";
import { cellAt, hostAt, layOut, neighbour, type Layout } from "./layout";
import { HeatLegend } from "./HeatLegend";
import { Painter, type Paints } from "./painter";
import { looksOfMetric, looksOfState, rampOf, scaleOf, type Scale } from "./picture";

export interface HeatMapProps {
  readonly gpus: readonly Gpu[];
  /** What the colours mean; null for what each GPU is doing. */
  readonly metric: Metric | null;
  readonly samples: Latest;
  /** Whether samples grow old. Those of a time that is past do not. */
  readonly live: boolean;
}

const AGEING_MS = 5_000;
const MEASURING_MS = 1_000;

export function HeatMap({ gpus, metric, samples, live }: HeatMapProps) {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(frame);
  const layout = useMemo(() => layOut(gpus, width), [gpus, width]);
  const scale = useScale(metric, samples);
  const [chosen, setChosen] = useState(-1);
  usePainting(canvas, layout, { metric, samples, live, scale });

  const cell = layout.cells[chosen];
  const open = (index: number): void => {
    const gpu = layout.cells[index]?.gpu;
    if (gpu) go(linkTo({ page: "gpu", uuid: gpu.uuid }));
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = STEPS[event.key];
    if (step) setChosen(neighbour(layout, chosen, ...step));
    else if (event.key === "Enter") open(chosen);
    else if (event.key === "Escape") setChosen(-1);
    else return;
    event.preventDefault();
  };
  const at = (event: MouseEvent): number => cellAt(layout, event.offsetX, event.offsetY);
  const onClick = (event: MouseEvent): void => {
    const name = hostAt(layout, event.offsetX, event.offsetY);
    if (name) go(linkTo({ page: "host", cluster: name.cluster ?? "", host: name.text }));
    else open(at(event));
  };

  return (
    <div class="heat" ref={frame}>
      <div class="heat-board">
        <canvas
          id="heat-map"
          ref={canvas}
          class={cell ? "heat-canvas on-cell" : "heat-canvas"}
          tabIndex={0}
          role="application"
          aria-label={`Heat map of ${gpus.length} GPUs. Arrow keys move, Enter opens a GPU.`}
          onMouseMove={(event) => setChosen(at(event))}
          onMouseLeave={() => setChosen(-1)}
          onBlur={() => setChosen(-1)}
          onFocus={() => setChosen((index) => (index < 0 && isKeyboard(canvas) ? 0 : index))}
          onClick={onClick}
          onKeyDown={onKeyDown}
        />
        {cell && <CellTip cell={cell} metric={metric} samples={samples} board={width} />}
        <span class="visually-hidden" aria-live="polite">
          {cell ? `${fullName(cell.gpu)}, ${cell.gpu.state}` : ""}
        </span>
      </div>
      <HeatLegend metric={metric} scale={scale} />
    </div>
  );
}

const STEPS: Readonly<Record<string, readonly [number, number]>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

function isKeyboard(canvas: { readonly current: HTMLCanvasElement | null }): boolean {
  return canvas.current?.matches(":focus-visible") ?? false;
}

/** The scale's ends. Without fixed bounds they grow with the values, and never shrink again. */
function useScale(metric: Metric | null, samples: Latest): Scale {
  const unit = metric?.unit ?? "";
  const name = metric?.name ?? "";
  const [scale, setScale] = useState<Scale>({ low: 0, high: 1 });
  useEffect(() => {
    const measure = (): Scale => scaleOf(unit, samples.of(name).values());
    setScale(measure());
    const timer = setInterval(() => {
      const next = measure();
      setScale((before) => (next.high > before.high ? next : before));
    }, MEASURING_MS);
    return () => clearInterval(timer);
  }, [name, unit, samples]);
  return scale;
}

interface Painting {
  readonly metric: Metric | null;
  readonly samples: Latest;
  readonly live: boolean;
  readonly scale: Scale;
}

/** Keeps the canvas true to the samples, cell by cell. */
function usePainting(
  canvas: { readonly current: HTMLCanvasElement | null },
  layout: Layout,
  { metric, samples, live, scale }: Painting,
): void {
  const shade = theme.value;
  useEffect(() => {
    if (!canvas.current || layout.width === 0) return;
    const places = new Map(layout.cells.map(({ gpu }, at) => [keyOf(gpu.uuid, gpu.mig), at]));
    const looks = metric
      ? looksOfMetric(layout, metric.unit, samples.of(metric.name), scale, live ? Date.now : null)
      : looksOfState(layout);
    const painter = new Painter(canvas.current, layout, paintsOf(metric, shade), looks);
    const forget = samples.listen((name, key) => {
      const index = name === metric?.name ? places.get(key) : undefined;
      if (index !== undefined) painter.touch(index);
    });
    const ageing = setInterval(() => painter.touchAll(), AGEING_MS);
    return () => {
      clearInterval(ageing);
      forget();
      painter.stop();
    };
  }, [layout, metric, samples, live, scale, shade]);
}

function paintsOf(metric: Metric | null, shade: "dark" | "light"): Paints {
  const states = GPU_STATES.map((state) => token(`state-${state}`));
  return {
    colours: metric ? ramp(shade, rampOf(metric.unit)) : states,
    hatch: [token("hatch-ground"), token("hatch-line")],
    label: token("text"),
    muted: token("text-muted"),
  };
}
