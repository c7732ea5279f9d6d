import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { LEASE_ANSWER, type LeaseGrant, type LeaseRequest } from '../../apis/heartbeat.ts';
import { checked } from '../../apis/schema/shape.ts';

interface HeartbeatsOptions {
  readonly node: string;
  readonly gateway: string;
  /** Further gateways that the node is one of, and ready for. */
  readonly others?: readonly string[];
  readonly post: (request: LeaseRequest) => Promise<IncomingMessage>;
}

/** The heartbeats of a gateway node, which has what it is granted. */
export class Heartbeats {
  readonly #options: HeartbeatsOptions;
  #running: Promise<void> = Promise.resolve();
  #isOver = false;
  /** By address: when it ends (performance.now). */
  readonly #alive = new Map<string, { readonly until: number; readonly grant: LeaseGrant }>();

  constructor(options: HeartbeatsOptions) {
    this.#options = options;
  }

  start(milliseconds: number): void {
    this.#isOver = false;
    this.#running = this.#run(milliseconds);
  }

  /** As if the node lost its power: it gives nothing up. */
  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#running;
  }

  /** The milliseconds in which the node has an address still; 0: it has not. */
  left(address: string): number {
    return Math.max(0, (this.#alive.get(address)?.until ?? 0) - performance.now());
  }

  async #run(milliseconds: number): Promise<void> {
    while (!this.#isOver) {
      await this.#beat();
      await sleep(milliseconds);
    }
  }

  async #beat(): Promise<void> {
    const { node, gateway, others = [], post } = this.#options;
    const ready = [gateway, ...others].map((name) => ({ gateway: name, ready: true }));
    const sent = performance.now();
    const held = [...this.#alive].flatMap(([address, { until, grant }]) => {
      const { slot, epoch } = grant;
      const left = until - sent;
      return left > 0 ? [{ gateway, slot, epoch, addresses: [address], milliseconds: left }] : [];
    });
    const response = await post({ node, boot: 'b', sent, held, ready });
    const body = await text(response);
    const answer = response.statusCode === 200 ? checked(LEASE_ANSWER, JSON.parse(body)) : { grants: [] };
    for (const grant of answer.grants)
      for (const address of grant.addresses)
        this.#alive.set(address, { until: sent + grant.milliseconds, grant });
  }
}
