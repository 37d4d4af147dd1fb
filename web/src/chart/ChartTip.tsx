/** What a chart says at its cursor: the time, and the value of each line, largest first. */

import { pixels } from "../components/pixels";
import { moment } from "../time/format";
import { formatValue } from "../units";
import { AXIS_WIDTH } from "./options";

export interface Reading {
  readonly label: string;
  readonly value: number | null | undefined;
  readonly low?: number | null | undefined;
  readonly high?: number | null | undefined;
}

interface ChartTipProps {
  readonly time: number;
  readonly left: number;
  readonly readings: readonly Reading[];
  readonly unit: string;
  readonly width: number;
  readonly colours: readonly number[];
}

const TIP_WIDTH = 230;
const ROWS_MAX = 16;

export function ChartTip({ time, left, readings, unit, width, colours }: ChartTipProps) {
  const at = AXIS_WIDTH + left;
  const side = at + TIP_WIDTH + 16 > width ? at - TIP_WIDTH - 12 : at + 12;
  const rows = readings
    .map((reading, index) => ({ ...reading, colour: colours[index] ?? 0 }))
    .filter((reading) => typeof reading.value === "number")
    .sort((one, other) => (other.value ?? 0) - (one.value ?? 0));
  if (rows.length === 0) return null;
  return (
    <div class="tip chart-tip" role="tooltip" style={pixels({ left: Math.max(0, side) })}>
      <span class="muted">{moment(time)}</span>
      {rows.slice(0, ROWS_MAX).map((row) => (
        <span class="tip-row" key={row.label}>
          <span class={`line-mark series-${row.colour}`} />
          <span class="tip-label">{row.label}</span>
          <b>{formatValue(row.value, unit)}</b>
        </span>
      ))}
    </div>
  );
}
