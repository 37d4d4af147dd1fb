import { describe, expect, it } from "vitest";
import type { Gpu } from "../api/types";
import { parsePath, pathOf, type Route } from "./route";
import { DEFAULT_VIEW, matches, NO_FILTERS, readView, writeView, type View } from "./view";

const GPU: Gpu = {
  uuid: "GPU-1",
  gpu: "0",
  device: "nvidia0",
  model: "H200",
  hostname: "h1",
  cluster: "c",
  namespace: "",
  pod: "",
  container: "",
  mig: "",
  state: "free",
  last_seen: "",
  first_seen: "",
  busy: 0,
};

describe("the view in the URL", () => {
  it("comes back as it was written, whatever names look like", () => {
    const hostile = `a&b=c,<script>"'#?/%`;
    const view: View = {
      range: { kind: "relative", ms: 3_600_000 },
      filters: { ...NO_FILTERS, host: [hostile, "h2"], namespace: [""], state: ["idle-held"] },
      metric: "power",
      by: "namespace",
    };
    expect(readView(writeView(view))).toEqual(view);
  });

  it("is empty for what everybody sees first", () => {
    expect(writeView(DEFAULT_VIEW)).toBe("");
  });

  it("leaves out what it does not know", () => {
    expect(readView("?state=asleep&by=colour&metric=")).toEqual(DEFAULT_VIEW);
  });
});

describe("filters", () => {
  it("must all fit, by exact value", () => {
    expect(matches(GPU, { ...NO_FILTERS, host: ["h1", "h2"], state: ["free"] })).toBe(true);
    expect(matches(GPU, { ...NO_FILTERS, host: ["h"] })).toBe(false);
    expect(matches(GPU, { ...NO_FILTERS, host: ["h1"], state: ["active"] })).toBe(false);
  });

  it("can ask for what has no namespace", () => {
    expect(matches(GPU, { ...NO_FILTERS, namespace: [""] })).toBe(true);
  });
});

describe("paths", () => {
  it("lead to their page and back", () => {
    const routes: Route[] = [
      { page: "fleet" },
      { page: "pipeline" },
      { page: "gpu", uuid: "GPU-1" },
      { page: "host", cluster: "", host: "a/b <c>" },
    ];
    for (const route of routes) expect(parsePath(pathOf(route))).toEqual(route);
  });

  it("that lead nowhere say so", () => {
    for (const path of ["/gpu", "/gpu/", "/gpu/a/b", "/host/c", "/nothing", "/pipeline/x"]) {
      expect(parsePath(path)).toEqual({ page: "missing", path });
    }
  });

  it("with a broken escape are taken as they are", () => {
    expect(parsePath("/gpu/%E0%A4%A")).toEqual({ page: "gpu", uuid: "%E0%A4%A" });
  });
});
