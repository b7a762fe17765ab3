// The benchmark's server on the TypeScript SDK v2.
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import * as z from 'zod';

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

await serveStdio(make);
