import type { Compiled, CompiledPolicy } from '../../apis/compiled.ts';
import { apiServerPorts, CONTROLLER_ACCOUNT } from '../../apis/control-plane.ts';
import {
  type ClusterNetworkPolicy,
  type ClusterObjects,
  NO_OBJECTS,
  type Node,
  type PolicyShare,
} from '../../apis/objects.ts';
import { comparePlace, type EvaluationPosition } from '../../apis/order.ts';
import { firstAt, type ListChange, listChange, sameItems } from '../../lib/sharing/lists.ts';
import { present } from '../../lib/sharing/present.ts';
import { type UseCount, useCount } from '../../lib/sharing/use-count.ts';
import { type GroupIndex, groupIndex, type ServiceIndex, serviceIndex } from '../index/name-index.ts';
import { ObjectIndex } from '../index/object-index.ts';
import { selectorIndex } from '../index/selector.ts';
import { type NodesOfShare, nodesOfShares } from '../rollout/order.ts';
import { type CanonicalPeers, canonicalPeers, controllerPeers } from './address-set.ts';
import { AddressSets } from './address-sets.ts';
import {
  type AppliedNodes,
  memoizedForms,
  type PolicyRules,
  policyRules,
  stillHold,
  tierName,
  tierPriority,
} from './policy-rules.ts';
import { type CanonicalServices, type ServiceSets, serviceSets } from './service-set.ts';

/**
 * Stage 2: compiles the policies, with peers resolved, ports as ranges, and the nodes that each
 * applies to. A pure function of the objects, independent of their order. The objects must have
 * passed validation; throws if the tier or group of a policy doesn't exist. Cost: rules × log
 * rules, plus for each distinct selector the objects that it can select.
 */
export function compile(objects: ClusterObjects): Compiled {
  return compiler()(objects);
}

/** An incremental `compile` for successive states of the objects. */
interface Compiler {
  /**
   * Returns the same result as `compile`, in which everything unchanged is the same JavaScript
   * object: an equal rule, a policy with its rules and nodes, an AddressSet or ServiceSet with its
   * members, and the maps of them. Objects count as unchanged if they are the same JavaScript
   * objects. The cost is that of the changed ones and everything that depends on them, and a pass
   * over each list of objects that is a different array.
   */
  (objects: ClusterObjects): Compiled;
  /**
   * Builds the indexes that the first change needs, in idle time; otherwise the first change builds
   * them.
   */
  prepare(): void;
}

export function compiler(): Compiler {
  let state: State | null = null;
  const next = (objects: ClusterObjects): Compiled => {
    const before = state ?? startState();
    // An exception leaves the state inconsistent, so the next call starts from scratch.
    state = null;
    state = advance(before, objects);
    return state.compiled;
  };
  return Object.assign(next, { prepare: () => state?.sets.prepare() });
}

const ALL_NODES = canonicalPeers([{ nodeSelector: {} }]);
const CONTROLLERS = controllerPeers(CONTROLLER_ACCOUNT);

/** A policy with its position in the evaluation order and its compiled form. */
interface Placed extends EvaluationPosition {
  readonly share: PolicyShare | undefined;
  readonly rules: PolicyRules;
  /** Null until its nodes are known. */
  compiled: CompiledPolicy | null;
}

/** One state of the objects; parts that are not readonly are updated in place by the next one. */
interface State {
  readonly objects: ClusterObjects;
  readonly groups: GroupIndex;
  readonly placed: Map<ClusterNetworkPolicy, Placed>;
  /** In evaluation order. */
  readonly ordered: readonly Placed[];
  readonly peers: UseCount<CanonicalPeers>;
  readonly services: UseCount<CanonicalServices>;
  readonly index: ObjectIndex;
  readonly serviceIndex: ServiceIndex;
  readonly sets: AddressSets;
  readonly serviceSets: ServiceSets;
  readonly spans: Spans<Placed>;
  readonly nodesOf: NodesOfShare;
  readonly compiled: Compiled;
}

function startState(): State {
  const [index, services] = [new ObjectIndex(NO_OBJECTS), serviceIndex(NO_OBJECTS)];
  const sets = new AddressSets({ index, services });
  const peers = useCount<CanonicalPeers>();
  const failsafe = [ALL_NODES, CONTROLLERS].map((one) => new Map([[one.id, one]]));
  const wanted = peers.exchange([], failsafe);
  const change = index.difference(NO_OBJECTS);
  return {
    objects: NO_OBJECTS,
    groups: groupIndex([]),
    placed: new Map(),
    ordered: [],
    peers,
    services: useCount(),
    index,
    serviceIndex: services,
    sets,
    serviceSets: serviceSets({ services, index }),
    spans: nodeSpans(index),
    nodesOf: nodesOfShares(),
    compiled: {
      policies: [],
      addressSets: sets.advance({ wanted, change, losses: sets.losses(change), services: new Set() }),
      serviceSets: new Map(),
      leftOutEndpoints: new Map(),
      allNodes: ALL_NODES.id,
      controllers: CONTROLLERS.id,
      apiServerPorts: [],
      nodeAddresses: new Map(),
    },
  };
}

function advance(last: State, objects: ClusterObjects): State {
  const { index, sets, spans, nodesOf } = last;
  const groups = last.objects.groups === objects.groups ? last.groups : groupIndex(objects.groups);
  const { removed, added } = placePolicies(last, objects, groups);
  const change = index.difference(objects);
  const losses = sets.losses(change);
  index.advance(objects, change);
  const services = last.serviceIndex.advance(objects);
  const wanted = last.peers.exchange(
    removed.map(({ rules }) => rules.peers),
    added.map(({ rules }) => rules.peers),
  );
  const wantedServices = last.services.exchange(
    removed.map(({ rules }) => rules.services),
    added.map(({ rules }) => rules.services),
  );
  const stale = spans.advance(change.nodes, { removed, added });
  for (const one of stale) one.compiled = compiledPolicy(one, spans, nodesOf);
  const ordered = reordered(last.ordered, removed, added);
  const same = removed.length === 0 && stale.size === 0;
  return {
    ...last,
    objects,
    groups,
    ordered,
    compiled: {
      policies: same ? last.compiled.policies : ordered.flatMap(({ compiled }) => compiled ?? []),
      addressSets: sets.advance({ wanted, change, losses, services }),
      serviceSets: last.serviceSets.advance(wantedServices, services, change.pods),
      leftOutEndpoints: last.serviceSets.leftOut(),
      allNodes: ALL_NODES.id,
      controllers: CONTROLLERS.id,
      apiServerPorts: nextApiServerPorts(last, objects),
      nodeAddresses: nodeAddresses(last.compiled.nodeAddresses, objects.nodes, change.nodes),
      ...present({ platforms: nodePlatforms(last.compiled.platforms, objects.nodes, change.nodes) }),
    },
  };
}

/** Updates `placed`. A policy with an unchanged result keeps its entry. */
function placePolicies(
  last: State,
  objects: ClusterObjects,
  groups: GroupIndex,
): { removed: readonly Placed[]; added: readonly Placed[] } {
  const { placed } = last;
  const change = listChange(last.objects.policies, objects.policies);
  const removed = change.removed.flatMap((policy) => placed.get(policy) ?? []);
  for (const policy of change.removed) placed.delete(policy);
  const earlier = new Map(removed.map((one) => [versionKey(one), one.rules]));
  const added: Placed[] = [];
  const forms = memoizedForms();
  const sameContext = groups === last.groups && last.objects.tiers === objects.tiers;
  for (const policy of sameContext ? change.added : objects.policies) {
    const known = placed.get(policy);
    const priorityOfTier = requireTier(objects, policy);
    const context = { tierPriority: priorityOfTier, groups, forms };
    if (known !== undefined && stillHold(known.rules, policy, context)) continue;
    if (known !== undefined) removed.push(known);
    const { name, apiGroup, spec, share } = policy;
    const before = known?.rules ?? earlier.get(versionKey(policy));
    const rules = policyRules(policy, context, before);
    const where = { name, apiGroup, priority: spec.priority, tierPriority: priorityOfTier };
    const one: Placed = { ...where, share, rules, compiled: null };
    placed.set(policy, one);
    added.push(one);
  }
  return { removed, added };
}

/** `before` is sorted: only added policies are sorted, then merged. */
function reordered(
  before: readonly Placed[],
  removed: readonly Placed[],
  added: readonly Placed[],
): readonly Placed[] {
  const left = new Set(removed);
  const kept = removed.length === 0 ? before : before.filter((one) => !left.has(one));
  if (added.length === 0) return kept;
  const parts: (readonly Placed[])[] = [];
  let at = 0;
  for (const one of added.toSorted(comparePlace)) {
    const next = firstAfter(kept, one, at);
    parts.push(kept.slice(at, next), [one]);
    at = next;
  }
  return [...parts, kept.slice(at)].flat();
}

/** The position of the first policy, from `from` on, that comes after this one. */
function firstAfter(ordered: readonly Placed[], one: Placed, from: number): number {
  return firstAt(from, ordered.length, (i) => {
    const other = ordered[i];
    return other === undefined || comparePlace(other, one) >= 0;
  });
}

function compiledPolicy(
  { apiGroup, name, rules, share }: Placed,
  spans: Spans<Placed>,
  nodesOf: NodesOfShare,
): CompiledPolicy {
  const selected = rules.appliedTo.map((nodes) => spans.of(nodes));
  if (share === undefined) return { apiGroup, name, rules: rules.rules, spans: selected };
  const { version, since } = share;
  return {
    apiGroup,
    name,
    rules: rules.rules,
    spans: selected.map(nodesOf(share)),
    selected,
    version,
    since,
  };
}

interface VersionName extends Pick<EvaluationPosition, 'apiGroup' | 'name'> {
  readonly share?: PolicyShare | undefined;
}

/** Rules are reused from the same version of a policy alone. */
function versionKey({ apiGroup, name, share }: VersionName): string {
  return `${apiGroup}/${name}@${share?.version ?? ''}`;
}

/** Returns the same map if every node has the same addresses as before. */
function nodeAddresses(
  before: Compiled['nodeAddresses'],
  nodes: readonly Node[],
  { removed, added }: ListChange<Node>,
): Compiled['nodeAddresses'] {
  const isSame = ({ name, addresses }: Node): boolean => {
    const there = before.get(name);
    return (
      there !== undefined &&
      there.length === addresses.length &&
      there.every((address, i) => address === addresses[i])
    );
  };
  if (removed.length === added.length && added.every(isSame)) return before;
  return new Map(nodes.map(({ name, addresses }) => [name, addresses]));
}

/** Returns the same lists, and the same map, where every Node's annotation says the same. */
function nodePlatforms(
  before: Compiled['platforms'],
  nodes: readonly Node[],
  { removed, added }: ListChange<Node>,
): Compiled['platforms'] {
  if ([...removed, ...added].every(({ platform }) => platform === undefined)) return before;
  const platforms = new Map<string, NonNullable<Node['platform']>>();
  let isSame = true;
  for (const { name, platform } of nodes) {
    if (platform === undefined) continue;
    const known = before?.get(name);
    const isKnown = known !== undefined && JSON.stringify(platform) === JSON.stringify(known);
    platforms.set(name, isKnown ? known : platform);
    isSame &&= isKnown;
  }
  if (isSame && platforms.size === (before?.size ?? 0)) return before;
  return platforms.size === 0 ? undefined : platforms;
}

/** Returns the same list if the ports are unchanged. */
function nextApiServerPorts(
  { objects: before, compiled }: State,
  { endpointSlices }: ClusterObjects,
): readonly number[] {
  if (before.endpointSlices === endpointSlices) return compiled.apiServerPorts;
  const ports = apiServerPorts(endpointSlices);
  return sameItems(ports, compiled.apiServerPorts) ? compiled.apiServerPorts : ports;
}

function requireTier({ tiers }: ClusterObjects, { name, apiGroup, spec }: ClusterNetworkPolicy): number {
  const priority = tierPriority(tiers, apiGroup, spec.tier || tierName(undefined));
  if (priority === null) throw new Error(`ClusterNetworkPolicy/${name}: there is no Tier ${spec.tier}`);
  return priority;
}

/**
 * The names of the nodes that appliedTo lists select, maintained over successive states of the
 * nodes.
 */
interface Spans<U> {
  /**
   * The names of the selected nodes, sorted; equal lists share one set. Throws if no user has this
   * list.
   */
  of(nodes: AppliedNodes): ReadonlySet<string>;
  /**
   * Must be called after the index has advanced. Returns the users whose nodes changed, added users
   * included. A list that selects the same nodes as before keeps its set.
   */
  advance(
    change: ListChange<Node>,
    users: { readonly removed: readonly U[]; readonly added: readonly U[] },
  ): ReadonlySet<U>;
}

interface Span<U> {
  names: ReadonlySet<string>;
  readonly users: Set<U>;
  readonly takeOut: readonly (() => void)[];
}

export function nodeSpans<U extends { readonly rules: Pick<PolicyRules, 'appliedTo'> }>(
  index: ObjectIndex,
): Spans<U> {
  const spans = new Map<string, Span<U>>();
  const bySelector = selectorIndex<Span<U>>();

  function add({ key, selectors }: AppliedNodes): Span<U> {
    const names = selectors.flatMap((selector) => index.selectNodes(selector).map(({ name }) => name));
    const takeOut: (() => void)[] = [];
    const span = { names: new Set(names.sort()), users: new Set<U>(), takeOut };
    for (const selector of selectors) takeOut.push(bySelector.add(selector, span));
    spans.set(key, span);
    return span;
  }

  /** The names of removed and added nodes by span, and whether each is selected now. */
  function touched({ removed, added }: ListChange<Node>): Map<Span<U>, Map<string, boolean>> {
    const found = new Map<Span<U>, Map<string, boolean>>();
    for (const [nodes, isSelected] of [
      [removed, false],
      [added, true],
    ] as const) {
      for (const { labels, name } of nodes) {
        for (const span of bySelector.matching(labels)) {
          const names = found.get(span) ?? new Map<string, boolean>();
          found.set(span, names.set(name, isSelected));
        }
      }
    }
    return found;
  }

  return {
    of({ key }) {
      const span = spans.get(key);
      if (span === undefined) throw new Error(`span ${key} is not in use`);
      return span.names;
    },
    advance(change, { removed, added }) {
      const stale = new Set<U>();
      for (const [span, names] of touched(change)) {
        const now = changedNames(span.names, names);
        if (now === span.names) continue;
        span.names = now;
        for (const user of span.users) stale.add(user);
      }
      for (const user of added) {
        stale.add(user);
        for (const nodes of user.rules.appliedTo) (spans.get(nodes.key) ?? add(nodes)).users.add(user);
      }
      for (const user of removed) {
        stale.delete(user);
        for (const { key } of user.rules.appliedTo) {
          const span = spans.get(key);
          if (span === undefined) continue;
          span.users.delete(user);
          if (span.users.size > 0) continue;
          for (const out of span.takeOut) out();
          spans.delete(key);
        }
      }
      return stale;
    },
  };
}

/** Returns the same set if nothing changes. */
function changedNames(
  names: ReadonlySet<string>,
  touched: ReadonlyMap<string, boolean>,
): ReadonlySet<string> {
  const added = [...touched].flatMap(([name, isSelected]) => (isSelected && !names.has(name) ? name : []));
  const removed = new Set([...touched].flatMap(([name, isSelected]) => (isSelected ? [] : name)));
  const isLess = [...removed].some((name) => names.has(name));
  if (added.length === 0 && !isLess) return names;
  added.sort();
  const now = new Set<string>();
  let next = 0;
  for (const name of names) {
    for (let other = added[next]; other !== undefined && other < name; other = added[++next]) now.add(other);
    if (!removed.has(name)) now.add(name);
  }
  for (const name of added.slice(next)) now.add(name);
  return now;
}
