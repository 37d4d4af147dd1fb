/** Values as people read them: percent for ratios, GiB for bytes, and a scale for each axis. */

interface Scale {
  readonly divide: number;
  readonly unit: string;
}

const DECIMAL = ["", "k", "M", "G", "T", "P"];
const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];

/** What to divide by, and the unit's name then, so that numbers around `size` are short. */
export function scaleFor(unit: string, size: number): Scale {
  switch (unit) {
    case "ratio":
      return { divide: 0.01, unit: "%" };
    case "C":
      return { divide: 1, unit: "°C" };
    case "B":
      return prefixed(size, 1024, BINARY, "B");
    case "Hz":
      // GPU clocks are spoken of in MHz, above a gigahertz too.
      return size >= 1e6 ? { divide: 1e6, unit: "MHz" } : prefixed(size, 1000, DECIMAL, "Hz");
    case "W":
    case "J":
    case "B/s":
      return prefixed(size, 1000, DECIMAL, unit);
    case "count":
      return size >= 1e6 ? prefixed(size, 1000, DECIMAL, "") : { divide: 1, unit: "" };
    default:
      return { divide: 1, unit };
  }
}

function prefixed(size: number, base: number, prefixes: readonly string[], unit: string): Scale {
  const most = prefixes.length - 1;
  const power = size < base ? 0 : Math.min(most, Math.floor(Math.log(size) / Math.log(base)));
  return { divide: base ** power, unit: `${prefixes[power]}${unit}` };
}

// Making a formatter takes longer than a thousand uses of it.
const SHORT = [0, 1, 2].map(
  (most) => new Intl.NumberFormat("en-GB", { maximumFractionDigits: most }),
);
const EVEN = [0, 1, 2].map(
  (count) =>
    new Intl.NumberFormat("en-GB", { minimumFractionDigits: count, maximumFractionDigits: count }),
);

/** Three digits that matter, whole numbers whole: 4.27, 42.7, 427, 4,270. */
export function shortNumber(value: number): string {
  return said(SHORT, value, decimalsOf(value));
}

function decimalsOf(value: number): number {
  const size = Math.abs(value);
  return Number.isInteger(value) || size >= 100 ? 0 : size >= 10 ? 1 : 2;
}

function said(formats: readonly Intl.NumberFormat[], value: number, decimals: number): string {
  return formats[decimals]?.format(value) ?? String(value);
}

export const NOT_COLLECTED = "not collected";

export function formatValue(value: number | null | undefined, unit: string): string {
  if (value === null || value === undefined || Number.isNaN(value)) return NOT_COLLECTED;
  const scale = scaleFor(unit, Math.abs(value));
  const number = round(value / scale.divide);
  // Values that change every second stand still when they always have their decimals.
  const decimals = unit === "ratio" ? 1 : decimalsOf(number);
  return joined(said(EVEN, number, decimals), scale.unit);
}

/** A value in as few characters as say something: what a cell of the heat map has room for. */
export function compactValue(value: number, unit: string): string {
  const scale = scaleFor(unit, Math.abs(value));
  const number = value / scale.divide;
  return joined(
    shortNumber(number < 10 ? Number(number.toPrecision(2)) : Math.round(number)),
    scale.unit,
  );
}

/** Tick labels that share one scale, so that an axis never mixes MiB with GiB. */
export function axisValues(ticks: readonly number[], unit: string): string[] {
  const scale = scaleFor(unit, Math.max(0, ...ticks.map(Math.abs)));
  return ticks.map((tick) => joined(shortNumber(round(tick / scale.divide)), scale.unit));
}

export function formatBytes(bytes: number): string {
  return formatValue(bytes, "B");
}

export function formatCount(count: number): string {
  return said(SHORT, Math.round(count), 0);
}

function joined(number: string, unit: string): string {
  return unit ? `${number}\u202f${unit}` : number;
}

/** Division by 0.01 leaves 57.00000000000001; nobody wants to read that. */
function round(value: number): number {
  return Number(value.toPrecision(12));
}
