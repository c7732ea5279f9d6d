import { NO_OBJECTS } from '../../apis/objects.ts';
import type { AddressedPod } from '../extension/object-extension.ts';
import { OBJECT_EXTENSION } from '../extension/objects.ts';
import type { AdmissionObjects, AdmissionWorld } from './admission.ts';
import { podAccessObjects } from './pod-access.ts';

type ListName = Exclude<keyof AdmissionObjects, 'outsidePods'>;
type Listed = AdmissionObjects[ListName][number];

/** Brings the world of another process up to date. */
export interface WorldUpdate {
  /** Objects that were not sent before, by number. */
  readonly added: readonly (readonly [number, Listed])[];
  /**
   * The same of `outsidePods`, with those that are gone; there may be many, which always change.
   */
  readonly pods?: {
    readonly removed: readonly number[];
    readonly added: readonly (readonly [number, AddressedPod])[];
  };
  /** Null: more objects follow before the state is whole. */
  readonly state: {
    /** The numbers of the objects of each changed list; null: nothing has been listed yet. */
    readonly lists: Partial<Readonly<Record<ListName, readonly number[]>>> | null;
    /** The rest of the world, which is small. */
    readonly settings: Omit<AdmissionWorld, 'objects'>;
  } | null;
}

/** Rules in one update, which then takes no longer to write than a few milliseconds. */
const RULES_AT_ONCE = 500;

const LISTS = [
  'policies',
  'guardrails',
  'groups',
  'tiers',
  'services',
  'nodes',
  'pods',
  'endpointSlices',
  'egressGateways',
  'egressPolicies',
  'insideNetworks',
  'namespaces',
] as const satisfies readonly ListName[];

/**
 * Sends each state of the world as its difference to the one before: each JavaScript object once,
 * as long as it stays the same one.
 */
export class WorldSender {
  #numbers = new Map<object, number>();
  #last = 0;
  /** The lists of the state that was sent last, as they were before `reduced`. */
  #source: AdmissionWorld['objects'] = null;
  #sent: Partial<AdmissionObjects> = {};
  readonly #outsidePods = OBJECT_EXTENSION.outsidePods();
  readonly #podNumbers = new Map<AddressedPod, number>();

  /** The updates to be sent one after the other; the last one has a state. */
  *updates({ objects, ...settings }: AdmissionWorld): Generator<WorldUpdate> {
    if (objects === null) {
      yield { added: [], state: { lists: null, settings } };
      return;
    }
    const now = objects === this.#source ? this.#sent : this.#reduced(objects, settings);
    const lists: Partial<Record<ListName, readonly number[]>> = {};
    let added: [number, Listed][] = [];
    let rules = 0;
    for (const name of LISTS) {
      const list = now[name] ?? [];
      if (list === this.#sent[name]) continue;
      for (const one of list) {
        if (this.#numbers.has(one)) continue;
        this.#numbers.set(one, ++this.#last);
        added.push([this.#last, one]);
        rules += rulesOf(one);
        if (rules < RULES_AT_ONCE) continue;
        yield { added, state: null };
        added = [];
        rules = 0;
      }
      lists[name] = list.map((one) => this.#numbers.get(one) ?? 0);
    }
    if (objects !== this.#source && settings.egress !== undefined) yield* this.#podUpdates(objects);
    this.#source = objects;
    this.#sent = now;
    if (Object.keys(lists).length > 0) this.#forget();
    yield { added, state: { lists, settings } };
  }

  *#podUpdates(objects: NonNullable<AdmissionWorld['objects']>): Generator<WorldUpdate> {
    const { removed, added } = this.#outsidePods.advance(objects);
    const gone = removed.map((pod) => this.#podNumbers.get(pod) ?? 0);
    for (const pod of removed) this.#podNumbers.delete(pod);
    if (gone.length > 0) yield { added: [], pods: { removed: gone, added: [] }, state: null };
    for (let i = 0; i < added.length; i += RULES_AT_ONCE) {
      const some = added.slice(i, i + RULES_AT_ONCE).map((pod) => [++this.#last, pod] as const);
      for (const [number, pod] of some) this.#podNumbers.set(pod, number);
      yield { added: [], pods: { removed: [], added: some }, state: null };
    }
  }

  /** Keeps the few of 100,000 pods that an admission needs. */
  #reduced(
    objects: NonNullable<AdmissionWorld['objects']>,
    { egress }: Pick<AdmissionWorld, 'egress'>,
  ): AdmissionObjects {
    const { policies, guardrails, groups, tiers, services } = objects;
    const all = { policies, guardrails, groups, tiers, services, ...podAccessObjects(objects) };
    if (egress === undefined) return { ...all, ...NO_EGRESS };
    const { nodes, namespaces, egressGateways, egressPolicies, insideNetworks } = objects;
    return { ...all, nodes, namespaces, egressGateways, egressPolicies, insideNetworks };
  }

  /** Forgets the numbers of objects that no list has any more. */
  #forget(): void {
    const all = LISTS.flatMap((name): readonly Listed[] => this.#sent[name] ?? []);
    if (this.#numbers.size === all.length) return;
    this.#numbers = new Map(all.map((one) => [one, this.#numbers.get(one) ?? 0]));
  }
}

/** Another object counts as one rule. */
function rulesOf(object: Listed): number {
  if (object.kind !== 'ClusterNetworkPolicy') return 1;
  return 1 + (object.spec.ingress?.length ?? 0) + (object.spec.egress?.length ?? 0);
}

const { egressGateways, egressPolicies, insideNetworks, namespaces } = NO_OBJECTS;
const NO_EGRESS = { egressGateways, egressPolicies, insideNetworks, namespaces };

/** Keeps the world as the updates say. */
export class WorldReceiver {
  readonly #objects = new Map<number, Listed>();
  readonly #numbers: Partial<Record<ListName, readonly number[]>> = {};
  readonly #pods = new Map<number, AddressedPod>();
  #outsidePods: readonly AddressedPod[] | null = null;
  #world: AdmissionWorld | null = null;

  /** Null before the first whole state. */
  get world(): AdmissionWorld | null {
    return this.#world;
  }

  receive({ added, pods, state }: WorldUpdate): void {
    for (const [number, object] of added) this.#objects.set(number, object);
    if (pods !== undefined) {
      for (const number of pods.removed) this.#pods.delete(number);
      for (const [number, pod] of pods.added) this.#pods.set(number, pod);
      this.#outsidePods = null;
    }
    if (state === null) return;
    const { lists, settings } = state;
    Object.assign(this.#numbers, lists);
    const before = this.#world?.objects;
    this.#outsidePods ??= [...this.#pods.values()];
    const { egress } = settings;
    const outside = egress === undefined ? {} : { outsidePods: this.#outsidePods };
    const objects = lists === null ? null : { ...(before ?? this.#all()), ...this.#all(lists), ...outside };
    this.#world = { objects, ...settings };
    const used = new Set(LISTS.flatMap((name) => this.#numbers[name] ?? []));
    for (const number of this.#objects.keys()) if (!used.has(number)) this.#objects.delete(number);
  }

  /** The named lists, or all. */
  #all(names: Partial<Record<ListName, unknown>> = this.#numbers): AdmissionObjects {
    const listed = LISTS.filter((name) => name in names).map((name) => [
      name,
      (this.#numbers[name] ?? []).flatMap((number) => this.#objects.get(number) ?? []),
    ]);
    return Object.fromEntries(listed) as unknown as AdmissionObjects;
  }
}
