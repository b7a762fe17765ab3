// Lists and calls a server over HTTP with the TypeScript client v1: client_typescript_v1.mjs TOOL ARGUMENTS URL
// Prints what client_typescript.mjs prints. It is legacy only.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [name, args, url] = process.argv.slice(2);
const client = new Client({ name: 'peer', version: '1.0.0' });
const transport = new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);
const { tools } = await client.listTools();
const result = await client.callTool({ name, arguments: JSON.parse(args) });
console.log(JSON.stringify({ revision: transport.protocolVersion, server: client.getServerVersion(), tools, result }));
await transport.terminateSession();
await client.close();
