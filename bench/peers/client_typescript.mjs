// Lists and calls a server with the TypeScript client v2: client_typescript.mjs ERA TOOL ARGUMENTS URL | COMMAND...
// ERA is modern, legacy or auto, ARGUMENTS is JSON; prints one JSON object: revision, server, tools, result.
import { connect } from './connect.mjs';

const [era, name, args, ...command] = process.argv.slice(2);
const client = await connect(era, command);
const { tools } = await client.listTools();
const result = await client.callTool({ name, arguments: JSON.parse(args) });
const seen = { revision: client.getNegotiatedProtocolVersion(), server: client.getServerVersion(), tools, result };
console.log(JSON.stringify(seen));
await client.close();
