import { isDeepStrictEqual } from 'node:util';
import type { Compiled } from '../../apis/compiled.ts';
import {
  EGRESS_PARTS,
  EGRESS_SETS,
  type EgressEntries,
  type EgressPart,
  type EgressSet,
  type EgressValues,
  toEntries,
} from '../../apis/egress/entries.ts';
import { isSameEntry } from '../../apis/egress/entry-json.ts';
import {
  egressMessage,
  egressObjects,
  egressSize,
  emptyEgressObject,
  toWrittenEgress,
  toWrittenEntries,
} from '../../apis/egress/messages.ts';
import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import type { Update } from '../../apis/stream.ts';
import type { MemberSet } from '../../lib/net/member-set.ts';
import { changedIds } from '../../lib/sharing/changed-map.ts';
import type { Stepwise } from '../../lib/sharing/stepwise.ts';
import type { ExtensionObject, ExtensionUpdate, ViewExtension } from '../extension/extension.ts';
import { memberDifference } from '../publish/messages.ts';

/** Egress gateways in stage 3. */
export const EGRESS_VIEW: ViewExtension = {
  *changes({ egress: before }, { egress: now }) {
    if (before === undefined || now === undefined || before === now) return [];
    return yield* egressChanges(before, now);
  },
  whole({ egress }, node) {
    const own = egress?.get(node);
    return own === undefined ? null : { first: egressMessage(own), objects: objectsOf(own) };
  },
  removed: { type: 'egressRemoved' },
  empty: emptyEgressObject,
  count({ egress }, node) {
    const own = egress?.get(node);
    return own === undefined ? {} : { egress: egressSize(own) };
  },
  written: ({ egress }) => (egress === undefined ? {} : { egress: toWrittenEgress(egress) }),
};

function* objectsOf(egress: NodeEgress): Iterable<ExtensionObject> {
  for (const one of egressObjects(egress))
    yield { ...one, isShared: EGRESS_SETS.some((set) => set === one.id) };
}

/** Parts whose entries many nodes have in common: one message for all of them. */
const COMMON: ReadonlySet<EgressPart> = new Set(['classes', 'outcomes', 'peers']);

/**
 * The messages from one state of egress gateways to the next. The same JavaScript objects count as
 * unchanged; the cost is that of the others, and a few comparisons for each node.
 */
export function* egressChanges(
  before: NonNullable<Compiled['egress']>,
  now: NonNullable<Compiled['egress']>,
): Stepwise<readonly ExtensionUpdate[]> {
  const result = new EgressChanges();
  for (const [node, egress] of now) {
    yield;
    const was = before.get(node);
    if (was === undefined) result.whole(node, egress);
    else if (was !== egress) result.change(node, was, egress);
  }
  for (const node of before.keys()) if (!now.has(node)) result.removed(node);
  return result.updates();
}

class EgressChanges {
  readonly #own: ExtensionUpdate[] = [];
  /** By part and key, then by value: nodes that have the same share one object. */
  readonly #common = new Map<string, Map<unknown, { readonly toUpdate: () => Update; nodes: Set<string> }>>();
  readonly #sets = new Map<
    MemberSet,
    Map<MemberSet, { readonly set: EgressSet; readonly nodes: Set<string> }>
  >();

  whole(node: string, egress: NodeEgress): void {
    this.#say(node, () => egressMessage(egress));
    for (const { toMessage } of egressObjects(egress)) this.#say(node, toMessage);
  }

  removed(node: string): void {
    this.#say(node, () => ({ type: 'egressRemoved' }));
  }

  change(node: string, was: NodeEgress, egress: NodeEgress): void {
    if (!isDeepStrictEqual(egressMessage(was), egressMessage(egress)))
      this.#say(node, () => egressMessage(egress));
    for (const set of EGRESS_SETS) {
      if (was[set] === egress[set]) continue;
      const changes = this.#sets.get(was[set]) ?? new Map();
      this.#sets.set(was[set], changes);
      const change = changes.get(egress[set]) ?? { set, nodes: new Set<string>() };
      changes.set(egress[set], change);
      change.nodes.add(node);
    }
    const [entries, newer] = [toEntries(was), toEntries(egress)];
    for (const part of EGRESS_PARTS) this.#changePart(node, part, entries, newer);
  }

  #changePart<P extends EgressPart>(node: string, part: P, was: EgressEntries, is: EgressEntries): void {
    const [before, now] = [was[part], is[part]] as ReadonlyMap<string, EgressValues[P]>[];
    if (before === undefined || now === undefined || before === now) return;
    const changed = new Map<string, EgressValues[P]>();
    const remove: string[] = [];
    for (const key of changedIds(before, now)) {
      const [last, value] = [before.get(key), now.get(key)];
      if (value === undefined) remove.push(key);
      else if (last === undefined || !isSameEntry(part, last, value)) changed.set(key, value);
    }
    const written = (values: ReadonlyMap<string, EgressValues[P]>) =>
      toWrittenEntries(part, values as EgressEntries[P]);
    const patch = { type: 'egressPatch', part } as const;
    if (!COMMON.has(part)) {
      if (changed.size + remove.length > 0)
        this.#say(node, () => ({ ...patch, ...given({ set: written(changed), remove }) }));
      return;
    }
    for (const [key, value] of changed)
      this.#sayCommon(node, [part, key, value], () => ({ ...patch, set: written(new Map([[key, value]])) }));
    for (const key of remove) this.#sayCommon(node, [part, key, null], () => ({ ...patch, remove: [key] }));
  }

  #say(node: string, toUpdate: () => Update): void {
    this.#own.push({ toUpdate, nodes: new Set([node]) });
  }

  #sayCommon(
    node: string,
    [part, key, value]: readonly [EgressPart, key: string, value: unknown],
    toUpdate: () => Update,
  ): void {
    const place = `${part} ${key}`;
    const values = this.#common.get(place) ?? new Map();
    this.#common.set(place, values);
    const same = values.get(value) ?? { toUpdate, nodes: new Set<string>() };
    values.set(value, same);
    same.nodes.add(node);
  }

  updates(): readonly ExtensionUpdate[] {
    const sets = [...this.#sets].flatMap(([was, changes]) =>
      [...changes].flatMap(([is, { set, nodes }]): ExtensionUpdate[] => {
        const change = memberDifference(was, is);
        if (change.add.length + change.remove.length === 0) return [];
        return [{ toUpdate: () => ({ type: 'egressMembersPatch', set, ...given(change) }), nodes }];
      }),
    );
    const common = [...this.#common.values()].flatMap((values) => [...values.values()]);
    return [...this.#own, ...sets, ...common];
  }
}

/** Without the fields that are empty. */
function given<T extends object>(fields: T): Partial<T> {
  const isFull = ([, value]: [string, object]) => Object.keys(value).length > 0;
  return Object.fromEntries(Object.entries(fields).filter(isFull)) as Partial<T>;
}
