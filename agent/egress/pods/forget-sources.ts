import type { Conntrack, ConntrackEntry } from 'nftables-napi';
import { parseAddress } from '../../../lib/net/address.ts';
import { packAddress } from '../../../lib/net/member-set.ts';
import { GATEWAY } from '../render/marks.ts';

/** all: on the pod's node. taken: those that leave by this node as a gateway. */
export type ForgottenConnections = 'all' | 'taken';

/** Deletes the connections that these addresses began: another pod has them now, or will. */
export async function forgetSources(
  conntrack: Pick<Conntrack, 'entries' | 'delete'>,
  addresses: ReadonlySet<string>,
  which: ForgottenConnections,
): Promise<void> {
  const packed = new Set<string>();
  for (const text of addresses) {
    const address = parseAddress(text);
    if (address !== null) packed.add(toKey(packAddress(address)));
  }
  const isMeant = ({ original, mark }: ConntrackEntry): boolean =>
    (which === 'all' || (mark & GATEWAY) !== 0) && packed.has(toKey(original.source));
  for await (const entries of conntrack.entries()) await conntrack.delete(entries.filter(isMeant));
}

function toKey(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

/**
 * Makes one pass at a time over all connections, however many pods come and go: addresses that are
 * added meanwhile wait for the next pass, together.
 */
export class ForgetQueue {
  readonly #pass: (addresses: ReadonlySet<string>) => Promise<void>;
  #running: Promise<void> = Promise.resolve();
  #next: { readonly addresses: Set<string>; readonly done: Promise<void> } | null = null;

  /** @param pass never rejects */
  constructor(pass: (addresses: ReadonlySet<string>) => Promise<void>) {
    this.#pass = pass;
  }

  /** Resolves after a pass that began after the call. */
  add(addresses: Iterable<string>): Promise<void> {
    if (this.#next === null) {
      const waiting = new Set<string>();
      const done = this.#running.then(() => {
        this.#next = null;
        return this.#pass(waiting);
      });
      this.#next = { addresses: waiting, done };
      this.#running = done;
    }
    for (const address of addresses) this.#next.addresses.add(address);
    return this.#next.done;
  }
}
