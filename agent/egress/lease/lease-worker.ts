/**
 * The thread of an agent's leases: heartbeats and renewals, with a connection and a netlink socket
 * of their own. The main thread may compute for more than a second (10,000 rules), which would be
 * too long for a lease of two; it makes the calls of the kernel that are rare.
 */

import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { Netlink, TimedElements } from 'nftables-napi';
import { AGENT_CALLS } from '../../../apis/calls.ts';
import { HEARTBEAT_PROTOCOLS } from '../../../apis/egress/lease.ts';
import { monotonicClock } from '../../../lib/process/monotonic-clock.ts';
import { lookupOrLast } from '../../receive/address-lookup.ts';
import type { Authorities } from '../../receive/authorities.ts';
import { callController } from '../../receive/call.ts';
import { controllerClient } from '../../receive/controller-client.ts';
import { LiveSets } from '../floating/live-sets.ts';
import type { AddressConflict, FloatingKernel, LiveAddress, Renewal } from '../floating-kernel.ts';
import { leaseCounts } from './lease-counts.ts';
import { LeaseKeeper } from './lease-keeper.ts';
import type { FromLeaseThread, KernelCall, LeaseThreadData, ToLeaseThread } from './thread-messages.ts';

class LeaseWorker {
  readonly #port: MessagePort;
  readonly #keeper: LeaseKeeper;
  readonly #closable: readonly { close(): Promise<void> | void }[];
  /** The calls that the main thread has not answered yet. */
  readonly #calls = new Map<number, PromiseWithResolvers<unknown>>();
  #lastCall = 0;
  #access: Extract<ToLeaseThread, { kind: 'access' }> | null = null;

  constructor(port: MessagePort, { node, boot, url, tokenFile, userAgent, origin }: LeaseThreadData) {
    this.#port = port;
    const clock = monotonicClock;
    const [netlink, timed] = [new Netlink(), new TimedElements()];
    const client = controllerClient(
      {
        ...{ url: new URL(url), tokenFile, authorities: this.#authorities(origin) },
        lookup: lookupOrLast(() => this.#access?.addresses ?? [], clock),
        replicas: () => this.#access?.replicas ?? [],
        protocols: HEARTBEAT_PROTOCOLS,
      },
      userAgent,
      clock,
      Math.random,
    );
    this.#closable = [netlink, timed, client];
    this.#keeper = new LeaseKeeper({
      sender: () => ({ node, boot, sent: clock.now() }),
      ask: (request) => callController({ node, client, clock }, AGENT_CALLS.lease, request),
      kernel: this.#kernel(new LiveSets({ netlink, timed, clock, committed() {} })),
      clock,
      log: (level, message, fields) => this.#send({ kind: 'log', level, message, fields }),
      changed: leaseCounts((counts) => this.#send({ kind: 'counts', counts })),
    });
    port.on('message', (message: ToLeaseThread) => this.#take(message));
  }

  /** Renewals are made here, all else by the main thread. */
  #kernel(live: LiveSets): FloatingKernel {
    const renewed = (renewals: readonly Renewal[]): void => this.#send({ kind: 'renewed', renewals });
    return {
      read: () => this.#call<readonly LiveAddress[]>('read'),
      take: (addresses, until) => this.#call<readonly AddressConflict[]>('take', addresses, until),
      drop: (addresses) => this.#call<void>('drop', addresses),
      async renew(renewals) {
        const ended = new Set(await live.renew(renewals));
        renewed(renewals.filter(({ address }) => !ended.has(address)));
        return [...ended];
      },
      renewed,
    };
  }

  #authorities(origin: string): Authorities {
    return {
      origin,
      read: async () => {
        if (this.#access === null) throw new Error(`${origin} was not read yet`);
        return this.#access.authorities;
      },
      refused: () => this.#send({ kind: 'refused' }),
    };
  }

  #call<T>(method: KernelCall['method'], addresses: KernelCall['addresses'] = [], until = 0): Promise<T> {
    const id = ++this.#lastCall;
    const call = Promise.withResolvers<unknown>();
    this.#calls.set(id, call);
    this.#send({ kind: 'call', id, method, addresses, until });
    return call.promise as Promise<T>;
  }

  #take(message: ToLeaseThread): void {
    switch (message.kind) {
      case 'access':
        this.#access = message;
        break;
      case 'viewed':
        this.#keeper.viewed(message.view);
        break;
      case 'guarded':
        this.#keeper.enforced(message.addresses);
        break;
      case 'health':
        this.#keeper.health(message.unready, message.unreachable);
        break;
      case 'release':
        void this.#keeper.release().then(() => this.#send({ kind: 'released' }));
        break;
      case 'close':
        void this.#close();
        break;
      case 'result': {
        const call = this.#calls.get(message.id);
        this.#calls.delete(message.id);
        if (message.error === undefined) call?.resolve(message.value);
        else call?.reject(new Error(message.error));
      }
    }
  }

  async #close(): Promise<void> {
    await this.#keeper.close();
    await Promise.all(this.#closable.map((one) => one.close()));
    this.#send({ kind: 'closed' });
    this.#port.close();
  }

  #send(message: FromLeaseThread): void {
    this.#port.postMessage(message);
  }
}

if (parentPort === null) throw new Error('lease-worker.ts is no program');
new LeaseWorker(parentPort, workerData as LeaseThreadData);
