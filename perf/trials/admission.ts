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
import { largest, onPort, plainStep } from '../../test/abuse/bodies.ts';
import { createAuthority } from '../../test/cluster/certificates.ts';
import { processorTimeOf } from '../measure/process.ts';
import { median } from '../measure/statistics.ts';
import { answer } from './trial.ts';

const ROUNDS = 10;
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
    stepOf: plainStep,
    admit: (request) => admission.admit(request),
    world: () => world,
    changed: async () => {},
    latest: async () => null,
    onFailure: ({ message }) => process.stderr.write(`${message}\n`),
  },
).listen(0, '127.0.0.1');
await once(server, 'listening');
const client = new Worker(new URL('admission-client.ts', import.meta.url), {
  workerData: (server.address() as AddressInfo).port,
});

interface Cost {
  /** Milliseconds until the answer; processor time of this thread. */
  readonly time: number;
  readonly main: number;
}

async function ask<T>(order: 'post' | 'next'): Promise<T> {
  client.postMessage(order);
  const [answer] = await once(client, 'message');
  return answer;
}

async function send(): Promise<Cost> {
  const before = process.threadCpuUsage();
  const time = await ask<number>('post');
  const { user, system } = process.threadCpuUsage(before);
  return { time, main: (user + system) / 1000 };
}

const child = (): Promise<number> => processorTimeOf(admission.pid ?? 0);
for (let round = 0; round < ROUNDS; round++) await send();
const before = await child();
const ofPolicy: Cost[] = [];
for (let round = 0; round < 5 * ROUNDS; round++) ofPolicy.push(await send());
const policyCpu = ((await child()) - before) * (1000 / (5 * ROUNDS));
const bodies: Cost[] = [];
while (await ask<boolean>('next')) {
  await send();
  bodies.push(await send());
}
answer({
  policy: median(ofPolicy.map(({ time }) => time)),
  policyCpu,
  body: Math.max(...bodies.map(({ time }) => time)),
  bodyMain: Math.max(...bodies.map(({ main }) => main)),
});
process.exit();
