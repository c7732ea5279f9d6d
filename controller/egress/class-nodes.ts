import { BY_ADDRESS } from '../../apis/egress/node-egress.ts';
import { changedIds } from '../../lib/sharing/changed-map.ts';
import { compareText } from '../../lib/sharing/lists.ts';
import type { CompiledEgress } from './compile-egress.ts';

const NONE: ReadonlyMap<string, string | null> = new Map();

/** The nodes that have pods of each class, over successive states. */
export class ClassNodes {
  #pods: CompiledEgress['pods'] = new Map();
  /** By class and node: how many pods. */
  readonly #counts = new Map<string, Map<string, number>>();

  /** Sorted by name. */
  of(id: string): string[] {
    return [...(this.#counts.get(id)?.keys() ?? [])].sort(compareText);
  }

  /** Returns the classes that have other nodes than before. */
  advance(pods: CompiledEgress['pods']): Set<string> {
    const changed = new Set<string>();
    for (const node of changedIds(this.#pods, pods)) {
      const [was, is] = [this.#pods.get(node) ?? NONE, pods.get(node) ?? NONE];
      for (const key of changedIds(was, is)) {
        this.#count(was.get(key), node, -1, changed);
        this.#count(is.get(key), node, 1, changed);
      }
    }
    this.#pods = pods;
    return changed;
  }

  #count(id: string | null | undefined, node: string, by: 1 | -1, changed: Set<string>): void {
    if (id === undefined || id === null || id === BY_ADDRESS) return;
    const counts = this.#counts.get(id) ?? new Map<string, number>();
    this.#counts.set(id, counts);
    const before = counts.get(node) ?? 0;
    if (before + by > 0) counts.set(node, before + by);
    else counts.delete(node);
    if (counts.size === 0) this.#counts.delete(id);
    if (before === 0 || before + by === 0) changed.add(id);
  }
}
