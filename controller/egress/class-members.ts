import { familyOf } from '../../lib/net/address.ts';
import { changedIds } from '../../lib/sharing/changed-map.ts';
import type { CompiledEgress } from './compile-egress.ts';
import type { ServedSource } from './gateway-arrivals.ts';

/** A source that is new, gone or has another class or node. */
export interface MovedSource extends ServedSource {
  /** Its class before; null: none. */
  readonly was: string | null;
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
    const there: MovedSource[] = [];
    const left = new Set<string>();
    const gone = new Map<string, MovedSource>();
    for (const node of changedIds(this.#sources, sources)) {
      const [before, now] = [this.#sources.get(node) ?? NONE, sources.get(node) ?? NONE];
      for (const address of changedIds(before, now)) {
        const was = before.get(address) ?? null;
        if (was !== null) {
          this.#members.get(was)?.delete(address);
          left.add(was);
        }
        const is = now.get(address);
        const source = { address, family: familyOf(address), node, class: is ?? null, was };
        if (is === undefined) gone.set(address, source);
        else there.push(source);
      }
    }
    const moved = gone.size === 0 ? there : joined(there, gone);
    for (const { address, node, class: id } of moved) {
      if (id === null) continue;
      const members = this.#members.get(id);
      if (members === undefined) this.#members.set(id, new Map([[address, node]]));
      else members.set(address, node);
    }
    for (const id of left) if (this.#members.get(id)?.size === 0) this.#members.delete(id);
    this.#sources = sources;
    return moved;
  }
}

/** An address that moved to another node is in the lists of both: that where it is counts. */
function joined(there: readonly MovedSource[], gone: Map<string, MovedSource>): MovedSource[] {
  const moved = there.map((source) => {
    const before = gone.get(source.address);
    gone.delete(source.address);
    return before === undefined ? source : { ...source, was: before.was };
  });
  return [...moved, ...gone.values()];
}
