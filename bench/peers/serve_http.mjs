// Serves what `make` makes over HTTP on a port of this machine with the TypeScript SDK v2, legacy clients in sessions. Returns
// what tells modern clients of changes.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler } from '@modelcontextprotocol/server';

export function serveHttp(make, port) {
  const handler = createMcpHandler(make);
  const modern = toNodeHandler(handler);
  // That handler keeps no sessions; the SDK's guide has them wired by hand.
  const sessions = new Map();
  const legacy = async (request, response) => {
    let transport = sessions.get(request.headers['mcp-session-id']);
    if (!transport) {
      transport = new NodeStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => sessions.set(id, transport),
      });
      transport.onclose = () => sessions.delete(transport.sessionId);
      await make({ era: 'legacy' }).connect(transport);
    }
    await transport.handleRequest(request, response);
  };
  const isModern = (request) => request.headers['mcp-protocol-version'] === '2026-07-28';
  createServer((request, response) => (isModern(request) ? modern : legacy)(request, response)).listen(port, '127.0.0.1');
  return handler.notify;
}
