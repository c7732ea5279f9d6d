import { familyOf } from '../../lib/net/address.ts';
import { changedIds } from '../../lib/sharing/changed-map.ts';
import type { CompiledEgress } from './compile-egress.ts';
import type { ServedSource } from './gateway-arrivals.ts';

/** A source that is new, gone or has another class or node. */
export interface MovedSource extends ServedSource {
  /** Whether it had a class before. */
  readonly wasServed: boolean;
}

const NONE: ReadonlyMap<string, string | null> = new Map();

/** The sources of each class, over successive states. */
export class ClassMembers {
  #sources: CompiledEgress['sources'] = new Map();
  /** By class: addresses and their nodes. */
  readonly #members = new Map<string, Map<string, string>>();

  of(id: string): Iterable<readonly [address: string, node: string]> {
    return this.#members.get(id) ?? [];
  }

  advance(sources: CompiledEgress['sources']): MovedSource[] {
    const moved = new Map<string, MovedSource>();
    for (const node of changedIds(this.#sources, sources)) {
      const [was, is] = [this.#sources.get(node) ?? NONE, sources.get(node) ?? NONE];
      for (const address of changedIds(was, is)) {
        const old = was.get(address) ?? null;
        if (old !== null) this.#members.get(old)?.delete(address);
        const there = moved.get(address);
        const wasServed = old !== null || there?.wasServed === true;
        // An address that moved to another node is in the lists of both: that node's counts.
        const kept = is.has(address) ? undefined : there;
        const family = familyOf(address);
        const now = kept ?? { address, family, node, class: is.get(address) ?? null };
        moved.set(address, { ...now, wasServed });
      }
    }
    for (const { address, node, class: id } of moved.values()) {
      if (id === null) continue;
      const members = this.#members.get(id) ?? new Map<string, string>();
      this.#members.set(id, members.set(address, node));
    }
    for (const [id, members] of this.#members) if (members.size === 0) this.#members.delete(id);
    this.#sources = sources;
    return [...moved.values()];
  }
}
