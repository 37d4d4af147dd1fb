import { expect, it } from "vitest";
import { age, axisTimes, fromInput, moment, toInput } from "./format";

it("tells ages in one unit", () => {
  expect([0, 12_400, 180_000, 7_200_000, 200_000_000].map(age)).toEqual([
    "0 s",
    "12 s",
    "3 min",
    "2 h",
    "2 d",
  ]);
});

it("names the year only when it is another one", () => {
  const then = new Date(2025, 6, 18, 20, 42, 34).getTime();
  expect(moment(then, new Date(2025, 11, 1).getTime())).toBe("18 Jul 20:42:34");
  expect(moment(then, new Date(2026, 0, 1).getTime())).toBe("18 Jul 2025 20:42:34");
});

it("labels an axis as finely as its steps, and days where they begin", () => {
  const midnight = new Date(2026, 0, 2).getTime();
  expect(axisTimes([midnight - 3_600_000, midnight], 3_600_000)).toEqual(["23:00", "2 Jan"]);
  expect(axisTimes([midnight + 1000], 1000)).toEqual(["00:00:01"]);
});

it("takes back what an input field was given", () => {
  const time = new Date(2026, 2, 3, 4, 5, 6).getTime();
  expect(fromInput(toInput(time))).toBe(time);
  expect(fromInput("")).toBeNull();
});
