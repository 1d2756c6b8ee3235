/** A page of blocks, as Python composed it: a sentence, facts, blocks, what the trace cannot tell. */

import type { ComponentChildren } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import type { Block, Page } from "../api/blocks";
import { useAnswer } from "../api/ask";
import { runPath } from "../api/client";
import { queryOfState } from "../api/query";
import type { Query } from "../api/transport";
import { printable, words } from "../base/text";
import { Context, Said, type ViewProps } from "../base/props";
import { ofRanks } from "../base/url";
import { Failed, Waiting } from "../frame/states";
import { BlockView } from "../blocks/block";

interface PageProps extends ViewProps {
  /** What else is asked with the page. */
  readonly more?: Query;
  /** What stands there until the page is. */
  readonly lead?: ComponentChildren;
  /** Called when another page has come. */
  readonly came?: () => void;
}

export function BlockPage(props: PageProps) {
  const { run, version, state, more, lead, came } = props;
  const {
    data: page,
    error,
    loading,
    again,
  } = useAnswer<Page>(runPath(run, "pages", state.view), { ...queryOfState(state), ...more }, version);
  useEffect(() => void (page && came?.()), [page]);
  // Its tables ask for the ranks that the page is about.
  const within = useMemo(() => ({ ...props, select: ofRanks(props.select, page?.select ?? {}) }), [props, page]);
  if (error) return <Failed error={error} again={again} />;
  if (!page || (loading && page.name !== state.view)) return <>{lead ?? <Waiting what="Working it out" />}</>;
  return (
    <article class={`page${loading ? " renewing" : ""}`} aria-busy={loading}>
      <h1>{words(page.sentence || page.title)}</h1>
      {page.facts.length > 0 && <p class="sub">{page.facts.map(printable).join(" · ")}</p>}
      <Context.Provider value={within}>
        <Said.Provider value={page.cannot}>
          {rowsOf(page.blocks).map((row) => (
            <div class={`blocks ${row.kind}`} key={row.first}>
              {row.columns.map((column, place) => (
                <div class="column" key={place}>
                  {column.map(([block, at]) => (
                    <BlockView block={block} place={at} key={`${block.block}${at}`} />
                  ))}
                </div>
              ))}
            </div>
          ))}
        </Said.Provider>
      </Context.Provider>
      {page.cannot.length > 0 && (
        <section class="block cannot">
          <h2>What this trace cannot tell</h2>
          {page.cannot.map((each) => (
            <p key={each}>{words(each)}</p>
          ))}
        </section>
      )}
    </article>
  );
}

type Placed = readonly [Block, number];

interface Row {
  readonly kind: "full" | "wide" | "narrow";
  readonly first: number;
  readonly columns: Placed[][];
}

/** Which blocks stand side by side: wide ones, with the narrow ones that follow them; narrow ones alone, in a row. */
function rowsOf(blocks: readonly Block[]): Row[] {
  const rows: Row[] = [];
  blocks.forEach((block, place) => {
    const row = rows[rows.length - 1];
    const placed: Placed = [block, place];
    if (block.width === "narrow" && row?.kind === "wide") {
      if (row.columns[1]) row.columns[1].push(placed);
      else row.columns.push([placed]);
    } else if (block.width === "narrow" && row?.kind === "narrow") row.columns.push([placed]);
    else if (block.width === "wide" && row?.kind === "wide" && row.columns.length === 1) row.columns[0]?.push(placed);
    else rows.push({ kind: block.width, first: place, columns: [[placed]] });
  });
  return rows;
}
