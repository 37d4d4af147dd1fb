import { describe, expect, it } from "vitest";
import {
  between,
  DEFAULT_RANGE,
  formatDuration,
  parseDuration,
  readRange,
  resolve,
  shift,
  spellDuration,
  writeRange,
  zoomIn,
  zoomOut,
  type Range,
} from "./range";

const MINUTE = 60_000;
const NOON = Date.parse("2026-01-02T12:00:00Z");

function roundTrip(range: Range): Range {
  const params = new URLSearchParams();
  writeRange(range, params);
  return readRange(params);
}

describe("a range in the URL", () => {
  it("comes back as it was written", () => {
    for (const range of [
      DEFAULT_RANGE,
      { kind: "relative", ms: 6 * 60 * MINUTE } as const,
      between(NOON, NOON + MINUTE),
    ]) {
      expect(roundTrip(range)).toEqual(range);
    }
  });

  it("is the default where it makes no sense", () => {
    for (const text of ["range=soon", "from=yesterday&to=today", "from=2026-01-01T00:00:00Z", ""]) {
      expect(readRange(new URLSearchParams(text))).toEqual(DEFAULT_RANGE);
    }
  });

  it("may have its ends in either order", () => {
    expect(between(NOON + MINUTE, NOON)).toEqual(between(NOON, NOON + MINUTE));
  });
});

describe("durations", () => {
  it("are written in their largest whole unit", () => {
    expect([90_000, 15 * MINUTE, 36 * 60 * MINUTE, 1440 * MINUTE].map(formatDuration)).toEqual([
      "90s",
      "15m",
      "36h",
      "1d",
    ]);
    expect(spellDuration(60 * MINUTE)).toBe("1 hour");
  });

  it("are bounded, and refused without a unit", () => {
    expect(parseDuration("1s")).toBe(10_000);
    expect(parseDuration("999999d")).toBe(366 * 1440 * MINUTE);
    expect(parseDuration("15")).toBeNull();
  });
});

describe("moving in time", () => {
  const hour = between(NOON, NOON + 60 * MINUTE);

  it("zooms out and in around the same middle", () => {
    expect(zoomIn(zoomOut(hour))).toEqual(hour);
  });

  it("keeps until-now ranges until now", () => {
    expect(zoomOut(DEFAULT_RANGE)).toEqual({ kind: "relative", ms: 30 * MINUTE });
    expect(resolve(DEFAULT_RANGE, NOON)).toEqual({ start: NOON - 15 * MINUTE, end: NOON });
  });

  it("shifts by half of what is seen", () => {
    expect(shift(hour, -1, NOON)).toEqual(between(NOON - 30 * MINUTE, NOON + 30 * MINUTE));
  });
});
