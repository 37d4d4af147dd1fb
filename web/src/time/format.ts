/** Moments and ages as people read them, in their own time zone, on a 24-hour clock. */

import { spellDuration, type Range } from "./range";

const CLOCK = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const DAY_AND_YEAR = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  year: "numeric",
});

export function clockTime(ms: number, withSeconds = true): string {
  const text = CLOCK.format(ms);
  return withSeconds ? text : text.slice(0, 5);
}

/** A moment with its day; the year is told when it is not this one. */
export function moment(ms: number, now = Date.now()): string {
  return `${day(ms, now)} ${clockTime(ms)}`;
}

function day(ms: number, now: number): string {
  const sameYear = new Date(ms).getFullYear() === new Date(now).getFullYear();
  return (sameYear ? DAY : DAY_AND_YEAR).format(ms);
}

/** How long ago, in one unit: "0 s", "12 s", "3 min", "5 h", "12 d". */
export function age(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

export function describeRange(range: Range, now = Date.now()): string {
  if (range.kind === "relative") return `Last ${spellDuration(range.ms)}`;
  const sameDay = new Date(range.start).toDateString() === new Date(range.end).toDateString();
  return `${moment(range.start, now)} – ${sameDay ? clockTime(range.end) : moment(range.end, now)}`;
}

/** Labels of a time axis: as fine as its steps need, and the day where one begins. */
export function axisTimes(ticks: readonly number[], stepMs: number): string[] {
  return ticks.map((tick, index) => {
    const date = new Date(tick);
    const midnight = date.getHours() === 0 && date.getMinutes() === 0 && date.getSeconds() === 0;
    if (stepMs >= 86_400_000 || (midnight && index > 0)) return DAY.format(tick);
    return clockTime(tick, stepMs < 60_000);
  });
}

/** What `<input type="datetime-local">` shows and gives: local time without a zone. */
export function toInput(ms: number): string {
  const local = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 19);
}

export function fromInput(text: string): number | null {
  const ms = Date.parse(text);
  return Number.isFinite(ms) ? ms : null;
}
