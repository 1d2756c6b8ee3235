/** The step times of a whole run; what draws them comes when they are looked at. */

import { useEffect, useState } from "preact/hooks";
import type { ComponentType } from "preact";
import type { History } from "../api/blocks";
import { Waiting } from "../frame/states";

interface Props {
  readonly block: History | null;
}

export const HistoryBlock = (block: History) => <HistoryPicture block={block} />;

/** Without a block it is drawn from what the server has. */
export function HistoryPicture(props: Props) {
  const [Drawn, set] = useState<ComponentType<Props> | null>(null);
  useEffect(() => {
    void import("../draw/history/history").then((module) => set(() => module.HistoryPicture));
  }, []);
  return Drawn ? <Drawn {...props} /> : <Waiting what="Drawing the run" />;
}
