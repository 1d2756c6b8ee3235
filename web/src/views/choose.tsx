/** A view of two runs, before the second one is chosen. */

import { useAnswer } from "../api/ask";
import type { ListedRuns } from "../api/answers";
import type { ViewProps } from "../base/props";
import { Runs } from "../frame/pickers";

export function ChooseBase({ run, go }: ViewProps) {
  const { data } = useAnswer<ListedRuns>("runs");
  const others = (data?.runs ?? []).filter((each) => each.id !== run && each.state !== "error");
  return (
    <article class="page">
      <h1>Which run is this one compared with?</h1>
      <p class="sub">The one from before the change. It stands in the header, and can be changed there.</p>
      <section class="block chooser">
        {data && <Runs runs={others} chosen="" choose={(base) => go({ base })} />}
      </section>
    </article>
  );
}
