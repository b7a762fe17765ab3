// Has a server ask the client of the TypeScript SDK v2: asked_typescript.mjs ERA STEPS URL | COMMAND...; see asked_official.py.
import { connect } from './connect.mjs';

const [era, steps, ...command] = process.argv.slice(2);
let answer = {};
let asked = [];
const heard = [];
let wake = () => {};

const capabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
const client = await connect(era, command, capabilities, (made) => {
  made.setRequestHandler('elicitation/create', async ({ params }) => {
    asked.push(params);
    return answer;
  });
  made.setRequestHandler('sampling/createMessage', async ({ params }) => {
    asked.push(params);
    return { role: 'assistant', content: { type: 'text', text: 'Paris' }, model: 'm' };
  });
  made.setRequestHandler('roots/list', async () => ({ roots: [{ uri: 'file:///work' }] }));
  const hear = (what) => wake(heard.push(what));
  made.setNotificationHandler('notifications/tools/list_changed', () => hear('tools'));
  made.setNotificationHandler('notifications/resources/updated', ({ params }) => hear(`resource ${params.uri}`));
});

async function listen(uri, calls) {
  const filter = { toolsListChanged: true, resourceSubscriptions: [uri] };
  const subscription = era === 'modern' ? await client.listen(filter) : await client.subscribeResource({ uri });
  for (const [place, name] of calls.entries()) {
    await client.callTool({ name, arguments: {} });
    while (heard.length <= place) await new Promise((resolve) => (wake = resolve));
  }
  await subscription.close?.();
  return heard;
}

const doing = {
  call: ({ name, arguments: given }) => client.callTool({ name, arguments: given ?? {} }),
  prompt: ({ name, arguments: given }) => client.getPrompt({ name, arguments: given }),
  resource: ({ name }) => client.readResource({ uri: name }),
};

async function done(step) {
  answer = step.answer ?? {};
  asked = [];
  if (step.do === 'listen') return { heard: await listen(step.name, step.calls) };
  try {
    const result = await doing[step.do](step);
    const parts = result.contents ?? result.content ?? result.messages.map(({ content }) => content);
    return { text: parts.map(({ text }) => text).join(''), failed: result.isError ?? false, asked };
  } catch (error) {
    return { code: error.code, asked };
  }
}

const outcomes = [];
for (const step of JSON.parse(steps)) outcomes.push(await done(step));
console.log(JSON.stringify(outcomes));
await client.close();
