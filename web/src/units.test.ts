import { expect, it } from "vitest";
import { axisValues, compactValue, formatCount, formatValue } from "./units";

const plain = (text: string): string => text.replaceAll("\u202f", " ");

it("says values in the units that people use", () => {
  const said: [number | null, string][] = [
    [0.57, "ratio"],
    [412.5, "W"],
    [5580, "W"],
    [68 * 2 ** 30, "B"],
    [1.98e9, "Hz"],
    [64, "C"],
    [2.4e10, "B/s"],
    [1234, "count"],
    [3.5e6, "count"],
    [12, "furlongs"],
  ];
  expect(said.map(([value, unit]) => plain(formatValue(value, unit)))).toEqual([
    "57.0 %",
    "413 W",
    "5.58 kW",
    "68 GiB",
    "1,980 MHz",
    "64 °C",
    "24 GB/s",
    "1,234",
    "3.50 M",
    "12 furlongs",
  ]);
});

it("never says zero for what was not collected", () => {
  expect([null, undefined, NaN].map((value) => formatValue(value, "W"))).toEqual(
    Array(3).fill("not collected"),
  );
});

it("uses one unit for a whole axis", () => {
  expect(axisValues([0, 512 * 2 ** 20, 2 ** 30], "B").map(plain)).toEqual([
    "0 GiB",
    "0.5 GiB",
    "1 GiB",
  ]);
});

it("is short where there is little room", () => {
  expect([0.946, 0.0421, 1].map((value) => plain(compactValue(value, "ratio")))).toEqual([
    "95 %",
    "4.2 %",
    "100 %",
  ]);
  expect(formatCount(8000)).toBe("8,000");
});
