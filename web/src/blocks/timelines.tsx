/** Two timelines beside each other; what draws them comes when they are looked at. */

import { useEffect, useState } from "preact/hooks";
import type { ComponentType } from "preact";
import type { Timelines } from "../api/blocks";
import { runPath } from "../api/client";
import { useProps } from "../base/props";
import { Waiting } from "../frame/states";
import { Frame } from "./frame";

export function TimelinesBlock(block: Timelines) {
  const { api, run, state } = useProps();
  const [Beside, set] = useState<ComponentType<Timelines> | null>(null);
  const held = [run, state.base].every((each) => api.holds(runPath(each, "timeline", "lanes")));
  useEffect(() => {
    if (held) void import("../views/timeline").then((module) => set(() => module.Beside));
  }, [held]);
  if (!held) return null;
  return (
    <Frame title={block.title} name="timelines">
      {Beside ? <Beside {...block} /> : <Waiting what="Drawing both timelines" />}
    </Frame>
  );
}
