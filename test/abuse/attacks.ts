/**
 * What strangers, and holders of stolen tokens, can send to a controller's ports. Each attack is an
 * act that several clients repeat, with a pause after it: at a fixed rate at most.
 */
import { connect as connectTcp } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { BODIES, NESTED, reviewOf } from './bodies.ts';
import type { Clients } from './clients.ts';

interface Attack {
  readonly clients: number;
  /** Milliseconds. */
  readonly pause: number;
  readonly act: (controller: Clients, client: number) => Promise<unknown>;
}

const MiB = 1 << 20;
export const POST_JSON = { method: 'POST', headers: { 'content-type': 'application/json' } } as const;
const OBJECTS = [...NESTED, ...Object.values(BODIES).map(([object]) => object)];
/** A Node whose agent's token was stolen. */
export const VICTIM = 'victim';
const STOLEN = `agent.${VICTIM}`;
const WATCH = `${NODE_VIEWS_PATH}?watch=1&fieldSelector=metadata.name=${VICTIM}`;
const UNENDED = Buffer.alloc(7 * MiB, 32);
const REPORT = {
  node: VICTIM,
  revision: 'e.1',
  enforced: 'e.1',
  enabled: true,
  policies: 1,
  version: '0.1.0',
  dataplane: 'nftables',
  time: '1970-01-01T00:00:00.000Z',
};
let count = 0;

function report(): string {
  const text = (index: number) => `${count++}-${index}-${'x'.repeat(500)}`;
  const failing = Array.from({ length: 100 }, (_, index) => {
    return { policy: `churn-${index % 8}`, rule: text(index), reason: text(index), since: REPORT.time };
  });
  const hostAddresses = Array.from({ length: 64 }, (_, index) => `10.${count % 250}.${index}.1`);
  return JSON.stringify({ ...REPORT, failing, hostAddresses });
}

/** @param group of addresses, a network of 127.0.0.0/8 for each attack */
const from = (group: number, client: number, sources: number) => `127.0.${group}.${1 + (client % sources)}`;

export const ATTACKS: Readonly<Record<string, Attack>> = {
  'large reviews': {
    clients: 3,
    pause: 50,
    act(controller, client) {
      const body = Buffer.from(reviewOf(OBJECTS[count++ % OBJECTS.length] ?? ''));
      const how = { ...POST_JSON, port: controller.ports.webhook, body, from: from(21, client, 4) };
      return controller.ask('/validate', how);
    },
  },
  'reviews that do not end': {
    clients: 5,
    pause: 0,
    async act(controller, client) {
      const socket = await controller.connect({ port: controller.ports.webhook, from: from(22, client, 4) });
      socket.write(
        'POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 8000000\r\n\r\n',
      );
      socket.write(UNENDED);
      await sleep(1000);
      socket.destroy();
    },
  },
  'heads that do not end': {
    clients: 15,
    pause: 300,
    async act(controller, client) {
      const port = [controller.ports.agents, controller.ports.webhook][client % 2] ?? 0;
      const socket = await controller.connect({ port, from: from(23, client, 8) });
      socket.write(`GET /apis HTTP/1.1\r\nX: ${'x'.repeat(7000)}`);
    },
  },
  'connections without a handshake': {
    clients: 10,
    pause: 100,
    async act({ ports }, client) {
      const { agents, webhook, health } = ports;
      const port = [agents, webhook, health][client % 3] ?? 0;
      const socket = connectTcp({ host: '127.0.0.1', port, localAddress: from(24, client, 10) });
      socket.on('error', () => {});
      await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve));
      socket.write(Buffer.from([22, 3, 1, 2, 0, 1, 0, 1]));
      setTimeout(() => socket.destroy(), 5000);
    },
  },
  'wrong tokens': {
    clients: 8,
    pause: 20,
    act: (controller, client) =>
      controller.ask('/apis', { token: `wrong-${client}-${count++}`, from: from(25, client, 8) }),
  },
  'requests in a row without a token': {
    clients: 2,
    pause: 100,
    async act(controller, client) {
      const socket = await controller.connect({ from: from(26, client, 2) });
      socket.write('GET /apis HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(1000));
      await sleep(100);
      socket.destroy();
    },
  },
  'readers that take nothing': {
    clients: 3,
    pause: 200,
    async act(controller, client) {
      const path = [WATCH, NODE_VIEWS_PATH, '/metrics'][client] ?? '';
      const token = client === 0 ? STOLEN : 'user.slow';
      (await controller.open(path, { token, from: from(27, client, 3) })).pause();
    },
  },
  'reads of all views': {
    clients: 4,
    pause: 20,
    act: (controller, client) =>
      controller.ask(NODE_VIEWS_PATH, { token: `user.reader-${client}`, from: from(28, client, 4) }),
  },
  'watches of a stolen token': {
    clients: 4,
    pause: 20,
    async act(controller, client) {
      (await controller.open(WATCH, { token: STOLEN, from: from(29, client, 4) })).destroy();
    },
  },
  'reports of a stolen token': {
    clients: 2,
    pause: 100,
    act: (controller, client) =>
      controller.ask(`${NODE_VIEWS_PATH}/${VICTIM}/status`, {
        ...POST_JSON,
        method: 'PUT',
        token: STOLEN,
        body: report(),
        from: from(30, client, 2),
      }),
  },
};
