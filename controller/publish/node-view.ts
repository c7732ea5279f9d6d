import {
  type Compiled,
  type CompiledPolicy,
  type CompiledRule,
  emptyNodeState,
  type NodeState,
  namedBy,
} from '../../apis/compiled.ts';
import { changedIds, withValues } from '../../lib/sharing/changed-map.ts';
import { listChange, sameItems } from '../../lib/sharing/lists.ts';
import { present } from '../../lib/sharing/present.ts';
import { useCount } from '../../lib/sharing/use-count.ts';

/**
 * The part of everything compiled that one node needs: the rules that apply to it, and the
 * AddressSets and ServiceSets that they name.
 */
export function nodeView(compiled: Compiled, node: string): NodeState {
  return nodeViewer(node)(compiled);
}

/**
 * An incremental `nodeView` for successive states. Unchanged parts are the same objects: the list
 * of rules, the maps of sets, and the whole state. Policies count as unchanged if they are the same
 * objects.
 */
export function nodeViewer(node: string): (compiled: Compiled) => NodeState {
  let last: View | null = null;
  return (compiled) => {
    const before = last ?? startView(node);
    // An exception leaves the view inconsistent, so the next call starts from scratch.
    last = null;
    last = advance(before, compiled);
    return last.state;
  };
}

/** The rules of a policy that apply to the node. */
interface Share {
  readonly ingress: readonly CompiledRule[];
  readonly egress: readonly CompiledRule[];
  /** A set of ids; the values have no meaning. */
  readonly addressSets: ReadonlyMap<string, true>;
  readonly serviceSets: ReadonlyMap<string, true>;
}

/** The view at one state; the next state changes the map and the counts in place. */
interface View {
  readonly of: Pick<Compiled, 'addressSets' | 'serviceSets'>;
  readonly policies: readonly CompiledPolicy[];
  readonly shares: Map<CompiledPolicy, Share>;
  readonly named: {
    readonly addressSets: ReturnType<typeof useCount>;
    readonly serviceSets: ReturnType<typeof useCount>;
  };
  readonly state: NodeState;
}

function startView(node: string): View {
  return {
    of: { addressSets: new Map(), serviceSets: new Map() },
    policies: [],
    shares: new Map(),
    named: { addressSets: useCount(), serviceSets: useCount() },
    state: emptyNodeState(node),
  };
}

function advance({ of, policies, shares, named, state }: View, compiled: Compiled): View {
  const { node } = state;
  const change = listChange(policies, compiled.policies);
  const removed = change.removed.flatMap((policy) => shares.get(policy) ?? []);
  const added = change.added.map((policy) => shareOf(policy, node));
  for (const policy of change.removed) shares.delete(policy);
  for (const [i, share] of added.entries()) {
    const policy = change.added[i];
    if (policy !== undefined) shares.set(policy, share);
  }
  const failsafeSets = ({ allNodes, controllers }: Pick<NodeState, 'allNodes' | 'controllers'>) =>
    [allNodes, controllers].filter((id) => id !== '').map((id) => new Map([[id, true]]));
  const otherSets = named.addressSets.change(
    [...removed.map(({ addressSets }) => addressSets), ...failsafeSets(state)],
    [...added.map(({ addressSets }) => addressSets), ...failsafeSets(compiled)],
  );
  const otherServices = named.serviceSets.change(
    removed.map(({ serviceSets }) => serviceSets),
    added.map(({ serviceSets }) => serviceSets),
  );
  const rules = compiled.policies === policies ? state.rules : rulesOf(compiled.policies, shares);
  const nodeAddresses = compiled.nodeAddresses.get(node) ?? [];
  const egress = compiled.egress?.get(node);
  const platform = compiled.platforms?.get(node);
  const now: NodeState = {
    node,
    rules: sameItems(rules, state.rules) ? state.rules : rules,
    addressSets: otherSets
      ? picked(compiled.addressSets, named.addressSets.inUse)
      : advanced(state.addressSets, of.addressSets, compiled.addressSets),
    serviceSets: otherServices
      ? picked(compiled.serviceSets, named.serviceSets.inUse)
      : advanced(state.serviceSets, of.serviceSets, compiled.serviceSets),
    allNodes: compiled.allNodes,
    controllers: compiled.controllers,
    apiServerPorts: compiled.apiServerPorts,
    nodeAddresses: sameItems(nodeAddresses, state.nodeAddresses) ? state.nodeAddresses : nodeAddresses,
    ...present({ egress, platform }),
  };
  const same =
    now.rules === state.rules &&
    now.addressSets === state.addressSets &&
    now.serviceSets === state.serviceSets &&
    now.allNodes === state.allNodes &&
    now.controllers === state.controllers &&
    now.apiServerPorts === state.apiServerPorts &&
    now.nodeAddresses === state.nodeAddresses &&
    now.egress === state.egress &&
    now.platform === state.platform;
  return { of: compiled, policies: compiled.policies, shares, named, state: same ? state : now };
}

function shareOf({ rules, spans }: CompiledPolicy, node: string): Share {
  const own = rules.filter((_, i) => spans[i]?.has(node));
  const { addressSets, serviceSets } = namedBy(own);
  const ids = (list: readonly string[]) => new Map(list.map((id) => [id, true] as const));
  return {
    ingress: own.filter(({ source }) => source.direction === 'ingress'),
    egress: own.filter(({ source }) => source.direction === 'egress'),
    addressSets: ids(addressSets),
    serviceSets: ids(serviceSets),
  };
}

/**
 * In evaluation order, ingress first: policies, and the rules of each, are in that order already.
 */
function rulesOf(
  policies: readonly CompiledPolicy[],
  shares: ReadonlyMap<CompiledPolicy, Share>,
): CompiledRule[] {
  const rules: CompiledRule[] = [];
  for (const direction of ['ingress', 'egress'] as const) {
    for (const policy of policies) for (const rule of shares.get(policy)?.[direction] ?? []) rules.push(rule);
  }
  return rules;
}

/** Sorted by id. */
function picked<T>(sets: ReadonlyMap<string, T>, ids: ReadonlyMap<string, unknown>): ReadonlyMap<string, T> {
  return new Map([...ids.keys()].sort().map((id) => [id, held(sets, id)]));
}

/**
 * The current versions of the previous sets; the same map if none changed. Throws if one doesn't
 * exist any more.
 */
function advanced<T>(
  last: ReadonlyMap<string, T>,
  before: ReadonlyMap<string, T>,
  now: ReadonlyMap<string, T>,
): ReadonlyMap<string, T> {
  const others = [...changedIds(before, now)].filter((id) => last.has(id) && last.get(id) !== now.get(id));
  return withValues(last, new Map(others.map((id) => [id, held(now, id)])));
}

function held<T>(sets: ReadonlyMap<string, T>, id: string): T {
  const set = sets.get(id);
  if (set === undefined) throw new Error(`unknown set ${id}`);
  return set;
}
