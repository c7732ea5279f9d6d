import { isDeepStrictEqual } from 'node:util';
import type { EgressConfig } from '../../apis/egress/config.ts';
import { BY_ADDRESS, type EgressClass, podKey } from '../../apis/egress/node-egress.ts';
import type { EgressObjects, EgressPolicy } from '../../apis/egress/objects.ts';
import { type ClusterObjects, NO_OBJECTS, type Node, type Pod } from '../../apis/objects.ts';
import { FAMILIES, type Family } from '../../lib/net/address.ts';
import { type Interval, subtract } from '../../lib/net/interval.ts';
import { listChange, sameItems } from '../../lib/sharing/lists.ts';
import { memo } from '../../lib/sharing/memo.ts';
import { type Stepped, type Stepwise, stepped } from '../../lib/sharing/stepwise.ts';
import { ObjectIndex } from '../index/object-index.ts';
import type { Dealing } from './allocation.ts';
import {
  classId,
  crowdedClass,
  crowdedClasses,
  type EgressDecision,
  egressPolicyKey,
  type FlatClass,
  flatten,
} from './class.ts';
import { holderOf, type Inside, InsideIndex, type NetworksConfig } from './inside.ts';
import { compareEgressPolicies } from './order.ts';
import { destinationsOf } from './segments.ts';
import { ByNode, EgressSelection } from './selection.ts';
import { WayIndex, type Ways } from './ways.ts';

/** With nodeCIDRs of the configuration; absent: not known, or none. */
export type EgressSettings = EgressConfig & Pick<NetworksConfig, 'nodeCIDRs'>;

/** The objects that are read. */
export type EgressInput = Pick<ClusterObjects, 'nodes' | 'namespaces' | 'pods'> & EgressObjects;

/** Egress gateways of the whole cluster: what all nodes' NodeEgress are made of. */
export interface CompiledEgress extends Ways {
  readonly nodes: readonly Node[];
  readonly inside: Inside;
  /** Hold only while there is a policy that is enforced. */
  readonly unknownPods: EgressConfig['unknownPods'];
  readonly encryption: EgressConfig['encryption'];
  /** In evaluation order. */
  readonly policies: readonly EgressPolicy[];
  /** Addresses of pods by node, with the id of the class; null: no policy selects the pod. */
  readonly sources: ReadonlyMap<string, ReadonlyMap<string, string | null>>;
  /** Scheduled pods by node, as in NodeEgress.pods. */
  readonly pods: ReadonlyMap<string, ReadonlyMap<string, string | null>>;
  /** Sources that need be no pods. */
  readonly subnets: readonly { readonly family: Family; readonly range: Interval; readonly class: string }[];
  /** By id. */
  readonly classes: ReadonlyMap<string, EgressClass>;
  /** By id. */
  readonly decisions: ReadonlyMap<string, EgressDecision>;
  /** By id: the classes for which their namespace has no room, with its name; they drop. */
  readonly crowded: ReadonlyMap<string, string>;
}

/**
 * Stage 2 for egress gateways: a pure function of the objects, their statuses included, and of the
 * configuration. The objects must have passed validation.
 */
export function compileEgress(objects: EgressInput, config: EgressSettings): CompiledEgress {
  return egressCompiler(config)(objects);
}

/**
 * An incremental compileEgress: everything unchanged is the same JavaScript object. A pod costs its
 * policies and the pods of its node, a policy the pods that it selects.
 */
export function egressCompiler(
  config: EgressSettings,
  dealing: Dealing = 'all',
): Stepped<EgressInput, CompiledEgress> {
  let state: EgressState | null = null;
  return stepped(function* (objects) {
    const before = state ?? new EgressState(config, dealing);
    // An exception leaves the state inconsistent, so the next call starts from scratch.
    state = null;
    const compiled = yield* before.advance(objects);
    state = before;
    return compiled;
  });
}

/** A class with the number of sources that have it. */
interface UsedClass {
  readonly key: string;
  readonly id: string;
  /** In evaluation order. */
  readonly policies: readonly EgressPolicy[];
  readonly isStray: boolean;
  uses: number;
  /** As it was made last. */
  flat: (FlatClass & { readonly isCrowded: boolean }) | null;
}

/** Where an address or a pod is, and what it has. */
interface Source {
  readonly node: string;
  readonly class: UsedClass | null;
  /** Only for a pod's source: the address decides besides. */
  readonly isByAddress?: true;
}

class EgressState {
  readonly #config: EgressSettings;
  readonly #insideIndex: InsideIndex;
  readonly #index = new ObjectIndex(NO_OBJECTS);
  readonly #wayIndex: WayIndex;
  readonly #selection = new EgressSelection();
  readonly #destinations = memo(destinationsOf);
  #objects: EgressInput = NO_OBJECTS;
  /** By egressPolicyKey; versions with an equal spec are one object. */
  readonly #policies = new Map<string, EgressPolicy>();
  readonly #numbers = new Map<EgressPolicy, number>();
  #lastNumber = 0;
  readonly #sources = new Map<string, Source>();
  readonly #sourcesByNode = new ByNode();
  /** Addresses that several pods have. */
  readonly #contested = new Set<string>();
  #inside: Inside;
  /** By podKey. */
  readonly #pods = new Map<string, Source>();
  readonly #podsByNode = new ByNode();
  /** By the numbers of its policies. */
  readonly #classes = new Map<string, UsedClass>();
  /** Those that nothing had at some moment since. */
  readonly #unused = new Set<UsedClass>();
  #changesClasses = false;
  /** The subnets were made of these. */
  #subnetParts: readonly unknown[] = [];
  #subnetClasses: readonly UsedClass[] = [];
  #compiled: CompiledEgress;

  constructor(config: EgressSettings, dealing: Dealing) {
    this.#wayIndex = new WayIndex(this.#index, dealing);
    this.#config = config;
    this.#insideIndex = new InsideIndex(config);
    this.#inside = this.#insideIndex.advance(NO_OBJECTS, [], { removed: [], added: [] });
    this.#compiled = {
      nodes: [],
      inside: this.#inside,
      unknownPods: 'Pass',
      encryption: config.encryption,
      policies: [],
      ways: new Map(),
      allocations: [],
      sources: new Map(),
      pods: new Map(),
      subnets: [],
      classes: new Map(),
      decisions: new Map(),
      crowded: new Map(),
    };
  }

  *advance(objects: EgressInput): Stepwise<CompiledEgress> {
    const last = this.#objects;
    const change = this.#index.difference(objects);
    const { removed, added } = this.#placePolicies(objects);
    const changesSubnets = [...removed, ...added].some((policy) =>
      this.#selection.itemsOf(policy).some(({ pods }) => pods === null),
    );
    const isNew = last.pods.length === 0 || changesSubnets;
    // Those that are gone come before their successors.
    const touched = new Set<Pod>(change.pods.removed);
    const touch = (pods: Iterable<Pod>): void => {
      for (const pod of pods) touched.add(pod);
    };
    touch(change.moved);
    if (!isNew) for (const policy of removed) touch(this.#selected(policy));
    for (const policy of removed) this.#selection.remove(policy);
    yield;
    this.#index.advance(objects, change);
    this.#objects = objects;
    yield;
    for (const policy of added) this.#selection.add(policy);
    touch(isNew ? objects.pods : change.pods.added);
    if (!isNew) for (const policy of added) touch(this.#selected(policy));

    const before = this.#compiled;
    const isSameOrder = removed.length === 0 && added.length === 0;
    const policies = isSameOrder ? before.policies : [...this.#policies.values()].sort(compareEgressPolicies);
    const inside = this.#insideIndex.advance(objects, objects.pods, change.pods);
    const isEnforced = policies.some(({ spec }) => spec.mode === 'Enforce');
    const unknownPods = isEnforced ? this.#config.unknownPods : 'Pass';
    const addresses = this.#moveInside(inside);
    const { sources, pods } = yield* this.#advancePods(touched, new Set(change.pods.removed), addresses);
    const subnets = this.#advanceSubnets(inside, unknownPods);
    yield;
    const { ways, allocations } = this.#wayIndex.advance(objects, policies);
    yield;
    const { classes, decisions, crowded } = yield* this.#usedClasses();
    const { nodes } = objects;
    const parts = { inside, unknownPods, policies, sources, pods, subnets, classes, decisions, crowded };
    const { encryption } = this.#config;
    this.#compiled = { nodes, encryption, ways, allocations, ...parts };
    return this.#compiled;
  }

  /** The addresses of which networks say something else than before. */
  #moveInside(inside: Inside): Iterable<string> {
    const before = this.#inside;
    this.#inside = inside;
    if (inside.networksOf === before.networksOf) return [];
    return new Set([...this.#contested, ...inside.leftOut, ...before.leftOut]);
  }

  /** The policies whose spec is new or gone. */
  #placePolicies({ egressPolicies }: EgressInput): { removed: EgressPolicy[]; added: EgressPolicy[] } {
    const change = listChange(this.#objects.egressPolicies, egressPolicies);
    const gone = new Map(change.removed.map((policy) => [egressPolicyKey(policy), policy]));
    const added = change.added.filter((policy) => {
      const key = egressPolicyKey(policy);
      const before = this.#policies.get(key);
      if (!isDeepStrictEqual(before?.spec, policy.spec)) return true;
      gone.delete(key);
      return false;
    });
    const removed = [...gone.keys()].flatMap((key) => this.#policies.get(key) ?? []);
    for (const policy of removed) {
      this.#policies.delete(egressPolicyKey(policy));
      this.#numbers.delete(policy);
    }
    for (const policy of added) {
      this.#policies.set(egressPolicyKey(policy), policy);
      this.#numbers.set(policy, ++this.#lastNumber);
    }
    return { removed, added };
  }

  /** Pods that the policy selects by labels, in the current state of the index. */
  #selected(policy: EgressPolicy): readonly Pod[] {
    return this.#selection
      .itemsOf(policy)
      .flatMap(({ pods }) => (pods === null ? [] : this.#index.selectPods(pods.labels, pods.namespace)));
  }

  /**
   * @param removed those of the pods that are not there any more
   * @param addresses those whose holder may be another though no pod changed
   */
  *#advancePods(
    pods: ReadonlySet<Pod>,
    removed: ReadonlySet<Pod>,
    addresses: Iterable<string>,
  ): Stepwise<Pick<CompiledEgress, 'sources' | 'pods'>> {
    const sourceOf = this.#podSources();
    for (const address of addresses)
      this.#change([this.#sources, this.#sourcesByNode], address, this.#holder(address, sourceOf));
    for (const pod of pods) {
      yield;
      for (const address of pod.addresses)
        this.#change([this.#sources, this.#sourcesByNode], address, this.#holder(address, sourceOf));
      if (pod.hostNetwork === true || pod.node === undefined) continue;
      const key = podKey(pod.namespace, pod.name, pod.uid ?? '');
      this.#change([this.#pods, this.#podsByNode], key, removed.has(pod) ? null : sourceOf(pod));
    }
    return { sources: this.#sourcesByNode.advance(), pods: this.#podsByNode.advance() };
  }

  /** Finds sources of pods by labels, once for all pods that are asked about. */
  #podSources(): (pod: Pod) => Source {
    let last: { readonly pod: Pod; readonly source: Source } | null = null;
    return (pod) => {
      if (last?.pod === pod) return last.source;
      const node = pod.node ?? '';
      const policies = this.#selection.policiesOf(pod, this.#index.namespaceLabels(pod.namespace));
      const source: Source =
        policies === null
          ? { node, class: null, isByAddress: true }
          : { node, class: this.#classFor(policies) };
      last = { pod, source };
      return source;
    };
  }

  #change([places, byNode]: [Map<string, Source>, ByNode], key: string, now: Source | null): void {
    const before = places.get(key);
    if (now?.class) now.class.uses++;
    if (before?.class) this.#release(before.class);
    if (now === null) places.delete(key);
    else places.set(key, now);
    const [id, was] = [idOf(now), idOf(before)];
    if (before?.node === now?.node && was === id) return;
    if (before !== undefined) byNode.delete(before.node, key);
    if (now !== null && id !== undefined) byNode.set(now.node, key, id);
  }

  /** Null: no pod has the address. */
  #holder(address: string, sourceOf: (pod: Pod) => Source): Source | null {
    const pods: Pod[] = [];
    for (const holder of this.#index.holders(address))
      if (holder.kind === 'Pod' && holder.hostNetwork !== true) pods.push(holder);
    if (pods.length > 1) this.#contested.add(address);
    else this.#contested.delete(address);
    const pod = holderOf(pods, address, this.#inside);
    if (pod === undefined) return null;
    const byLabels = sourceOf(pod);
    const isStray = this.#inside.leftOut.has(address);
    if (byLabels.isByAddress !== true && !isStray) return byLabels;
    const labels = this.#index.namespaceLabels(pod.namespace);
    const policies = this.#selection.policiesAt(pod, labels, address);
    return { node: byLabels.node, class: this.#classFor(policies, isStray) };
  }

  /** Null: there are no policies. Whoever keeps the class counts as a use. */
  #classFor(policies: readonly EgressPolicy[], isStray = false): UsedClass | null {
    if (policies.length === 0) return null;
    const ordered = [...new Set(policies)].sort(compareEgressPolicies);
    const key = `${isStray ? 'stray ' : ''}${ordered.map((policy) => this.#numbers.get(policy)).join()}`;
    let used = this.#classes.get(key);
    if (used === undefined) {
      used = { key, id: classId(ordered, isStray), policies: ordered, isStray, uses: 0, flat: null };
      this.#classes.set(key, used);
      this.#unused.add(used);
      this.#changesClasses = true;
    }
    return used;
  }

  #release(used: UsedClass): void {
    used.uses--;
    if (used.uses === 0) this.#unused.add(used);
  }

  /** Without the Nodes' pod networks, where a source that no pod has is held. */
  #advanceSubnets(
    { podNetworks }: Inside,
    unknownPods: EgressConfig['unknownPods'],
  ): CompiledEgress['subnets'] {
    const parts = [...FAMILIES.map((family) => this.#selection.subnets(family)), podNetworks, unknownPods];
    if (sameItems(parts, this.#subnetParts)) return this.#compiled.subnets;
    this.#subnetParts = parts;
    const before = this.#subnetClasses;
    const classes: UsedClass[] = [];
    const subnets = FAMILIES.flatMap((family) =>
      this.#selection.subnets(family).flatMap(({ range, policies }) => {
        const rest = subtract([range], unknownPods === 'Hold' ? podNetworks[family] : []);
        if (rest.length === 0) return [];
        const used = this.#classFor(policies);
        if (used === null) return [];
        used.uses++;
        classes.push(used);
        return rest.map((part) => ({ family, range: part, class: used.id }));
      }),
    );
    this.#subnetClasses = classes;
    for (const used of before) this.#release(used);
    return subnets;
  }

  *#usedClasses(): Stepwise<Pick<CompiledEgress, 'classes' | 'decisions' | 'crowded'>> {
    for (const { key, uses } of this.#unused) {
      if (uses === 0 && this.#classes.delete(key)) this.#changesClasses = true;
    }
    this.#unused.clear();
    if (!this.#changesClasses) return this.#compiled;
    this.#changesClasses = false;
    const classes = new Map<string, EgressClass>();
    const decisions = new Map<string, EgressDecision>();
    const { namespaceLimits } = this.#config;
    const crowded = crowdedClasses(this.#classes.values(), namespaceLimits, this.#destinations);
    for (const used of this.#classes.values()) {
      yield;
      const isCrowded = crowded.has(used);
      if (used.flat?.isCrowded !== isCrowded) used.flat = { ...this.#flat(used, isCrowded), isCrowded };
      classes.set(used.id, used.flat.class);
      for (const decision of used.flat.decisions) decisions.set(decision.id, decision);
    }
    return {
      classes,
      decisions,
      crowded: new Map([...crowded].map(([{ id }, namespace]) => [id, namespace])),
    };
  }

  /** Whatever is equal to before is the same object: all nodes compare by it. */
  #flat(used: UsedClass, isCrowded: boolean): FlatClass {
    const { policies, isStray } = used;
    const flat = isCrowded ? crowdedClass(used) : flatten(policies, this.#destinations, isStray);
    const { classes, decisions } = this.#compiled;
    const before = classes.get(flat.class.id);
    return {
      class: before !== undefined && isDeepStrictEqual(before, flat.class) ? before : flat.class,
      decisions: flat.decisions.map((one) => {
        const was = decisions.get(one.id);
        return was !== undefined && isSameDecision(one, was) ? was : one;
      }),
    };
  }
}

/** The same policies in the same versions. */
function isSameDecision(a: EgressDecision, b: EgressDecision): boolean {
  return a.policy === b.policy && sameItems(a.audited, b.audited);
}

/** Undefined: it is not there. */
function idOf(source: Source | null | undefined): string | null | undefined {
  if (source === null || source === undefined) return undefined;
  return source.isByAddress === true ? BY_ADDRESS : (source.class?.id ?? null);
}
