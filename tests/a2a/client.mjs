// Uses a server as @a2a-js/sdk does: node client.mjs URL TRANSPORT CONTEXT
import { ClientFactory, ClientFactoryOptions } from '@a2a-js/sdk/client';
import { Role, TaskState } from '@a2a-js/sdk';

const [url, transport, context] = process.argv.slice(2);
const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { preferredTransports: [transport] });
const client = await new ClientFactory(options).createFromUrl(url);

function request(text, { task = '', at = context, atOnce = false } = {}) {
  const part = { content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: '' };
  const message = {
    messageId: crypto.randomUUID(),
    contextId: task ? '' : at,
    taskId: task,
    role: Role.ROLE_USER,
    parts: [part],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  };
  const configuration = { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately: atOnce };
  return { tenant: '', message, configuration, metadata: undefined };
}

const taskOf = (result) => result.payload?.value ?? result;
const state = (task) => TaskState[task.status.state];
const text = (task) => task.artifacts.flatMap((artifact) => artifact.parts).map((part) => part.content.value).join('');
const shown = {};

const answered = taskOf(await client.sendMessage(request('add', { at: `${context}-blocking` })));
shown.blocking = [state(answered), text(answered)];

shown.streaming = [];
for await (const { payload } of client.sendMessageStream(request('add', { at: `${context}-streaming` }))) {
  const { $case, value } = payload;
  if ($case === 'artifactUpdate') shown.streaming.push(value.artifact.parts[0].content.value);
  else shown.streaming.push(TaskState[value.status.state]);
}

const asked = taskOf(await client.sendMessage(request('approve', { at: `${context}-input` })));
const subscribed = client.resubscribeTask({ tenant: '', id: asked.id });
shown.resubscribed = [state((await subscribed.next()).value.payload.value)];
const decided = taskOf(await client.sendMessage(request('by all means', { task: asked.id })));
shown.input = [state(asked), asked.status.message.parts[0].content.value, state(decided), text(decided)];
for await (const { payload } of subscribed) {
  if (payload.$case === 'statusUpdate') shown.resubscribed.push(TaskState[payload.value.status.state]);
}

const slow = taskOf(await client.sendMessage(request('linger', { at: `${context}-cancel`, atOnce: true })));
let working = slow;
while (state(working) === 'TASK_STATE_SUBMITTED') working = await client.getTask({ tenant: '', id: slow.id });
shown.cancel = [state(working), state(await client.cancelTask({ tenant: '', id: slow.id, metadata: undefined }))];

console.log(JSON.stringify(shown));
