/**
 * Colours for values: a few stops, mixed in OKLab so that equal steps look equal.
 *
 * A scale has a fixed number of levels: a value that moves within a level changes nothing on
 * screen, which is what keeps thousands of live cells cheap.
 */

export type Rgb = readonly [number, number, number];

export const LEVELS = 48;

/** A cell without a value. */
export const NO_DATA = -1;

/** From low to high; the low end is near the page's ground, so that the high end stands out. */
const RAMPS = {
  dark: {
    load: ["#17202e", "#1c3f5c", "#1d6f80", "#2ca58d", "#86d780", "#f3f3a1"],
    heat: ["#17202e", "#3a2c5c", "#7d3272", "#c84b62", "#f2884b", "#fbe08a"],
  },
  light: {
    load: ["#eef2f6", "#c3dfe6", "#7fc4c6", "#3a9d9f", "#1b6d80", "#123a5c"],
    heat: ["#f4f1ee", "#f8dcae", "#f3ad6b", "#e1705a", "#a93a67", "#571f5c"],
  },
} as const;

export type RampName = keyof (typeof RAMPS)["dark"];

/** The colours of all levels, as CSS says them. */
export function ramp(theme: "dark" | "light", name: RampName): string[] {
  const stops = RAMPS[theme][name].map((hex) => toLab(parseHex(hex)));
  return Array.from({ length: LEVELS }, (_, level) => css(toRgb(mix(stops, level / (LEVELS - 1)))));
}

/** The level of a value between two bounds; what lies beyond them is at the end it is nearest to. */
export function levelOf(value: number | null, low: number, high: number): number {
  if (value === null || Number.isNaN(value)) return NO_DATA;
  const share = high > low ? (value - low) / (high - low) : 0;
  return Math.round(Math.min(1, Math.max(0, share)) * (LEVELS - 1));
}

/** Whether dark text can be read on a colour better than light text. */
export function isBright(colour: string): boolean {
  const [lightness] = toLab(parseHex(colour));
  return lightness > 0.62;
}

/** A round number that is at least as large: the upper end of a scale without fixed bounds. */
export function niceCeiling(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 1.5, 2, 3, 4, 5, 7.5, 10].find((each) => each * power >= value * 0.9999) ?? 10;
  return step * power;
}

function mix(stops: readonly Rgb[], share: number): Rgb {
  const at = share * (stops.length - 1);
  const index = Math.min(stops.length - 2, Math.floor(at));
  const [one, other] = [stops[index] as Rgb, stops[index + 1] as Rgb];
  const rest = at - index;
  const blend = (channel: 0 | 1 | 2) => one[channel] + (other[channel] - one[channel]) * rest;
  return [blend(0), blend(1), blend(2)];
}

function parseHex(hex: string): Rgb {
  const channel = (at: number) => parseInt(hex.slice(at, at + 2), 16) / 255;
  return [channel(1), channel(3), channel(5)];
}

function css(rgb: Rgb): string {
  const digits = (channel: number) =>
    Math.round(Math.min(1, Math.max(0, channel)) * 255)
      .toString(16)
      .padStart(2, "0");
  return `#${rgb.map(digits).join("")}`;
}

// The matrices are those of the OKLab colour space's definition.
function toLab([red, green, blue]: Rgb): Rgb {
  const [r, g, b] = [linear(red), linear(green), linear(blue)];
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function toRgb([lightness, a, b]: Rgb): Rgb {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    gamma(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    gamma(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    gamma(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
  ];
}

function linear(channel: number): number {
  return channel <= 0.04045 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4;
}

function gamma(channel: number): number {
  return channel <= 0.0031308 ? channel * 12.92 : 1.055 * channel ** (1 / 2.4) - 0.055;
}
