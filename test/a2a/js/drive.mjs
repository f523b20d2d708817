// Drives innerd with the official JavaScript client of A2A 1.0.
import { ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory, RestTransportFactory, ServiceParameters, withA2AExtensions } from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import { Role, TaskState, verifyAgentCardSignature } from '@a2a-js/sdk';
import * as grpc from '@grpc/grpc-js';
import { createPublicKey } from 'node:crypto';
import { assert, check, equal, first, id, options, refused, webhook } from './check.mjs';

const { url, transports, open, publicKey } = options;
const auth = options.key ? { authorization: `Bearer ${options.key}` } : {};
const uri = 'urn:innerd:extensions:coding-agent/v1';
let card; // as it is served

function fetchWithKey(input, init = {}) {
  const headers = new Headers(init.headers);
  for (const [k, v] of Object.entries(auth)) headers.set(k, v);
  return fetch(input, { ...init, headers });
}

const factories = {
  JSONRPC: () => new JsonRpcTransportFactory({ fetchImpl: fetchWithKey }),
  'HTTP+JSON': () => new RestTransportFactory({ fetchImpl: fetchWithKey }),
  GRPC: () => new GrpcTransportFactory({ grpcChannelCredentials: grpc.credentials.createInsecure() }),
};

async function clientOf(transport, base = url, config = {}) {
  const factory = new ClientFactory({ ...ClientFactoryOptions.default, transports: [factories[transport]()], clientConfig: config });
  const client = await factory.createFromUrl(base);
  equal(client.protocolVersion, '1.0', 'version');
  return client;
}

const text = (value) => ({ content: { $case: 'text', value }, metadata: undefined, filename: '', mediaType: '' });
const data = (value) => ({ content: { $case: 'data', value }, metadata: undefined, filename: '', mediaType: '' });

function send(messageId, extra = {}, configuration) {
  const { parts = [text('hello')], tenant = '', metadata, ...message } = extra;
  return {
    tenant, metadata,
    message: { messageId, contextId: '', taskId: '', role: Role.ROLE_USER, parts, metadata: undefined, extensions: [], referenceTaskIds: [], ...message },
    configuration: configuration && { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately: false, ...configuration },
  };
}

const isTask = (r) => r && 'artifacts' in r;
const words = (a) => a.parts.map((p) => (p.content?.$case === 'text' ? p.content.value : '')).join('');

async function all(stream, until = () => false) {
  const out = [];
  for await (const e of stream) {
    out.push(e.payload);
    if (until(e.payload)) break;
  }
  return out;
}

// fold puts a stream together as a client does.
function fold(events) {
  let task;
  for (const e of events) {
    if (e.$case === 'task') task = structuredClone(e.value);
    if (e.$case === 'statusUpdate') task.status = e.value.status;
    if (e.$case === 'artifactUpdate') {
      const { artifact, append } = e.value;
      const old = task.artifacts.find((a) => a.artifactId === artifact.artifactId);
      if (!old) task.artifacts.push(structuredClone(artifact));
      else if (append) old.parts.push(...artifact.parts);
      else Object.assign(old, structuredClone(artifact));
    }
  }
  return task;
}

async function suite(transport, opts) {
  const t = (name, f) => check(transport, name, f);
  const client = await clientOf(transport);
  const sendMessage = (...a) => client.sendMessage(send(...a), opts);
  const stream = (...a) => client.sendMessageStream(send(...a), opts);
  const get = (taskId, historyLength) => client.getTask({ tenant: '', id: taskId, historyLength }, opts);
  const waiting = async (extra) => {
    const task = await sendMessage(id('tck-input-required'), extra);
    equal(task.status.state, TaskState.TASK_STATE_INPUT_REQUIRED, 'state');
    return task;
  };

  await t('send: blocks until the task is complete', async () => {
    const task = await sendMessage(id('tck-delayed-complete'));
    assert(isTask(task), 'a task');
    equal(task.status.state, TaskState.TASK_STATE_COMPLETED, 'state');
    equal(words(task.artifacts[0]), 'Done after delay');
    assert(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$|^\d{4}-/.test(task.status.timestamp), task.status.timestamp);
  });
  await t('send: returnImmediately and polling', async () => {
    let task = await sendMessage(id('tck-delayed-complete'), {}, { returnImmediately: true });
    assert([TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING].includes(task.status.state), `state ${task.status.state}`);
    while (task.status.state !== TaskState.TASK_STATE_COMPLETED) {
      await new Promise((y) => setTimeout(y, 20));
      task = await get(task.id);
    }
    equal(words(task.artifacts[0]), 'Done after delay');
  });
  await t('send: an answer that is a message', async () => {
    const m = await sendMessage(id('tck-message-response'));
    assert(!isTask(m), 'a message');
    equal(m.role, Role.ROLE_AGENT, 'role');
    equal(m.parts[0].content.value, 'Direct message response');
  });
  await t('send: a task that is rejected', async () => {
    const task = await sendMessage(id('tck-reject-task'));
    equal(task.status.state, TaskState.TASK_STATE_REJECTED, 'state');
    assert(task.status.message.parts[0].content.value.includes('rejected'), 'says why');
  });
  for (const [prefix, $case] of [['tck-artifact-text', 'text'], ['tck-artifact-file', 'raw'], ['tck-artifact-file-url', 'url'], ['tck-artifact-data', 'data']]) {
    await t(`artifact: ${$case}`, async () => {
      const task = await sendMessage(id(prefix));
      const part = task.artifacts.at(-1).parts[0];
      equal(part.content.$case, $case, 'kind');
      if ($case === 'raw') equal([part.content.value.toString(), part.filename, part.mediaType], ['file content', 'output.txt', 'text/plain']);
      if ($case === 'url') equal(part.content.value, 'https://example.com/output.txt');
      if ($case === 'data') equal(part.content.value, { key: 'value', count: 42 });
    });
  }
  await t('stream: the task, then its updates, in order', async () => {
    const events = await all(stream(id('tck-stream-001')));
    equal(events[0].$case, 'task', 'first');
    equal(events[0].value.status.state, TaskState.TASK_STATE_SUBMITTED, 'first state');
    equal(events.at(-1).value.status.state, TaskState.TASK_STATE_COMPLETED, 'last state');
    assert(events.some((e) => e.value.status?.state === TaskState.TASK_STATE_WORKING), 'it works');
    const task = fold(events);
    equal(words(task.artifacts[0]), 'Stream hello from TCK');
    equal(words((await get(task.id)).artifacts[0]), 'Stream hello from TCK', 'what the server has');
    assert(events.filter((e) => e.$case === 'artifactUpdate').at(-1).value.lastChunk, 'lastChunk');
  });
  await t('stream: artifacts in order', async () => {
    const events = await all(stream(id('tck-stream-ordering-001')));
    equal(events.filter((e) => e.$case === 'artifactUpdate').map((e) => words(e.value.artifact)), [1, 2, 3, 4, 5].map((i) => `artifact ${i}`));
  });
  await t('stream: an artifact in chunks', async () => {
    const events = await all(stream(id('tck-stream-artifact-chunked')));
    const chunks = events.filter((e) => e.$case === 'artifactUpdate').map((e) => e.value);
    equal(chunks.map((c) => [words(c.artifact), c.append, c.lastChunk]), [['chunk-1 ', false, false], ['chunk-2 ', true, false], ['chunk-3 ', true, true]]);
  });
  await t('stream: ends where input is required, and goes on with the answer', async () => {
    const first = await all(stream(id('tck-input-required')));
    equal(first.at(-1).value.status.state, TaskState.TASK_STATE_INPUT_REQUIRED, 'state');
    equal(first.at(-1).value.status.message.parts[0].content.value, 'What shall I do?');
    const task = fold(first);
    const more = await all(stream(id('answer'), { taskId: task.id, parts: [text('this')] }));
    equal(more[0].$case, 'task', 'first');
    equal(more.at(-1).value.status.state, TaskState.TASK_STATE_COMPLETED, 'state');
    equal(words(fold(more).artifacts.at(-1)), 'Thank you: this');
    const roles = (await get(task.id)).history.map((m) => m.role);
    equal(roles, [Role.ROLE_USER, Role.ROLE_AGENT, Role.ROLE_USER], 'history');
  });
  await t('input required: answered by a message', async () => {
    const task = await waiting();
    const done = await sendMessage(id('answer'), { taskId: task.id, contextId: task.contextId, parts: [text('that')] });
    equal(done.id, task.id, 'id');
    equal(done.status.state, TaskState.TASK_STATE_COMPLETED, 'state');
    equal(words(done.artifacts.at(-1)), 'Thank you: that');
  });
  await t('auth required: the stream stays open and goes on by itself', async () => {
    const events = await all(stream(id('innerd-auth')));
    const states = events.map((e) => e.value.status?.state).filter((s) => s !== undefined);
    assert(states.includes(TaskState.TASK_STATE_AUTH_REQUIRED), `states ${states}`);
    equal(states.at(-1), TaskState.TASK_STATE_COMPLETED, 'last');
  });
  await t('auth required: a blocking send returns', async () => {
    const task = await sendMessage(id('innerd-auth'));
    equal(task.status.state, TaskState.TASK_STATE_AUTH_REQUIRED, 'state');
    assert(task.status.message.parts[0].content.value.includes('CODE-1'), 'says what to do');
  });
  await t('cancel: a task that works', async () => {
    const task = await sendMessage(id('innerd-hold'), {}, { returnImmediately: true });
    equal((await client.cancelTask({ tenant: '', id: task.id, metadata: undefined }, opts)).status.state, TaskState.TASK_STATE_CANCELED, 'state');
    equal((await get(task.id)).status.state, TaskState.TASK_STATE_CANCELED, 'state');
  });
  await t('cancel: a task that waits, and again', async () => {
    const task = await waiting();
    equal((await client.cancelTask({ tenant: '', id: task.id, metadata: undefined }, opts)).status.state, TaskState.TASK_STATE_CANCELED, 'state');
    equal((await client.cancelTask({ tenant: '', id: task.id, metadata: undefined }, opts)).status.state, TaskState.TASK_STATE_CANCELED, 'state');
  });
  await t('get: history and its length', async () => {
    const task = await waiting();
    await sendMessage(id('answer'), { taskId: task.id, parts: [text('x')] });
    equal((await get(task.id)).history.length, 3, 'all');
    equal((await get(task.id, 1)).history.length, 1, 'one');
    equal((await get(task.id, 0)).history.length, 0, 'none');
  });
  await t('context: kept, and a task of its own for each message', async () => {
    const contextId = id('ctx');
    const a = await sendMessage(id('tck-complete-task'), { contextId });
    const b = await sendMessage(id('tck-complete-task'), { contextId });
    equal([a.contextId, b.contextId], [contextId, contextId], 'contexts');
    assert(a.id !== b.id, 'two tasks');
    assert((await sendMessage(id('tck-complete-task'))).contextId, 'one is made');
  });
  await t('list: by context, pages, newest first, totals', async () => {
    const contextId = id('list');
    const ids = [];
    for (let i = 0; i < 5; i++) ids.unshift((await sendMessage(id('tck-complete-task'), { contextId })).id);
    const seen = [];
    let pageToken = '', pages = 0;
    do {
      const page = await client.listTasks({ tenant: '', contextId, status: TaskState.TASK_STATE_UNSPECIFIED, pageSize: 2, pageToken, statusTimestampAfter: undefined }, opts);
      equal([page.pageSize, page.totalSize], [2, 5], 'sizes');
      seen.push(...page.tasks.map((x) => x.id));
      assert(page.tasks.every((x) => x.artifacts.length === 0), 'no artifacts');
      pageToken = page.nextPageToken;
    } while (pageToken && ++pages < 10);
    equal(seen, ids, 'order');
    const one = await client.listTasks({ tenant: '', contextId, status: TaskState.TASK_STATE_COMPLETED, pageSize: 1, pageToken: '', includeArtifacts: true, historyLength: 1, statusTimestampAfter: undefined }, opts);
    equal([one.tasks[0].artifacts.length, one.tasks[0].history.length], [1, 1], 'artifacts and history');
    const none = await client.listTasks({ tenant: '', contextId, status: TaskState.TASK_STATE_FAILED, pageToken: '', statusTimestampAfter: undefined }, opts);
    equal([none.tasks, none.totalSize, none.nextPageToken], [[], 0, ''], 'none');
  });
  await t('subscribe: after a dropped stream nothing is lost', async () => {
    const stop = new AbortController(), gate = `.js-${transport}.`;
    let task;
    try {
      for await (const e of client.sendMessageStream(send(id(`innerd-gated${gate}`)), { ...opts, signal: stop.signal })) {
        if (e.payload.$case === 'task') task = e.payload.value;
        if (e.payload.$case === 'artifactUpdate') stop.abort();
      }
    } catch {
      // dropped
    }
    const opens = () => sendMessage(id(`innerd-open${gate}`));
    let opened;
    const events = await all(first(client.resubscribeTask({ tenant: '', id: task.id }, opts), () => (opened ??= opens()))); // it goes on when its reader is there again
    await opened;
    equal(events[0].$case, 'task', 'first');
    equal(fold(events).artifacts.map(words), Array.from({ length: 10 }, (_, i) => `still working ${i}`));
    equal(events.at(-1).value.status.state, TaskState.TASK_STATE_COMPLETED, 'last');
  });
  await t('subscribe: two readers see the same', async () => {
    const task = await waiting();
    const readers = [];
    for (const i of [0, 1]) await new Promise((y) => (readers[i] = all(first(client.resubscribeTask({ tenant: '', id: task.id }, opts), y)))); // both are there
    await sendMessage(id('answer'), { taskId: task.id, parts: [text('both')] });
    const [a, b] = await Promise.all(readers);
    equal(fold(a), fold(b), 'task');
    equal(words(fold(a).artifacts.at(-1)), 'Thank you: both');
  });
  await t('push: configurations', async () => {
    const task = await waiting();
    const config = { tenant: '', id: 'c1', taskId: task.id, url: 'https://example.com/hook', token: 'tok', authentication: { scheme: 'Bearer', credentials: 'sec' } };
    const made = await client.createTaskPushNotificationConfig(config, opts);
    equal([made.id, made.url, made.taskId], ['c1', config.url, task.id], 'made');
    equal((await client.getTaskPushNotificationConfig({ tenant: '', taskId: task.id, id: 'c1' }, opts)).token, 'tok');
    equal((await client.listTaskPushNotificationConfig({ tenant: '', taskId: task.id, pageSize: 10, pageToken: '' }, opts)).configs.length, 1, 'list');
    await client.deleteTaskPushNotificationConfig({ tenant: '', taskId: task.id, id: 'c1' }, opts);
    await client.deleteTaskPushNotificationConfig({ tenant: '', taskId: task.id, id: 'c1' }, opts);
    await refused(() => client.getTaskPushNotificationConfig({ tenant: '', taskId: task.id, id: 'c1' }, opts), 'TaskNotFound');
  });
  await t('push: delivered, in order, with both token headers', async () => {
    const hook = await webhook();
    const config = { tenant: '', id: 'p', taskId: '', url: hook.url, token: 'tok-1', authentication: { scheme: 'Bearer', credentials: 'cred-1' } };
    const task = await sendMessage(id('tck-input-required'), {}, { taskPushNotificationConfig: config });
    await sendMessage(id('answer'), { taskId: task.id, parts: [text('pushed')] });
    await hook.until((g) => g.body.statusUpdate?.status.state === 'TASK_STATE_COMPLETED');
    hook.close();
    const kinds = hook.got.map((g) => Object.keys(g.body)[0]);
    equal(kinds[0], 'task', 'first');
    const states = hook.got.map((g) => g.body.statusUpdate?.status.state).filter(Boolean);
    equal(states, ['TASK_STATE_WORKING', 'TASK_STATE_INPUT_REQUIRED', 'TASK_STATE_WORKING', 'TASK_STATE_COMPLETED'], 'states');
    for (const g of hook.got) {
      equal([g.headers['x-a2a-notification-token'], g.headers['a2a-notification-token'], g.headers.authorization, g.headers['content-type']], ['tok-1', 'tok-1', 'Bearer cred-1', 'application/a2a+json']);
    }
  });
  await t('extension: off by default, on when it is asked for', async () => {
    const plain = await all(stream(id('tck-stream-002')));
    assert(!JSON.stringify(plain).includes(uri), 'nothing of it');
    const events = await all(client.sendMessageStream(send(id('tck-stream-002')), { ...opts, serviceParameters: ServiceParameters.createFrom(opts.serviceParameters, withA2AExtensions(uri)) }));
    const kinds = events.flatMap((e) => e.value.status?.message?.parts ?? []).map((p) => p.content.value?.kind).filter(Boolean);
    assert(kinds.includes('thought') && kinds.includes('usage'), `kinds ${kinds}`);
  });
  await t('tenant: an agent by name', async () => {
    const task = await sendMessage(id('any'), { tenant: 'simulate', parts: [text('say it')] });
    equal(task.status.state, TaskState.TASK_STATE_COMPLETED, 'state');
    assert(words(task.artifacts[0]).includes('say it'), words(task.artifacts[0]));
    await refused(() => sendMessage(id('any'), { tenant: 'nobody' }), 'tenant');
  });

  const done = await sendMessage(id('tck-complete-task'));
  await t('error: TASK_NOT_FOUND', async () => {
    await refused(() => get('nope'), 'TaskNotFound');
    await refused(() => client.cancelTask({ tenant: '', id: 'nope', metadata: undefined }, opts), 'TaskNotFound');
    await refused(() => client.resubscribeTask({ tenant: '', id: 'nope' }, opts), 'TaskNotFound');
    await refused(() => sendMessage(id('x'), { taskId: 'nope' }), 'TaskNotFound');
    await refused(() => stream(id('x'), { taskId: 'nope' }), 'TaskNotFound');
  });
  await t('error: TASK_NOT_CANCELABLE', () => refused(() => client.cancelTask({ tenant: '', id: done.id, metadata: undefined }, opts), 'TaskNotCancelable'));
  await t('error: UNSUPPORTED_OPERATION', async () => {
    await refused(() => client.resubscribeTask({ tenant: '', id: done.id }, opts), 'UnsupportedOperation');
    await refused(() => sendMessage(id('x'), { taskId: done.id }), 'UnsupportedOperation');
    const works = await sendMessage(id('innerd-hold'), {}, { returnImmediately: true });
    await refused(() => sendMessage(id('x'), { taskId: works.id }), 'UnsupportedOperation'); // this agent takes no input while it works
    await client.cancelTask({ tenant: '', id: works.id, metadata: undefined }, opts);
  });
  await t('error: CONTENT_TYPE_NOT_SUPPORTED', () => refused(() => sendMessage(id('x'), { parts: [{ ...text('x'), mediaType: 'application/x-unsupported' }] }), 'ContentTypeNotSupported'));
  await t('error: VERSION_NOT_SUPPORTED', () => refused(() => client.transport.getTask({ tenant: '', id: done.id }, { ...opts, serviceParameters: { ...opts.serviceParameters, 'A2A-Version': '99.0' } }), 'VersionNotSupported'));
  await t('error: invalid parameters', async () => {
    await refused(() => sendMessage(id('x'), { parts: [] }), 'parts');
    await refused(() => sendMessage('', {}), transport === 'GRPC' ? 'message id' : 'messageId');
    if (transport !== 'GRPC') await refused(() => get(done.id, -1), 'historyLength'); // the SDK's gRPC adapter drops it
    await refused(async () => sendMessage(id('x'), { taskId: (await waiting()).id, contextId: 'another' }), 'contextId');
    await refused(() => client.createTaskPushNotificationConfig({ tenant: '', id: 'c', taskId: done.id, url: 'ftp://example.com', token: '', authentication: undefined }, opts), 'url');
    await refused(() => client.createTaskPushNotificationConfig({ tenant: '', id: 'c', taskId: done.id, url: 'http://10.0.0.1/', token: '', authentication: undefined }, opts), 'public');
  });
  if (open) {
    await t('error: the extended card needs a server with keys', () => refused(() => client.transport.getExtendedAgentCard({ tenant: '' }, opts), 'UnsupportedOperation'));
  } else {
    await t('extended card', async () => {
      const extended = await client.getAgentCard(opts);
      assert(extended.skills.length >= 2 && extended.skills.some((s) => s.description.includes('Version')), JSON.stringify(extended.skills));
    });
  }
}

await check('card', 'discovery: the card is complete and cached', async () => {
  const resp = await fetch(`${url}/.well-known/agent-card.json`);
  card = await resp.json();
  assert(resp.headers.get('etag') && resp.headers.get('cache-control').includes('max-age'), 'cache headers');
  for (const k of ['name', 'description', 'version', 'supportedInterfaces', 'capabilities', 'defaultInputModes', 'defaultOutputModes', 'skills']) assert(card[k], k);
  const again = await fetch(`${url}/.well-known/agent-card.json`, { headers: { 'if-none-match': resp.headers.get('etag') } });
  equal(again.status, 304, 'status');
});
await check('card', 'discovery: each agent has its own', async () => {
  const client = await clientOf('JSONRPC', `${url}/a2a/agents/simulate/`);
  const task = await client.sendMessage(send(id('own'), { parts: [text('mine')] }));
  assert(words(task.artifacts[0]).includes('mine'), words(task.artifacts[0]));
  const rest = await clientOf('HTTP+JSON', `${url}/a2a/agents/simulate/`);
  equal((await rest.getTask({ tenant: '', id: task.id })).id, task.id);
});
if (publicKey) {
  await check('card', 'signature: verified by the SDK', async () => {
    // The card as it was served: the SDK's resolver loses the security schemes.
    const verify = verifyAgentCardSignature(async () => createPublicKey(publicKey));
    await verify(card);
    await refused(() => verify({ ...card, description: 'another' }), 'No valid signatures');
  });
}
for (const transport of transports) {
  const opts = transport === 'GRPC' ? { serviceParameters: auth } : {};
  await suite(transport, opts);
}
process.exit(0);
