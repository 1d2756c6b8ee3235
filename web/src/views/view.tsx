/** The view that the address names: a page of blocks, or one of those that draw themselves. */

import { useEffect, useState } from "preact/hooks";
import type { ComponentType } from "preact";
import type { ViewProps } from "../base/props";
import { Waiting } from "../frame/states";
import { AllAnalyses } from "./analyses";
import { ChooseBase } from "./choose";
import { HistoryView } from "./history";
import { BlockPage } from "./page";
import { Sql } from "./sql";

export function View(props: ViewProps) {
  switch (props.state.view) {
    case "timeline":
      return <TimelineView {...props} />;
    case "analyses":
      return <AllAnalyses {...props} />;
    case "sql":
      return <Sql {...props} />;
    case "history":
      // A run without a history says so itself.
      return props.about.views.includes("history") ? <HistoryView {...props} /> : <BlockPage {...props} />;
    case "compare":
      return props.state.base ? <BlockPage {...props} /> : <ChooseBase {...props} />;
    default:
      return <BlockPage {...props} />;
  }
}

function TimelineView(props: ViewProps) {
  const [Timeline, set] = useState<ComponentType<ViewProps> | null>(null);
  useEffect(() => {
    void import("./timeline").then((module) => set(() => module.Timeline));
  }, []);
  return Timeline ? <Timeline {...props} /> : <Waiting what="Drawing the timeline" />;
}
