// A client of the TypeScript SDK v2 on the server at a URL or behind a command line, in the era asked for. It can be asked
// what `capabilities` say; `prepare` is given it before it connects.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const MODES = { modern: { pin: '2026-07-28' }, legacy: 'legacy', auto: 'auto' };

export async function connect(era, [target, ...args], capabilities = {}, prepare = () => {}) {
  const options = { capabilities, versionNegotiation: { mode: MODES[era] } };
  const client = new Client({ name: 'peer', version: '1.0.0' }, options);
  prepare(client);
  const transport = target.includes('://')
    ? new StreamableHTTPClientTransport(new URL(target))
    : new StdioClientTransport({ command: target, args, env: process.env });
  await client.connect(transport);
  return client;
}
