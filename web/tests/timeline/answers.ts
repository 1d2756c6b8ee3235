/** Answers of the server drawn in code: what a test does not say is as the server says it of nothing special. */

import type {
  ArrowEnd,
  EventDetails,
  TimelineGroup,
  RankLanes,
  TimelineLane,
  TimelineLanes,
  TimelineStep,
} from "../../src/api/answers";

type Said<T, Needed extends keyof T> = Partial<T> & Pick<T, Needed>;
type SaidLane = Said<TimelineLane, "id" | "title" | "depth">;
type SaidGroup = Said<Omit<TimelineGroup, "lanes">, "id" | "title" | "kind"> & { readonly lanes: readonly SaidLane[] };
type SaidRank = Said<Omit<RankLanes, "groups" | "steps">, "rank" | "offset"> & {
  readonly groups: readonly SaidGroup[];
  readonly steps?: readonly Said<TimelineStep, "step" | "start" | "end">[];
};
type SaidLanes = Said<Omit<TimelineLanes, "ranks">, "start" | "end"> & { readonly ranks: readonly SaidRank[] };

export const lane = (said: SaidLane): TimelineLane => ({
  sort: 0,
  kind: "host",
  events: 0,
  outer: 0,
  slices: null,
  unit: "",
  max: null,
  ...said,
});

export const group = (said: SaidGroup): TimelineGroup => ({ collapsed: false, ...said, lanes: said.lanes.map(lane) });

export const rankLanes = ({ steps = [], ...said }: SaidRank): RankLanes => ({
  more: 0,
  ...said,
  groups: said.groups.map(group),
  steps: steps.map((step) => ({ host_start: step.start, host_end: step.end, steady: true, ...step })),
});

export const timelineLanes = (said: SaidLanes): TimelineLanes => ({
  version: "1",
  home: null,
  minimap: { start: said.start, bucket: 1, busy: {} },
  notes: [],
  ...said,
  ranks: said.ranks.map(rankLanes),
});

export const arrowEnd = (row: number): ArrowEnd => ({ row, lane: "0", depth: 0, time: 0 });

export const eventDetails = (said: Said<EventDetails, "row">): EventDetails => ({
  name: "",
  category: "",
  kind: "host",
  lane: "0",
  depth: 0,
  start: 0,
  end: 0,
  duration: 0,
  self_time: null,
  step: null,
  arguments: {},
  stack: [],
  stack_note: "",
  module: "",
  parent: null,
  launched: [],
  launched_by: null,
  forward: null,
  backward: null,
  device_total: null,
  device_kernels: 0,
  limit: null,
  launch_delay: null,
  same: { calls: 1, per_step: null, total: 0, share: null, on_device: false },
  replay: null,
  arrows: [],
  ...said,
});
