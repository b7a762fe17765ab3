// A server on the TypeScript SDK v2 whose tools ask their client: asking_typescript.mjs over stdio, or with `http PORT`; see
// asking_official.py.
import { McpServer, inputRequired, inputResponse } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import * as z from 'zod';
import { serveHttp } from './serve_http.mjs';

const PAGE = 'https://example.com/agree';
const form = z.object({ sure: z.boolean(), why: z.string().default('no reason') });
const text = (value) => ({ content: [{ type: 'text', text: value }] });
const overwrite = (name) => inputRequired.elicit({ message: `Overwrite ${name}?`, requestedSchema: form });

const MOTTO = 'resource://motto';
let notify; // over HTTP, where modern clients listen at the handler

function make({ era }) {
  const capabilities = { resources: { subscribe: true } };
  const server = new McpServer({ name: 'asking', version: '1.0.0' }, { capabilities });
  const named = { inputSchema: z.object({ name: z.string() }) };
  // Asks by what is returned; towards legacy clients the SDK makes requests of that.
  const ask = (requests, say) => async (given, { mcpReq }) => {
    const inputRequests = requests(given);
    const answers = Object.keys(inputRequests).map((key) => inputResponse(mcpReq.inputResponses, key));
    if (answers.some(({ kind }) => kind === 'missing')) return inputRequired({ inputRequests });
    return text(say(given, ...answers));
  };
  const said = ({ name }, { action, content }) =>
    `${name}: ${action}` + (action === 'accept' ? ` ${content.sure ? 'True' : 'False'} ${content.why}` : '');
  server.registerTool('resolved', named, ask(({ name }) => ({ sure: overwrite(name) }), said));
  const both = ({ name }) => ({
    first: overwrite(name),
    second: inputRequired.elicit({ message: `Forget ${name}?`, requestedSchema: form }),
  });
  server.registerTool('twice', named, ask(both, (_, first, second) => `${first.action} ${second.action}`));
  const question = { role: 'user', content: { type: 'text', text: 'The capital of France?' } };
  const model = () => ({ model: inputRequired.createMessage({ messages: [question], maxTokens: 9 }) });
  const none = { inputSchema: z.object({}) };
  server.registerTool('thinks', none, ask(model, (_, { result }) => result.content.text));
  const places = () => ({ places: inputRequired.listRoots() });
  server.registerTool('looks', none, ask(places, (_, { roots }) => roots.map(({ uri }) => uri).join(' ')));
  const page = () => ({ page: inputRequired.elicitUrl({ message: 'Agree', url: PAGE }) });
  server.registerTool('visits', none, ask(page, (_, { action }) => action));
  const motto = async (uri) => ({ contents: [{ uri: uri.href, text: 'Ask first.' }] });
  server.registerResource('motto', MOTTO, {}, motto);
  if (era === 'legacy') {
    server.server.setRequestHandler('resources/subscribe', async () => ({}));
    server.server.setRequestHandler('resources/unsubscribe', async () => ({}));
  }
  server.registerTool('touch', none, async () => {
    if (notify) notify.resourceUpdated(MOTTO);
    else await server.server.sendResourceUpdated({ uri: MOTTO });
    return text('touched');
  });
  server.registerTool('grow', none, async () => {
    if (notify) notify.toolsChanged();
    else server.sendToolListChanged();
    return text('grown');
  });
  return server;
}

if (process.argv[2] === 'http') notify = serveHttp(make, Number(process.argv[3]));
else await serveStdio(make);
