import { expect, it } from "vitest";
import type { Queue } from "../api/types";
import { arrivalsOf, lagRows, ratesOf } from "./lag";

const QUEUE: Queue = {
  reachable: true,
  url: "",
  topic: "t",
  time: 0,
  topics: [
    {
      topic: "t",
      internal: false,
      messages: 30,
      partitions: [0, 1, 2].map((partition) => ({ partition, start: 0, end: 10, messages: 10 })),
    },
  ],
  groups: [
    {
      group: "g",
      state: "Stable",
      lag: 4,
      partitions: [{ topic: "t", partition: 1, committed: 6, end: 10, lag: 4 }],
    },
  ],
};

it("takes the collector's word on its lag, else its group's commits, else says nothing", () => {
  expect(lagRows(QUEUE, { "0": 2 }).map((row) => row.lag)).toEqual([2, 4, null]);
});

it("counts what was published where partitions have no ends", () => {
  const partitions = [{ partition: 0, start: null, end: null, messages: 3 }];
  const topics = [{ topic: "t", internal: false, messages: 3, partitions }];
  expect(arrivalsOf({ ...QUEUE, topics, published: 12 })).toEqual({ time: 0, total: 12 });
  expect(lagRows({ ...QUEUE, topics, groups: [] }, {})[0]?.end).toBeNull();
});

it("reckons messages a second from one look at the queue to the next", () => {
  expect(arrivalsOf(QUEUE)).toEqual({ time: 0, total: 30 });
  const looks = [
    { time: 0, total: 30 },
    { time: 5000, total: 80 },
    { time: 5000, total: 80 },
    { time: 10_000, total: 0 },
  ];
  expect(ratesOf(looks)).toEqual({ time: [5000, 10_000], value: [10, 0] });
});
