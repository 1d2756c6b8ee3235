/** An empty picture or table: it may be the selection that leaves nothing. */

import { useProps } from "../base/props";
import { PARTS } from "../frame/follow";
import { To } from "./frame";

export function Nothing() {
  const { select } = useProps();
  const part = PARTS.some((name) => select[name] && select[name] !== "steady");
  return (
    <p class="empty">
      {part ? "Nothing in the selection. " : "Nothing to show."}
      {part && <To link={{ clear: true }}>Show everything</To>}
    </p>
  );
}
