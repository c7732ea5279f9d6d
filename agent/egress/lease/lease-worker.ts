/**
 * The thread of an agent's leases: heartbeats and renewals, with a connection and a netlink socket
 * of their own. The main thread may compute for more than a second (10,000 rules), which would be
 * too long for a lease of two; it makes the calls of the kernel that are rare.
 */

import { parentPort, workerData } from 'node:worker_threads';
import { Netlink, TimedElements } from 'nftables-napi';
import { monotonicClock } from '../../../lib/process/monotonic-clock.ts';
import { lookupOrLast } from '../../receive/address-lookup.ts';
import { controllerClient } from '../../receive/controller-client.ts';
import { LiveSets } from '../floating/live-sets.ts';
import type { FloatingKernel, Renewal } from '../floating-kernel.ts';
import { leaseChannel } from './lease-channel.ts';
import { leaseCounts } from './lease-counts.ts';
import { LeaseKeeper } from './lease-keeper.ts';
import type { FromLeaseThread, KernelCall, LeaseThreadData, ToLeaseThread } from './thread-messages.ts';

if (parentPort === null) throw new Error('lease-worker.ts is not a program');
const port = parentPort;
const { node, boot, url, tokenFile, userAgent, origin } = workerData as LeaseThreadData;
const clock = monotonicClock;
const send = (message: FromLeaseThread): void => port.postMessage(message);

const calls = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
let lastCall = 0;
function call<T>(
  method: KernelCall['method'],
  addresses: KernelCall['addresses'] = [],
  until = 0,
): Promise<T> {
  const id = ++lastCall;
  send({ kind: 'call', id, method, addresses, until });
  return new Promise<T>((resolve, reject) => {
    calls.set(id, { resolve: (value) => resolve(value as T), reject });
  });
}

const netlink = new Netlink();
const timed = new TimedElements();
const live = new LiveSets({ netlink, timed, clock, committed() {} });
const kernel: FloatingKernel = {
  read: () => call('read'),
  take: (addresses, until) => call('take', addresses, until),
  drop: (addresses) => call('drop', addresses),
  async renew(renewals) {
    const ended = new Set(await live.renew(renewals));
    this.renewed(renewals.filter(({ address }) => !ended.has(address)));
    return [...ended];
  },
  renewed: (renewals: readonly Renewal[]) => send({ kind: 'renewed', renewals }),
};

let access: Extract<ToLeaseThread, { kind: 'access' }> | null = null;
const authorities = {
  origin,
  async read(): Promise<string> {
    if (access === null) throw new Error(`${origin} was not read yet`);
    return access.authorities;
  },
  refused: () => send({ kind: 'refused' }),
};
const lookup = lookupOrLast(() => access?.addresses ?? [], clock);
const address = { url: new URL(url), tokenFile, authorities, lookup };
const client = controllerClient(address, userAgent, clock, Math.random);

const keeper = new LeaseKeeper({
  sender: () => ({ node, boot, sent: clock.now() }),
  ask: leaseChannel(client, clock),
  kernel,
  clock,
  log: (level, message, fields) => send({ kind: 'log', level, message, fields }),
  changed: leaseCounts((counts) => send({ kind: 'counts', counts })),
});

port.on('message', (message: ToLeaseThread) => {
  switch (message.kind) {
    case 'access':
      access = message;
      break;
    case 'viewed':
      keeper.viewed(message.view);
      break;
    case 'guarded':
      keeper.enforced(message.addresses);
      break;
    case 'health':
      keeper.health(message.unready, message.unreachable);
      break;
    case 'release':
      void keeper.release().then(() => send({ kind: 'released' }));
      break;
    case 'close':
      void close();
      break;
    case 'result': {
      const waiting = calls.get(message.id);
      calls.delete(message.id);
      if (message.error === undefined) waiting?.resolve(message.value);
      else waiting?.reject(new Error(message.error));
    }
  }
});

async function close(): Promise<void> {
  await keeper.close();
  client.close();
  await Promise.all([netlink.close(), timed.close()]);
  send({ kind: 'closed' });
  port.close();
}
