// Drives innerd with the official JavaScript client of A2A 0.3.
import { ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory, RestTransportFactory } from 'a2a-v03/client';
import { assert, check, equal, first, id, options, refused, webhook } from './check.mjs';

const { url, rootUrl } = options;
const auth = options.key ? { authorization: `Bearer ${options.key}` } : {};

function fetchWithKey(input, init = {}) {
  const headers = new Headers(init.headers);
  for (const [k, v] of Object.entries(auth)) headers.set(k, v);
  return fetch(input, { ...init, headers });
}
const factories = { JSONRPC: new JsonRpcTransportFactory({ fetchImpl: fetchWithKey }), 'HTTP+JSON': new RestTransportFactory({ fetchImpl: fetchWithKey }) };

const clientOf = (transport, base) => new ClientFactory({ ...ClientFactoryOptions.default, transports: [factories[transport]], preferredTransports: [transport] }).createFromUrl(base);
const send = (messageId, extra = {}, configuration) => ({
  message: { kind: 'message', messageId, role: 'user', parts: [{ kind: 'text', text: 'hello' }], ...extra }, configuration,
});
const words = (a) => a.parts.map((p) => p.text ?? '').join('');

async function all(stream) {
  const out = [];
  for await (const e of stream) out.push(e);
  return out;
}

async function suite(transport, base) {
  const t = (name, f) => check(`0.3 ${transport}`, name, f);
  const client = await clientOf(transport, base);
  await t('send', async () => {
    const task = await client.sendMessage(send(id('tck-artifact-text'), {}, { blocking: true }));
    equal([task.kind, task.status.state, words(task.artifacts[0])], ['task', 'completed', 'Generated text content']);
  });
  await t('stream', async () => {
    const events = await all(client.sendMessageStream(send(id('tck-stream-001'))));
    equal(events[0].kind, 'task', 'first');
    const last = events.at(-1);
    equal([last.kind, last.status.state, last.final], ['status-update', 'completed', true], 'last');
    equal(events.filter((e) => e.kind === 'artifact-update').map((e) => words(e.artifact)).join(''), 'Stream hello from TCK');
  });
  await t('input required and the answer', async () => {
    const task = await client.sendMessage(send(id('tck-input-required'), {}, { blocking: true }));
    equal(task.status.state, 'input-required');
    const done = await client.sendMessage(send(id('answer'), { taskId: task.id, contextId: task.contextId, parts: [{ kind: 'text', text: 'old' }] }, { blocking: true }));
    equal([done.status.state, words(done.artifacts.at(-1))], ['completed', 'Thank you: old']);
  });
  await t('get with history', async () => {
    const task = await client.sendMessage(send(id('tck-complete-task'), {}, { blocking: true }));
    const got = await client.getTask({ id: task.id, historyLength: 1 });
    equal([got.id, got.history.length], [task.id, 1]);
  });
  await t('cancel', async () => {
    const task = await client.sendMessage(send(id('tck-input-required'), {}, { blocking: true }));
    equal((await client.cancelTask({ id: task.id })).status.state, 'canceled');
  });
  await t('resubscribe', async () => {
    const task = await client.sendMessage(send(id('tck-input-required'), {}, { blocking: true }));
    let events;
    await new Promise((y) => (events = all(first(client.resubscribeTask({ id: task.id }), y)))); // it is there
    await client.sendMessage(send(id('answer'), { taskId: task.id }, { blocking: true }));
    equal((await events).at(-1).status.state, 'completed');
  });
  await t('push', async () => {
    const hook = await webhook();
    const task = await client.sendMessage(send(id('tck-input-required'), {}, { blocking: true, pushNotificationConfig: { id: 'p', url: hook.url, token: 'tok' } }));
    await client.sendMessage(send(id('answer'), { taskId: task.id }, { blocking: true }));
    await hook.until((g) => g.body.statusUpdate?.status.state === 'TASK_STATE_COMPLETED');
    hook.close();
    equal(hook.got[0].headers['x-a2a-notification-token'], 'tok');
  });
  await t('error: task not found', () => refused(() => client.getTask({ id: 'nope' }), 'not found').catch((e) => {
    if (!String(e.message).includes('no such task') && !String(e.message).includes('-32001') && !String(e.message).includes('TaskNotFound')) throw e;
  }));
}

await check('0.3 card', 'discovery', async () => {
  const resp = await fetch(new URL('.well-known/agent-card.json', url));
  const card = await resp.json();
  equal([card.protocolVersion, card.url, card.preferredTransport], ['0.3.0', url, 'JSONRPC']);
  assert(!card.supportedInterfaces, 'nothing of 1.0');
});
await suite('JSONRPC', url);
await suite('HTTP+JSON', url);
if (rootUrl) await suite('JSONRPC', rootUrl); // a card of both generations
process.exit(0);
