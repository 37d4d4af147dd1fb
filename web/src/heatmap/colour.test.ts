import { expect, it } from "vitest";
import { isBright, levelOf, LEVELS, niceCeiling, NO_DATA, ramp } from "./colour";
import { levelOfSample, scaleOf } from "./picture";

it("has a colour for each level, from the ground up", () => {
  const dark = ramp("dark", "load");
  expect(dark).toHaveLength(LEVELS);
  expect(dark.every((colour) => /^#[0-9a-f]{6}$/.test(colour))).toBe(true);
  expect([dark[0], dark.at(-1)].map((colour) => isBright(colour!))).toEqual([false, true]);
  expect([...new Set(dark)]).toHaveLength(LEVELS);
});

it("puts values beyond the scale at its ends", () => {
  expect([-1, 0, 0.5, 1, 7].map((value) => levelOf(value, 0, 1))).toEqual([
    0,
    0,
    24,
    LEVELS - 1,
    LEVELS - 1,
  ]);
});

it("does not take nothing for zero", () => {
  expect([levelOf(null, 0, 1), levelOf(NaN, 0, 1)]).toEqual([NO_DATA, NO_DATA]);
});

it("does not show what is old as if it were new, except where time stands", () => {
  const sample = { value: 0.5, at: 1_000_000 };
  const scale = { low: 0, high: 1 };
  expect(levelOfSample(sample, scale, 1_120_000)).toBe(24);
  expect(levelOfSample(sample, scale, 1_120_001)).toBe(NO_DATA);
  expect(levelOfSample(sample, scale, null)).toBe(24);
  expect(levelOfSample(undefined, scale, null)).toBe(NO_DATA);
});

it("ends an open scale at a round number", () => {
  expect([0, 7, 612, 700, 1001].map(niceCeiling)).toEqual([1, 7.5, 750, 750, 1500]);
  expect(
    scaleOf("W", [
      { value: 612, at: 0 },
      { value: null, at: 0 },
    ]),
  ).toEqual({ low: 0, high: 750 });
  expect(scaleOf("ratio", [{ value: 0.1, at: 0 }])).toEqual({ low: 0, high: 1 });
});
