/** The webhook of a controller, sent the largest policies and bodies by another thread. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { Worker } from 'node:worker_threads';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { NO_OBJECTS } from '../../apis/objects.ts';
import { validateObject } from '../../apis/validate/object.ts';
import type { AdmissionWorld } from '../../controller/webhook/admission.ts';
import { AdmissionProcess } from '../../controller/webhook/admission-process.ts';
import { webhookServer } from '../../controller/webhook/server.ts';
import { BODIES, largest, NESTED, onPort, reviewOf } from '../../test/abuse/bodies.ts';
import { createAuthority } from '../../test/cluster/certificates.ts';
import { processorTimeOf } from '../measure/process.ts';
import { median } from '../measure/statistics.ts';
import { answer } from './trial.ts';

const BYTES = 8 << 20;
const ROUNDS = 10;
/** Posts a body, and answers with the milliseconds that it took. */
const CLIENT = `
  const { parentPort, workerData: port } = require('node:worker_threads');
  const { request, Agent } = require('node:https');
  const agent = new Agent({ keepAlive: true, rejectUnauthorized: false });
  parentPort.on('message', (body) => {
    const began = performance.now();
    const headers = { 'content-type': 'application/json', 'content-length': body.length };
    const sent = request({ host: '127.0.0.1', port, path: '/validate', method: 'POST', agent, headers });
    sent.on('response', (response) => {
      response.resume().on('end', () => parentPort.postMessage(performance.now() - began));
    });
    sent.end(body);
  });`;

const policies = Array.from(
  { length: 100 },
  (_, index) => validateObject(largest(`o${index}`, onPort)).object,
);
const objects = { ...NO_OBJECTS, policies } as NonNullable<AdmissionWorld['objects']>;
const world = { objects, failsafe: DEFAULT_CONFIG.failsafe, interfaceGroups: [], believesAnyServer: false };
const admission = new AdmissionProcess({ time: 60_000, heap: 256 });
const authority = await createAuthority('webhook');
const pair = await authority.issue({ commonName: 'localhost', names: ['localhost'], usage: 'server' });
const server = webhookServer(
  { key: pair.key, cert: pair.certificate },
  {
    admit: (request) => admission.admit(request),
    world: () => world,
    changed: async () => {},
    latest: async () => null,
    onFailure: ({ message }) => process.stderr.write(`${message}\n`),
  },
).listen(0, '127.0.0.1');
await once(server, 'listening');
const client = new Worker(CLIENT, { eval: true, workerData: (server.address() as AddressInfo).port });

interface Cost {
  /** Milliseconds until the answer; processor time of this thread. */
  readonly time: number;
  readonly main: number;
}

async function send(body: Buffer): Promise<Cost> {
  const before = process.threadCpuUsage();
  client.postMessage(body);
  const [time] = (await once(client, 'message')) as [number];
  const { user, system } = process.threadCpuUsage(before);
  return { time, main: (user + system) / 1000 };
}

const child = (): Promise<number> => processorTimeOf(admission.pid ?? 0);
const policy = Buffer.from(reviewOf(JSON.stringify(largest('p', onPort))));
for (let round = 0; round < ROUNDS; round++) await send(policy);
const before = await child();
const ofPolicy: Cost[] = [];
for (let round = 0; round < 5 * ROUNDS; round++) ofPolicy.push(await send(policy));
const policyCpu = ((await child()) - before) * (1000 / (5 * ROUNDS));
const bodies: Cost[] = [];
for (const object of [...NESTED, ...Object.values(BODIES).map(([one]) => one)]) {
  const body = Buffer.from(reviewOf(object).padEnd(BYTES));
  await send(body);
  bodies.push(await send(body));
}
answer({
  policy: median(ofPolicy.map(({ time }) => time)),
  policyCpu,
  body: Math.max(...bodies.map(({ time }) => time)),
  bodyMain: Math.max(...bodies.map(({ main }) => main)),
});
process.exit();
