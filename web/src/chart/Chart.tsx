/** A chart of lines over time: hover reads values, a drag zooms in, a double click zooms out. */

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { useOnScreen } from "../components/useSeen";
import { useWidth } from "../components/useWidth";
import { setRange, view } from "../state/location";
import { theme, token } from "../state/theme";
import { clockTime } from "../time/format";
import { between, zoomOut, type Span } from "../time/range";
import { formatValue } from "../units";
import { ChartTip, type Reading } from "./ChartTip";
import { chartOptions } from "./options";
import { align, gapOf, type Drawn } from "./series";

export interface ChartLine extends Drawn {
  readonly label: string;
  /** Which of the style sheet's series colours. */
  readonly colour: number;
}

export interface ChartProps {
  readonly title: string;
  readonly hint?: string | undefined;
  readonly unit: string;
  readonly lines: readonly ChartLine[];
  readonly span: Span;
  readonly group: string;
  readonly height?: number;
  /** The distance of rolled-up points; null when they are readings. */
  readonly stepMs: number | null;
  /** Grows with each change of the lines' contents. */
  readonly version: number;
}

interface Hover {
  readonly time: number;
  readonly left: number;
  readonly readings: readonly Reading[];
  readonly own: boolean;
}

const COLOURS = 16;

export function Chart(props: ChartProps) {
  const { title, hint, unit, lines, height = 132 } = props;
  const frame = useRef<HTMLDivElement>(null);
  const width = useWidth(frame);
  const [hover, setHover] = useState<Hover | null>(null);
  // What is off the screen stays as it was, and catches up when it comes into view.
  const seen = useOnScreen(frame);
  const drawn = useRef(props);
  if (seen) drawn.current = props;
  usePlot(frame, width, height, drawn.current, setHover);

  const single = lines.length === 1 ? lines[0] : undefined;
  return (
    <figure class="chart">
      <figcaption class="chart-head">
        <span class="chart-title" title={hint}>
          {title}
        </span>
        {single && <Now line={single} hover={hover} unit={unit} />}
      </figcaption>
      <div class="chart-plot" ref={frame} />
      {hover?.own && !single && (
        <ChartTip {...hover} unit={unit} width={width} colours={coloursOf(lines)} />
      )}
    </figure>
  );
}

/** The value under the cursor with its bounds and time, else the last one. */
function Now({ line, hover, unit }: { line: ChartLine; hover: Hover | null; unit: string }) {
  const reading = hover?.readings[0];
  if (!hover || !reading) {
    return <span class="chart-now">{formatValue(line.value.at(-1), unit)}</span>;
  }
  const { value, low, high } = reading;
  const bounds =
    typeof low === "number" && `${formatValue(low, unit)} – ${formatValue(high, unit)}`;
  return (
    <span class="chart-now">
      <span class="muted">
        {clockTime(hover.time)} {bounds}
      </span>{" "}
      {typeof value === "number" ? formatValue(value, unit) : "–"}
    </span>
  );
}

function coloursOf(lines: readonly ChartLine[]): number[] {
  return lines.map((line) => line.colour % COLOURS);
}

function usePlot(
  frame: { readonly current: HTMLDivElement | null },
  width: number,
  height: number,
  { unit, lines, span, group, stepMs, version }: ChartProps,
  setHover: (hover: Hover | null) => void,
): void {
  const plot = useRef<uPlot | null>(null);
  const shade = theme.value;
  const banded = stepMs !== null && lines.some((line) => line.low.length > 0);
  const shape = JSON.stringify([
    unit,
    group,
    banded,
    lines.map((line) => [line.label, line.colour]),
  ]);
  const data = useMemo(
    () => align(lines, gapOf(lines, stepMs), banded),
    [lines, version, stepMs, banded],
  );
  const newest = useRef({ lines, data, banded });
  newest.current = { lines, data, banded };

  useLayoutEffect(() => {
    if (!frame.current || width === 0) return;
    const strokes = newest.current.lines.map(({ label, colour }) => ({
      label,
      colour: token(`series-${colour % COLOURS}`),
    }));
    const options = chartOptions(
      { strokes, banded, unit, group, width, height },
      {
        zoom: (start, end) => setRange(between(start, end)),
        zoomOut: () => setRange(zoomOut(view.value.range)),
        cursor: (own) => setHover(hoverOf(own, newest.current.lines, newest.current.banded)),
      },
    );
    const made = new uPlot(options, newest.current.data as uPlot.AlignedData, frame.current);
    plot.current = made;
    return () => {
      plot.current = null;
      made.destroy();
    };
  }, [shape, shade, width, height]);

  useEffect(() => {
    plot.current?.batch(() => {
      plot.current?.setData(data as uPlot.AlignedData, false);
      plot.current?.setScale("x", { min: span.start, max: span.end });
    });
  }, [data, span.start, span.end, shape, shade, width]);
}

/** What the cursor stands on; the values of each line at the nearest time. */
function hoverOf(plot: uPlot, lines: readonly ChartLine[], banded: boolean): Hover | null {
  const { idx, left = -1, event } = plot.cursor;
  if (idx === null || idx === undefined || left < 0) return null;
  const time = plot.data[0][idx] ?? 0;
  const columns = banded ? 3 : 1;
  const readings = lines.map((line, at) => {
    const first = 1 + at * columns;
    const read = (column: number) => plot.data[column]?.[idx];
    return banded
      ? { label: line.label, value: read(first), low: read(first + 1), high: read(first + 2) }
      : { label: line.label, value: read(first) };
  });
  return { time, left, readings, own: event !== null && event !== undefined };
}
