/**
 * Spans of time to look at: so long until now, or from one moment to another.
 *
 * A range is what the reader asked for and what the URL says; a span is what it means at a moment.
 * Times are milliseconds since 1970.
 */

export type Range =
  | { readonly kind: "relative"; readonly ms: number }
  | { readonly kind: "absolute"; readonly start: number; readonly end: number };

export interface Span {
  readonly start: number;
  readonly end: number;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export const SPAN_MIN_MS = 10 * SECOND;
export const SPAN_MAX_MS = 366 * DAY;

export const PRESETS: readonly number[] = [
  5 * MINUTE,
  15 * MINUTE,
  30 * MINUTE,
  HOUR,
  3 * HOUR,
  6 * HOUR,
  12 * HOUR,
  DAY,
  2 * DAY,
  7 * DAY,
  30 * DAY,
];

export const DEFAULT_RANGE: Range = { kind: "relative", ms: 15 * MINUTE };

const UNIT_MS: Readonly<Record<string, number>> = { s: SECOND, m: MINUTE, h: HOUR, d: DAY };

export function parseDuration(text: string): number | null {
  const found = /^(\d{1,6})([smhd])$/.exec(text);
  const unit = UNIT_MS[found?.[2] ?? ""];
  return found && unit ? clampSpan(Number(found[1]) * unit) : null;
}

export function formatDuration(ms: number): string {
  const unit = wholeUnit(ms);
  return `${Math.round(ms / (UNIT_MS[unit] ?? SECOND))}${unit}`;
}

const UNIT_WORDS: Readonly<Record<string, string>> = {
  s: "second",
  m: "minute",
  h: "hour",
  d: "day",
};

export function spellDuration(ms: number): string {
  const unit = wholeUnit(ms);
  const count = Math.round(ms / (UNIT_MS[unit] ?? SECOND));
  return `${count} ${UNIT_WORDS[unit]}${count === 1 ? "" : "s"}`;
}

/** The largest unit that a length is a whole number of; 24h stays a day, 36h stays hours. */
function wholeUnit(ms: number): string {
  return ["d", "h", "m"].find((unit) => ms % (UNIT_MS[unit] ?? 1) === 0) ?? "s";
}

export function clampSpan(ms: number): number {
  return Math.min(SPAN_MAX_MS, Math.max(SPAN_MIN_MS, ms));
}

/** A range between two moments, in whichever order they come, never shorter than can be seen. */
export function between(one: number, other: number): Range {
  const start = Math.round(Math.min(one, other));
  const length = clampSpan(Math.abs(other - one));
  return { kind: "absolute", start, end: start + Math.round(length) };
}

export function resolve(range: Range, now: number): Span {
  return range.kind === "absolute"
    ? { start: range.start, end: range.end }
    : { start: now - range.ms, end: now };
}

/** A span as the gateway's parameters. */
export function asQuery(span: Span): { start_time: string; end_time: string } {
  return {
    start_time: new Date(span.start).toISOString(),
    end_time: new Date(span.end).toISOString(),
  };
}

export function lengthOf(range: Range): number {
  return range.kind === "absolute" ? range.end - range.start : range.ms;
}

/** Twice as long around the same middle; so long until now stays until now. */
export function zoomOut(range: Range): Range {
  if (range.kind === "relative") {
    return { kind: "relative", ms: PRESETS.find((ms) => ms > range.ms) ?? range.ms };
  }
  const half = clampSpan(2 * (range.end - range.start)) / 2;
  const middle = (range.start + range.end) / 2;
  return between(middle - half, middle + half);
}

/** Half as long: the newest half of what lasts until now, else the middle. */
export function zoomIn(range: Range): Range {
  if (range.kind === "relative") {
    return { kind: "relative", ms: PRESETS.findLast((ms) => ms < range.ms) ?? range.ms };
  }
  const quarter = (range.end - range.start) / 4;
  return between(range.start + quarter, range.end - quarter);
}

/** Half a screen earlier (-1) or later (1). */
export function shift(range: Range, direction: -1 | 1, now: number): Range {
  const { start, end } = resolve(range, now);
  const by = (direction * (end - start)) / 2;
  return between(start + by, end + by);
}

export function readRange(params: URLSearchParams): Range {
  const start = Date.parse(params.get("from") ?? "");
  const end = Date.parse(params.get("to") ?? "");
  if (Number.isFinite(start) && Number.isFinite(end) && start !== end) return between(start, end);
  const ms = parseDuration(params.get("range") ?? "");
  return ms === null ? DEFAULT_RANGE : { kind: "relative", ms };
}

export function writeRange(range: Range, params: URLSearchParams): void {
  if (range.kind === "absolute") {
    params.set("from", new Date(range.start).toISOString());
    params.set("to", new Date(range.end).toISOString());
  } else if (range.ms !== lengthOf(DEFAULT_RANGE)) {
    params.set("range", formatDuration(range.ms));
  }
}
