import { isDeepStrictEqual } from 'node:util';
import {
  EGRESS_PARTS,
  EGRESS_SETS,
  type EgressEntries,
  type EgressPart,
  type EgressSet,
  type EgressValues,
  fromEntries,
  toEntries,
} from '../../../apis/egress/entries.ts';
import { readEgressEntry, readEnd } from '../../../apis/egress/entry-json.ts';
import {
  bucketsOf,
  type EgressMessage,
  type EgressWholeMessage,
  egressSize,
} from '../../../apis/egress/messages.ts';
import {
  BY_ADDRESS,
  type EgressArrival,
  type NodeEgress,
  type ServedClass,
} from '../../../apis/egress/node-egress.ts';
import type {
  EgressMembersPatchUpdate,
  EgressPatchUpdate,
  EgressRemovedUpdate,
} from '../../../apis/stream.ts';
import { familyOf } from '../../../lib/net/address.ts';
import { type MemberSet, NO_MEMBERS, sameMembers } from '../../../lib/net/member-set.ts';
import { BucketMap } from '../../../lib/sharing/bucket-map.ts';
import { changedIds } from '../../../lib/sharing/changed-map.ts';
import { present } from '../../../lib/sharing/present.ts';
import type { ExtensionDraft, ExtensionPart, MessageExtension } from '../../extension/extension.ts';
import { patchedMembers, toMembers } from '../../receive/patch.ts';

type EgressUpdate = EgressWholeMessage | EgressMembersPatchUpdate | EgressPatchUpdate | EgressRemovedUpdate;

/** The fields of each message, besides those of every line. */
const FIELDS: { readonly [type in EgressUpdate['type']]: readonly string[] } = {
  egress: ['unknownPods', 'tunnel'],
  egressMembers: ['set', 'members'],
  egressEntries: ['part', 'bucket', 'entries'],
  egressMembersPatch: ['set', 'add', 'remove'],
  egressPatch: ['part', 'set', 'remove'],
  egressRemoved: [],
};

const EVERY_LINE: readonly string[] = ['type', 'sequence', 'revision'];

function isEgressUpdate(update: { readonly type: string }): update is EgressUpdate {
  return Object.hasOwn(FIELDS, update.type);
}

type Changes = Map<string, EgressValues[EgressPart] | undefined>;

/**
 * NodeState.egress while messages are applied to it.
 */
class EgressDraft implements ExtensionDraft {
  readonly #before: NodeEgress | undefined;
  #node: Pick<EgressMessage, 'unknownPods' | 'tunnel'> | null;
  #isChanged = false;
  readonly #sets: Record<EgressSet, MemberSet>;
  #entries: EgressEntries | null;
  /** Entries that are set, or removed (undefined). */
  readonly #changes = new Map<EgressPart, Changes>();

  /**
   * @param isWhole whether a whole view follows. If it says nothing of egress gateways, it is of an
   *   older controller, and `before` stays
   */
  constructor(before: NodeEgress | undefined, isWhole: boolean) {
    const base = isWhole ? undefined : before;
    this.#before = before;
    this.#node = base ?? null;
    this.#entries = base === undefined ? null : toEntries(base);
    this.#sets = {
      inside: base?.inside ?? NO_MEMBERS,
      nodes: base?.nodes ?? NO_MEMBERS,
      floating: base?.floating ?? NO_MEMBERS,
    };
  }

  receive(update: { readonly type: string }): boolean {
    if (!isEgressUpdate(update)) return false;
    this.#apply(update);
    return true;
  }

  #apply(update: EgressUpdate): void {
    this.#isChanged = true;
    const odd = Object.keys(update).filter(
      (field) => !EVERY_LINE.includes(field) && !FIELDS[update.type].includes(field),
    );
    if (odd.length > 0) throw new Error(`message ${update.type} has unknown fields: ${odd.join(', ')}`);
    switch (update.type) {
      case 'egress':
        this.#receiveNode(update);
        return;
      case 'egressRemoved':
        this.#empty();
        return;
      case 'egressMembers':
        knownSet(update.set);
        this.#sets[update.set] = toMembers(`egress ${update.set}`, update.members);
        return;
      case 'egressMembersPatch': {
        const { set, add = [], remove = [] } = update;
        knownSet(set);
        this.#sets[set] = patchedMembers({ id: `egress ${set}`, members: this.#sets[set] }, { add, remove });
        return;
      }
      case 'egressEntries':
        knownPart(update.part);
        for (const key of this.#keysIn(update.part, update.bucket)) this.#change(update.part, key, undefined);
        this.#setAll(update.part, update.entries);
        return;
      case 'egressPatch':
        knownPart(update.part);
        for (const key of update.remove ?? []) this.#remove(update.part, key);
        this.#setAll(update.part, update.set ?? {});
    }
  }

  result(): ExtensionPart {
    return present({ egress: this.#egress() });
  }

  /** Unchanged parts are the same objects as before. */
  #egress(): NodeEgress | undefined {
    if (!this.#isChanged) return this.#before;
    if (this.#node === null) return undefined;
    const before = this.#before;
    const old = before === undefined ? null : toEntries(before);
    const served = this.#mapOf('served') as EgressEntries['served'];
    this.#fillArrivals(served);
    const maps = EGRESS_PARTS.map((part) => [part, this.#mapOf(part)] as const);
    const entries = { ...Object.fromEntries(maps), served } as unknown as EgressEntries;
    const { tunnel, unknownPods } = this.#node;
    const next: { -readonly [key in keyof NodeEgress]: NodeEgress[key] } = fromEntries(entries, {
      ...this.#sets,
      tunnel,
      unknownPods,
    });
    if (before !== undefined && old !== null) {
      if (isDeepStrictEqual(tunnel, before.tunnel)) next.tunnel = before.tunnel;
      for (const set of EGRESS_SETS) if (isSameSet(next[set], before[set])) next[set] = before[set];
      for (const part of EGRESS_PARTS)
        if (isSameMap(old[part], entries[part])) Object.assign(next, { [part]: before[part] });
      const keys = Object.keys(next) as (keyof NodeEgress)[];
      if (keys.every((key) => next[key] === before[key])) return before;
    }
    checkEgress(next, before);
    return next;
  }

  #receiveNode({ unknownPods, tunnel }: EgressMessage): void {
    if (unknownPods !== 'Hold' && unknownPods !== 'Pass')
      throw new Error(`egress: unknownPods ${JSON.stringify(unknownPods)} is not known`);
    this.#node = { unknownPods, tunnel: tunnel === null ? null : readEnd(tunnel) };
  }

  #empty(): void {
    this.#node = null;
    this.#entries = null;
    this.#changes.clear();
    for (const set of EGRESS_SETS) this.#sets[set] = NO_MEMBERS;
  }

  #setAll(part: EgressPart, entries: unknown): void {
    for (const [key, written] of Object.entries(entries ?? {}))
      this.#change(part, key, readEgressEntry(part, key, written));
  }

  #change(part: EgressPart, key: string, value: EgressValues[EgressPart] | undefined): void {
    const changes = this.#changes.get(part) ?? new Map();
    this.#changes.set(part, changes);
    const old = this.#entries?.[part].get(key);
    if (old !== undefined && isDeepStrictEqual(old, value)) changes.set(key, old);
    else if (part === 'served') changes.set(key, withSameTakes(value as ServedClass, old as ServedClass));
    else changes.set(key, value);
  }

  /** Gives arrivals with a class its takes: new ones, and all of a class with other takes. */
  #fillArrivals(served: EgressEntries['served']): void {
    const before = this.#entries;
    const changes = this.#changes.get('arrivals') as Map<string, EgressArrival | undefined> | undefined;
    for (const [address, value] of changes ?? [])
      if (value?.class !== undefined) changes?.set(address, filled(address, value, served, before));
    const changed = new Set<string>();
    for (const id of before === null ? [] : changedIds(before.served, served)) {
      const [was, is] = [before?.served.get(id), served.get(id)];
      if (was?.ipv4 !== is?.ipv4 || was?.ipv6 !== is?.ipv6) changed.add(id);
    }
    if (before === null || changed.size === 0) return;
    for (const [address, arrival] of before.arrivals) {
      if (arrival.class === undefined || !changed.has(arrival.class) || changes?.has(address)) continue;
      this.#change('arrivals', address, filled(address, arrival, served, before));
    }
  }

  #remove(part: EgressPart, key: string): void {
    const changes = this.#changes.get(part);
    const isThere =
      changes?.has(key) === true ? changes.get(key) !== undefined : this.#entries?.[part].has(key) === true;
    if (!isThere) throw new Error(`egress: ${part} has no ${key} to remove`);
    this.#change(part, key, undefined);
  }

  #keysIn(part: EgressPart, bucket: number): readonly string[] {
    const base = this.#entries?.[part] as ReadonlyMap<string, unknown> | undefined;
    const buckets = BucketMap.of<unknown>(base ?? new Map(), bucketsOf(part)).buckets;
    if (!Number.isInteger(bucket) || bucket < 0 || bucket >= buckets.length)
      throw new Error(`egress: ${part} has no bucket ${bucket}`);
    return [...(buckets[bucket]?.keys() ?? [])];
  }

  #mapOf(part: EgressPart): ReadonlyMap<string, unknown> {
    const base: ReadonlyMap<string, unknown> = this.#entries?.[part] ?? new Map();
    const changes = this.#changes.get(part);
    const isLarge = bucketsOf(part) > 1;
    if (changes === undefined && !isLarge) return base;
    const set = [...(changes ?? [])].filter(([, value]) => value !== undefined);
    const removed = [...(changes ?? [])].flatMap(([key, value]) => (value === undefined ? [key] : []));
    const map = BucketMap.of(base, bucketsOf(part)).with(set, removed);
    return isLarge ? map : new Map(map);
  }
}

export const EGRESS_MESSAGES: MessageExtension = {
  draft: ({ egress }, isWhole) => new EgressDraft(egress, isWhole),
  lack: egressLack,
};

/** With the takes of its class; the same object as before where nothing is different. */
function filled(
  address: string,
  { node, class: id = '' }: EgressArrival,
  served: EgressEntries['served'],
  before: EgressEntries | null,
): EgressArrival {
  const one = served.get(id);
  if (one === undefined)
    throw new Error(`egress: arrival ${address} refers to class ${id}, which the view does not contain`);
  const takes = familyOf(address) === 4 ? one.ipv4 : one.ipv6;
  const old = before?.arrivals.get(address);
  return old?.node === node && old.class === id && old.takes === takes ? old : { node, takes, class: id };
}

/** Lists of takes that are equal are those of before: thousands of pods may share them. */
function withSameTakes(
  served: ServedClass | undefined,
  before: ServedClass | undefined,
): ServedClass | undefined {
  if (served === undefined || before === undefined) return served;
  return {
    ...served,
    ipv4: isDeepStrictEqual(served.ipv4, before.ipv4) ? before.ipv4 : served.ipv4,
    ipv6: isDeepStrictEqual(served.ipv6, before.ipv6) ? before.ipv6 : served.ipv6,
  };
}

/** Compares the numbers of members and entries; a bookmark without one compares none. */
function egressLack(
  { egress: wanted }: { readonly egress?: number },
  { egress }: ExtensionPart,
): string | null {
  if (wanted === undefined || (egress !== undefined && egressSize(egress) === wanted)) return null;
  return `egress: the agent has not the ${wanted} entries that the controller says`;
}

function knownSet(set: EgressSet): void {
  if (!EGRESS_SETS.includes(set)) throw unknown('set', set);
}

function knownPart(part: EgressPart): void {
  if (!EGRESS_PARTS.includes(part)) throw unknown('part', part);
}

function unknown(kind: string, name: unknown): Error {
  return new Error(`egress: ${kind} ${JSON.stringify(name)}; is the controller newer than this agent?`);
}

function isSameSet(a: MemberSet, b: MemberSet): boolean {
  return sameMembers(a.v4, b.v4) && sameMembers(a.v6, b.v6);
}

function isSameMap(a: ReadonlyMap<string, unknown>, b: ReadonlyMap<string, unknown>): boolean {
  if (a.size !== b.size) return false;
  for (const key of changedIds(a, b)) if (!isDeepStrictEqual(a.get(key), b.get(key))) return false;
  return true;
}

/**
 * Throws if a part names an entry of another part that is not there. Of a gateway's pods only those
 * are examined that differ from `before`, if that is enough.
 */
function checkEgress(egress: NodeEgress, before: NodeEgress | undefined): void {
  const { classes, outcomes, slots, peers, takes, arrivals } = egress;
  const need = (isThere: boolean, from: string, to: string): void => {
    if (!isThere) throw new Error(`egress: ${from} refers to ${to}, which the view does not contain`);
  };
  for (const [address, id] of egress.sources)
    need(id === null || classes.has(id), `source ${address}`, `class ${id}`);
  for (const [pod, id] of egress.pods)
    need(id === null || id === BY_ADDRESS || classes.has(id), `pod ${pod}`, `class ${id}`);
  for (const { class: id } of egress.subnets) need(classes.has(id), 'a subnet', `class ${id}`);
  for (const { id, ipv4, ipv6 } of classes.values()) {
    for (const { outcome } of [...ipv4, ...ipv6])
      need(outcomes.has(outcome), `class ${id}`, `outcome ${outcome}`);
  }
  for (const { id, action } of outcomes.values()) {
    if (action.kind === 'take') need(takes.has(action.take), `outcome ${id}`, `take ${action.take}`);
    if (action.kind !== 'slots') continue;
    for (const slot of [...action.slots, ...(action.reserve ?? [])])
      need(slots.has(slot), `outcome ${id}`, `slot ${slot}`);
  }
  for (const { number, node, take } of slots.values())
    need(take === 0 ? peers.has(node) : takes.has(take), `slot ${number}`, `${node}, take ${take}`);
  for (const [id, { nodes, ipv4, ipv6 }] of egress.served) {
    for (const node of nodes) need(peers.has(node), `served class ${id}`, `peer ${node}`);
    for (const { take } of [...ipv4, ...ipv6]) need(takes.has(take), `served class ${id}`, `take ${take}`);
  }
  const isSame = before?.peers === peers && before.takes === takes;
  for (const address of isSame ? changedIds(before.arrivals, arrivals) : arrivals.keys()) {
    const arrival = arrivals.get(address);
    if (arrival === undefined) continue;
    need(peers.has(arrival.node), `arrival ${address}`, `peer ${arrival.node}`);
    // With a class: those of `served`, examined above.
    if (arrival.class !== undefined) continue;
    for (const { take } of arrival.takes) need(takes.has(take), `arrival ${address}`, `take ${take}`);
  }
}
