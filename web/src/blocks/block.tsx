/** One block of a page, drawn by what it is. A block that this page is too old for says so. */

import type { Block } from "../api/blocks";
import { Guard } from "../frame/guard";
import { AllocatorBlock } from "./allocator";
import { BarsBlock } from "./bars";
import { ChartBlock } from "./chart";
import { CodeBlock } from "./code";
import { ColumnsBlock } from "./columns";
import { ControlsBlock } from "./controls";
import { ElsewhereBlock } from "./elsewhere";
import { FactsBlock } from "./facts";
import { FindingsBlock } from "./findings";
import { HistoryBlock } from "./history";
import { IcicleBlock } from "./icicle";
import { NoteBlock } from "./note";
import { PartsBlock } from "./parts";
import { RibbonBlock } from "./ribbon";
import { RooflineBlock } from "./roofline";
import { RowsBlock } from "./rows";
import { SourceBlock } from "./source";
import { TableBlock } from "./table";
import { TimelinesBlock } from "./timelines";

export function BlockView({ block, place }: { block: Block; place: number }) {
  return (
    <Guard>
      <Drawn block={block} place={place} />
    </Guard>
  );
}

function Drawn({ block, place }: { block: Block; place: number }) {
  switch (block.block) {
    case "parts":
      return <PartsBlock {...block} />;
    case "columns":
      return <ColumnsBlock {...block} />;
    case "bars":
      return <BarsBlock {...block} />;
    case "facts":
      return <FactsBlock {...block} />;
    case "findings":
      return <FindingsBlock {...block} />;
    case "elsewhere":
      return <ElsewhereBlock {...block} />;
    case "table":
      return <TableBlock {...block} place={place} />;
    case "rows":
      return <RowsBlock {...block} />;
    case "chart":
      return <ChartBlock {...block} />;
    case "history":
      return <HistoryBlock {...block} />;
    case "icicle":
      return <IcicleBlock {...block} />;
    case "ribbon":
      return <RibbonBlock {...block} />;
    case "roofline":
      return <RooflineBlock {...block} />;
    case "allocator":
      return <AllocatorBlock {...block} />;
    case "timelines":
      return <TimelinesBlock {...block} />;
    case "source":
      return <SourceBlock {...block} />;
    case "controls":
      return <ControlsBlock {...block} />;
    case "note":
      return <NoteBlock {...block} />;
    case "code":
      return <CodeBlock {...block} />;
  }
}
