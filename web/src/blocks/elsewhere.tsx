/** The first findings of another page: it takes longer than this one, which does not wait for it. */

import type { Elsewhere, Page } from "../api/blocks";
import { useAnswer } from "../api/ask";
import { runPath } from "../api/client";
import { queryOfState } from "../api/query";
import { useProps } from "../base/props";
import { FailedHere } from "../frame/states";
import { FindingsBlock } from "./findings";
import { Frame, To } from "./frame";

export function ElsewhereBlock({ title, page, limit, note }: Elsewhere) {
  const { run, version, state, api } = useProps();
  const path = runPath(run, "pages", page);
  const { data, error, again } = useAnswer<Page>(api.holds(path) ? path : null, queryOfState(state, {}), version);
  if (!api.holds(path)) return null;
  if (error)
    return (
      <Frame title={title} name="findings">
        <FailedHere error={error} again={again} />
      </Frame>
    );
  const found = data?.blocks.find((block) => block.block === "findings");
  if (!data || found?.block !== "findings")
    return (
      <Frame title={title} note={note} name="findings">
        <p class="empty">Looking for what could be changed…</p>
      </Frame>
    );
  const left = found.findings.length - limit;
  return (
    <FindingsBlock
      {...found}
      title={title}
      note={note}
      findings={found.findings.slice(0, limit)}
      more={left > 0 ? <To link={{ view: page }}>{`${left} more`}</To> : undefined}
    />
  );
}
