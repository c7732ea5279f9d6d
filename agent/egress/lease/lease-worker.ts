/**
 * The thread of an agent's leases: heartbeats and renewals, with a connection and a netlink socket
 * of their own. The main thread may compute for more than a second (10,000 rules), which would be
 * too long for a lease of two; it makes the calls of the kernel that are rare.
 */

import { isDeepStrictEqual } from 'node:util';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { Netlink, TimedElements } from 'nftables-napi';
import { AGENT_CALLS } from '../../../apis/calls.ts';
import { HEARTBEAT_PROTOCOLS } from '../../../apis/heartbeat.ts';
import { monotonicClock as clock } from '../../../lib/process/clock.ts';
import { callController, controllerClient } from '../../receive/controller-client.ts';
import { lookupOrLast } from '../../receive/https-call.ts';
import { LiveSets } from '../floating/live-sets.ts';
import { LeaseDriver } from './lease-driver.ts';
import type {
  FromLeaseThread,
  LeaseAccess,
  LeaseCounts,
  LeaseState,
  LeaseThreadData,
  ToLeaseThread,
} from './lease-state.ts';

function work(port: MessagePort, { node, boot, url, tokenFile, userAgent, origin }: LeaseThreadData): void {
  let access: LeaseAccess | null = null;
  const send = (message: FromLeaseThread): void => port.postMessage(message);
  const authorities = {
    origin,
    async read() {
      if (access === null) throw new Error(`${origin} was not read yet`);
      return access.authorities;
    },
    refused: () => send({ kind: 'refused' }),
  };
  const address = {
    url: new URL(url),
    tokenFile,
    authorities,
    lookup: lookupOrLast(() => access?.addresses ?? [], clock),
    replicas: () => access?.replicas ?? [],
    protocols: HEARTBEAT_PROTOCOLS,
  };
  const client = controllerClient(address, userAgent, clock, Math.random);
  const [netlink, timed] = [new Netlink(), new TimedElements()];
  const driver = new LeaseDriver({
    ask: (request) => callController({ node, client, clock }, AGENT_CALLS.lease, { node, boot, ...request }),
    live: new LiveSets({ netlink, timed, clock, committed() {} }),
    clock,
    send(message) {
      if (message.kind === 'stopped') void end();
      else send(message);
    },
    changed: leaseCounts((counts) => send({ kind: 'counts', counts })),
  });
  async function end(): Promise<void> {
    client.close();
    await Promise.all([netlink.close(), timed.close()]);
    send({ kind: 'stopped' });
    port.close();
  }
  port.on('message', (message: ToLeaseThread) => {
    if (message.kind === 'access') access = message;
    else driver.receive(message);
  });
}

if (parentPort === null) throw new Error('lease-worker.ts runs in a worker thread alone');
work(parentPort, workerData as LeaseThreadData);

/** Calls back with the counts of each state in which they are others than before. */
function leaseCounts(changed: (counts: LeaseCounts) => void): (state: LeaseState) => void {
  let last: LeaseCounts | null = null;
  return ({ slots, awaySince }) => {
    const all = [...slots.values()];
    const counts: LeaseCounts = {
      alive: all.reduce((sum, { live }) => sum + live.size, 0),
      waiting: all.filter(({ waitsSince }) => waitsSince !== null).length,
      hindered: all.filter(({ hindrance }) => hindrance !== null).length,
      isAnswered: awaySince === null,
    };
    if (isDeepStrictEqual(counts, last)) return;
    last = counts;
    changed(counts);
  };
}
