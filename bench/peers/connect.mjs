// A client of the TypeScript SDK v2 on a stdio server, in the era asked for.
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const MODES = { modern: { pin: '2026-07-28' }, legacy: 'legacy', auto: 'auto' };

export async function connect(era, [command, ...args]) {
  const client = new Client({ name: 'peer', version: '1.0.0' }, { versionNegotiation: { mode: MODES[era] } });
  await client.connect(new StdioClientTransport({ command, args, env: process.env }));
  return client;
}
