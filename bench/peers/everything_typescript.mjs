// A server with a little of everything, on the TypeScript SDK v2 over HTTP: everything_typescript.mjs PORT.
// everything_official.py is the same on the official Python SDK.
import { McpServer, ResourceTemplate, completable } from '@modelcontextprotocol/server';
import * as z from 'zod';
import { serveHttp } from './serve_http.mjs';

const NAMES = ['Ada', 'Adele', 'Grace'];
const text = (value) => ({ content: [{ type: 'text', text: value }] });

function make() {
  const server = new McpServer({ name: 'everything', version: '1.0.0' });
  const shapes = {
    inputSchema: z.object({ a: z.number(), b: z.number() }),
    outputSchema: z.object({ result: z.number() }),
  };
  server.registerTool('add', shapes, async ({ a, b }) => ({
    ...text(String(a + b)),
    structuredContent: { result: a + b },
  }));
  server.registerTool('fail', {}, async () => {
    throw new Error('it failed on purpose');
  });
  server.registerTool('count', { inputSchema: z.object({ steps: z.number() }) }, async ({ steps }, { mcpReq }) => {
    const { progressToken } = mcpReq._meta ?? {};
    for (let progress = 1; progressToken !== undefined && progress <= steps; progress++) {
      const params = { progressToken, progress, total: steps, message: `step ${progress}` };
      await mcpReq.notify({ method: 'notifications/progress', params });
    }
    return text('counted');
  });
  const note = (uri, value) => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text: value }] });
  server.registerResource('today', 'note://today', { mimeType: 'text/plain' }, async (uri) => note(uri, 'héllo today'));
  const days = new ResourceTemplate('note://days/{day}', { list: undefined });
  server.registerResource('day', days, { mimeType: 'text/plain' }, async (uri, { day }) => note(uri, `note of ${day}`));
  const name = completable(z.string(), (value) => NAMES.filter((known) => known.startsWith(value)));
  server.registerPrompt('greet', { argsSchema: z.object({ name }) }, ({ name }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Say hello to ${name}` } }],
  }));
  return server;
}

serveHttp(make, Number(process.argv[2]));
