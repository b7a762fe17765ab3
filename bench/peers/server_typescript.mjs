// The benchmark's server on the TypeScript SDK v2: server_typescript.mjs over stdio, server_typescript.mjs http PORT over HTTP.
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import * as z from 'zod';
import { serveHttp } from './serve_http.mjs';

function make() {
  const server = new McpServer({ name: 'bench', version: '1.0.0' });
  const shapes = {
    description: 'Add two numbers.',
    inputSchema: z.object({ a: z.number(), b: z.number() }),
    outputSchema: z.object({ result: z.number() }),
  };
  server.registerTool('add', shapes, async ({ a, b }) => ({
    content: [{ type: 'text', text: String(a + b) }],
    structuredContent: { result: a + b },
  }));
  return server;
}

if (process.argv[2] === 'http') serveHttp(make, Number(process.argv[3]));
else await serveStdio(make);
