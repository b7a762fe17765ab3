// The TypeScript client under test: load_typescript.mjs ERA URL | COMMAND...; the protocol of its input and output is worker.py's.
import { createInterface } from 'node:readline';
import { connect } from './connect.mjs';

const [era, ...command] = process.argv.slice(2);
const client = await connect(era, command);
console.log(JSON.stringify({ revision: client.getNegotiatedProtocolVersion() }));

function right(result, a) {
  return !result.isError && result.content[0].text === String(a + 2) && result.structuredContent.result === a + 2;
}

for await (const line of createInterface({ input: process.stdin })) {
  const job = JSON.parse(line);
  const results = new Array(job.calls);
  let next = 0;
  const lane = async () => {
    while (next < job.calls) {
      const a = next++;
      results[a] = await client.callTool({ name: 'add', arguments: { a, b: 2 } });
    }
  };
  const begin = performance.now();
  await Promise.all(Array.from({ length: job.in_flight }, lane));
  const seconds = (performance.now() - begin) / 1000;
  console.log(JSON.stringify({ seconds, wrong: results.filter((result, a) => !right(result, a)).length }));
}
await client.close();
