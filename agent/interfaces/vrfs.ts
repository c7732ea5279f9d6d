import type { Link } from 'nftables-napi';

/** The devices of VRFs on this node. */
export interface Vrfs {
  /** Names of those that send without a queue, sorted. */
  now(): readonly string[];
  /** Registers a callback for each change; returns a function that removes it. */
  listen(changed: () => void): () => void;
}

/** For a node whose interfaces are not known. */
export const NO_VRFS: Vrfs = { now: () => [], listen: () => () => {} };

/** Follows the links. */
export class WatchedVrfs implements Vrfs {
  readonly #listeners = new Set<() => void>();
  #names: readonly string[] = [];

  now(): readonly string[] {
    return this.#names;
  }

  listen(changed: () => void): () => void {
    this.#listeners.add(changed);
    return () => void this.#listeners.delete(changed);
  }

  /** The links of this network namespace are these now. */
  update(links: Iterable<Link>): void {
    const names = vrfsOf(links);
    if (names.join(' ') === this.#names.join(' ')) return;
    this.#names = names;
    for (const changed of this.#listeners) changed();
  }
}

/**
 * Names of the VRF devices that send without a queue (agent/render/first-pass.ts), sorted. One that
 * is down has a queue that drops all, whatever it reports. A name that iptables or nft would read
 * as a pattern (`red+`, `red*`) is left out.
 */
export function vrfsOf(links: Iterable<Link>): string[] {
  const names: string[] = [];
  for (const { kind, name, isUp, hasQueue } of links)
    if (kind === 'vrf' && isUp && !hasQueue && PLAIN_NAME.test(name)) names.push(name);
  return names.sort();
}

const PLAIN_NAME = /^\w[\w.-]*$/;
