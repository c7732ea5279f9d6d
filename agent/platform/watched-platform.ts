import type { Link } from 'nftables-napi';
import type { PlatformEntry } from '../../apis/platform.ts';
import {
  isTunnel,
  type KernelFacts,
  NO_KERNEL_FACTS,
  type PlatformLink,
  platformEntries,
} from './platform-facts.ts';

/** The platform's entries of the failsafe list, as they are now. */
export interface NodePlatform {
  now(): readonly PlatformEntry[];
  /** Registers a callback for each change; returns a function that removes it. */
  listen(changed: () => void): () => void;
}

/** For a node whose kernel is not asked. */
export const NO_PLATFORM: NodePlatform = { now: () => [], listen: () => () => {} };

interface WatchedPlatformOptions {
  /** Reads the rest of the facts; a part that cannot be read is as in `last`. */
  readonly read: (links: readonly PlatformLink[], last: KernelFacts) => Promise<KernelFacts>;
  /** Called with the entries after each change. */
  readonly changed: (entries: readonly PlatformEntry[]) => void;
}

/**
 * Follows the links by the caller's events. Sockets, WireGuard's peers and IPsec have no events:
 * `refresh` finds what changed of them.
 */
export class WatchedPlatform implements NodePlatform {
  readonly #options: WatchedPlatformOptions;
  readonly #listeners = new Set<() => void>();
  #links: readonly PlatformLink[] = [];
  #facts: KernelFacts = NO_KERNEL_FACTS;
  #entries: readonly PlatformEntry[] = [];
  #again = false;
  #running: Promise<void> | null = null;

  constructor(options: WatchedPlatformOptions) {
    this.#options = options;
  }

  now(): readonly PlatformEntry[] {
    return this.#entries;
  }

  listen(changed: () => void): () => void {
    this.#listeners.add(changed);
    return () => void this.#listeners.delete(changed);
  }

  /** The links of this network namespace are these now. */
  update(links: Iterable<Link>): void {
    const tunnels = [...links]
      .filter(isTunnel)
      .map(({ index, name, kind, isUp, tunnelPort }): PlatformLink => {
        return { index, name, kind, isUp, ...(tunnelPort === undefined ? {} : { tunnelPort }) };
      });
    if (JSON.stringify(tunnels) === JSON.stringify(this.#links)) return;
    this.#links = tunnels;
    // Known at once: a tunnel must not wait for a list of sockets.
    this.#learn({ ...this.#facts, links: tunnels });
    void this.refresh();
  }

  /** Reads everything but the links again; resolves once that is done. Never rejects. */
  refresh(): Promise<void> {
    this.#again = true;
    this.#running ??= this.#run().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  async #run(): Promise<void> {
    while (this.#again) {
      this.#again = false;
      const facts = await this.#options.read(this.#links, this.#facts);
      this.#learn({ ...facts, links: this.#links });
    }
  }

  #learn(facts: KernelFacts): void {
    this.#facts = facts;
    const entries = platformEntries(facts);
    if (JSON.stringify(entries) === JSON.stringify(this.#entries)) return;
    this.#entries = entries;
    this.#options.changed(entries);
    for (const changed of this.#listeners) changed();
  }
}
