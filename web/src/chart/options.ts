/** How our charts look and behave, as uPlot's options. */

import uPlot from "uplot";
import { token } from "../state/theme";
import { axisTimes } from "../time/format";
import { axisValues } from "../units";

export interface Stroke {
  readonly label: string;
  readonly colour: string;
}

export interface ChartLook {
  readonly strokes: readonly Stroke[];
  readonly banded: boolean;
  readonly unit: string;
  /** Charts with one group move their cursors together. */
  readonly group: string;
  readonly width: number;
  readonly height: number;
}

export interface ChartEvents {
  readonly zoom: (start: number, end: number) => void;
  readonly zoomOut: () => void;
  readonly cursor: (plot: uPlot) => void;
}

/** All charts of a page begin at the same x, and its lanes, which `--axis` tells it. */
export const AXIS_WIDTH = 64;

export function chartOptions(look: ChartLook, events: ChartEvents): uPlot.Options {
  return {
    width: look.width,
    height: look.height,
    ms: 1,
    padding: [8, 18, 0, 0],
    legend: { show: false },
    cursor: {
      sync: { key: look.group, setSeries: false, filters: { pub: movesOnly } },
      drag: { x: true, y: false, setScale: false },
      points: { size: 6 },
      bind: { dblclick: () => () => (events.zoomOut(), null) },
    },
    scales: {
      x: { time: true },
      y: { range: (_, low, high) => rangeOf(look.unit, low, high) },
    },
    axes: [timeAxis(), valueAxis(look.unit)],
    series: [{}, ...look.strokes.flatMap((stroke) => seriesOf(stroke, look))],
    bands: look.banded ? look.strokes.map((stroke, at) => bandOf(stroke, at, look)) : [],
    hooks: {
      setSelect: [(plot) => selected(plot, events)],
      setCursor: [events.cursor],
    },
  };
}

/** Cursors move together; a drag is of one chart, or each would zoom and be a step of history. */
function movesOnly(type: string): boolean {
  return type === "mousemove" || type === "mouseleave";
}

function selected(plot: uPlot, events: ChartEvents): void {
  const { left, width } = plot.select;
  if (width < 4) return;
  events.zoom(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
  plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
}

/** Room above and below the values; ratios always from nothing to all. */
export function rangeOf(unit: string, low: number | null, high: number | null): [number, number] {
  if (unit === "ratio") return [0, Math.max(1, high ?? 1)];
  if (low === null || high === null) return [0, 1];
  const room = (high - low) * 0.1;
  const near = low >= 0 && low < high * 0.5;
  const flat = room === 0 ? Math.max(1, Math.abs(high) * 0.1) : room;
  return [near || low === 0 ? 0 : low - flat, high + flat];
}

function seriesOf(stroke: Stroke, look: ChartLook): uPlot.Series[] {
  const line: uPlot.Series = {
    label: stroke.label,
    stroke: stroke.colour,
    width: 1.5,
    points: { size: 4, fill: stroke.colour },
  };
  const edge: uPlot.Series = { stroke: "transparent", width: 0, points: { show: false } };
  return look.banded ? [line, edge, edge] : [line];
}

/** Between the lowest and the highest reading of each point; the fainter, the more there are. */
function bandOf(stroke: Stroke, at: number, look: ChartLook): uPlot.Band {
  const alpha = look.strokes.length > 3 ? "1c" : "38";
  return { series: [3 * at + 3, 3 * at + 2], fill: `${stroke.colour}${alpha}` };
}

function timeAxis(): uPlot.Axis {
  return {
    ...axisLook(),
    size: 26,
    space: 70,
    values: (_, splits, __, ___, step) => axisTimes(splits, step),
  };
}

function valueAxis(unit: string): uPlot.Axis {
  return {
    ...axisLook(),
    size: AXIS_WIDTH,
    space: 28,
    values: (_, splits) => axisValues(splits, unit),
    ...(unit === "B" && { incrs: POWERS_OF_TWO }),
  };
}

const POWERS_OF_TWO = Array.from({ length: 51 }, (_, power) => 2 ** power);

function axisLook(): uPlot.Axis {
  return {
    stroke: token("text-muted"),
    font: '11px "Inter Variable", system-ui, sans-serif',
    grid: { stroke: token("grid"), width: 1 },
    ticks: { show: false },
    gap: 6,
  };
}
