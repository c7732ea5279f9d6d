import type { EgressPolicy, HeldAddress } from '../../../apis/egress/objects.ts';
import { FAMILIES } from '../../../lib/net/address.ts';
import type { ConditionState } from '../../status/conditions.ts';
import type { Allocation, EgressPaths } from '../allocation.ts';
import { egressPolicyKey } from '../class.ts';
import type { CompiledEgress } from '../compile-egress.ts';
import { namedAddress } from '../deal-addresses.ts';
import { accepted, type WrittenPolicyStatus } from './egress-status.ts';

export interface EgressPolicyFacts {
  readonly policy: EgressPolicy;
  /** Its gateway's allocation; null: it has none, or may not use it. */
  readonly allocation: Allocation | null;
  readonly problems: readonly string[];
  /** Whether all of them end when its gateway is created; absent: no. */
  readonly isWaiting?: boolean;
  readonly pods: number;
  /** Nodes that must enforce it, sorted, with the reason why one does not; null: it does. */
  readonly nodes: ReadonlyMap<string, string | null>;
  /** Why a gateway node drops connections of its policies; null, or absent: nothing is known. */
  readonly ownerLack?: (owner: string) => string | null;
}

export function policyStatus(facts: EgressPolicyFacts): {
  readonly status: Omit<WrittenPolicyStatus, 'conditions' | 'observedGeneration'>;
  readonly said: readonly ConditionState[];
} {
  const { policy, allocation, problems, isWaiting, pods, nodes, ownerLack } = facts;
  const paths = allocation?.paths.get(policy);
  const { addresses, owners } = addressesOf(policy, allocation, paths);
  const failing = [...nodes].filter(([, reason]) => reason !== null);
  const said = [accepted('policy', problems, isWaiting)];
  if (policy.spec.action === 'Gateway') said.push(allocated(paths, addresses, heldFrom(policy, allocation)));
  said.push(
    realized(
      nodes.size,
      failing,
      owners.map((name) => [`gateway ${name}`, ownerLack?.(name) ?? null] as const),
    ),
  );
  return {
    status: {
      addresses,
      owners,
      pods,
      desiredNodesRealized: nodes.size,
      currentNodesRealized: nodes.size - failing.length,
    },
    said,
  };
}

function addressesOf(
  policy: EgressPolicy,
  allocation: Allocation | null,
  paths: EgressPaths | undefined,
): { readonly addresses: readonly string[]; readonly owners: readonly string[] } {
  const dealt = allocation?.addresses.get(policy);
  const addresses = new Set(dealt === undefined ? [] : FAMILIES.flatMap((family) => dealt[family]));
  const owners = new Set(
    (allocation?.slots ?? []).flatMap(({ node, addresses: own }) =>
      node !== '' && own.some((address) => addresses.has(address)) ? [node] : [],
    ),
  );
  for (const family of FAMILIES) {
    const path = paths?.[family];
    if (path?.kind !== 'node') continue;
    for (const { name, own } of path.nodes) {
      owners.add(name);
      // The address of an interface is known only there.
      if (path.interface === null && own[family] !== null) addresses.add(own[family]);
    }
  }
  return { addresses: [...addresses], owners: [...owners].sort() };
}

/** The addresses that another policy released, of a Fixed policy those that it names. */
function heldFrom({ spec }: EgressPolicy, allocation: Allocation | null): readonly HeldAddress[] {
  const { allocation: kind, fixed } = spec.address;
  const named = FAMILIES.map((family) => namedAddress(fixed, family));
  const held =
    allocation?.gateway.status?.addresses?.filter(({ heldUntil }) => heldUntil !== undefined) ?? [];
  return held.filter(({ address }) => kind !== 'Fixed' || named.includes(address));
}

function allocated(
  paths: EgressPaths | undefined,
  addresses: readonly string[],
  held: readonly HeldAddress[],
): ConditionState {
  const type = 'AddressAllocated';
  const reasons = FAMILIES.flatMap((family) => {
    const path = paths?.[family];
    return path?.kind === 'unavailable' ? [path.reason] : [];
  });
  const used = FAMILIES.flatMap((family) => {
    const path = paths?.[family];
    return path?.kind === 'node' && path.interface !== null ? [path.interface] : [];
  });
  const [only] = used;
  if (addresses.length === 0 && only !== undefined && !reasons.includes('no-address')) {
    const message = `The policy has the addresses of ${only} of its gateway's nodes.`;
    return { type, status: 'True', reason: 'Allocated', message };
  }
  if (addresses.length > 0 && !reasons.includes('no-address'))
    return { type, status: 'True', reason: 'Allocated', message: `The policy has ${addresses.join(', ')}.` };
  if (reasons.includes('no-address') && held.length > 0) {
    const texts = held.slice(0, MOST_SHOWN).map(({ address, heldUntil }) => `${address} until ${heldUntil}`);
    const more = held.length > texts.length ? `, and ${held.length - texts.length} more` : '';
    const message = `Connections of another policy may still use what it released: ${texts.join(', ')}${more}.`;
    return { type, status: 'False', reason: 'AddressHeld', message };
  }
  if (reasons.includes('no-address'))
    return {
      type,
      status: 'False',
      reason: 'AddressesExhausted',
      message: 'The pools have no address left.',
    };
  const reason = reasons.includes('not-ready') ? 'NoReadyNode' : 'NoGateway';
  const message =
    reason === 'NoReadyNode' ? 'No node of the gateway is ready.' : 'There is no gateway that it may use.';
  return { type, status: 'False', reason, message };
}

const MOST_SHOWN = 4;

function realized(
  desired: number,
  failing: readonly (readonly [string, string | null])[],
  owners: readonly (readonly [string, string | null])[],
): ConditionState {
  const type = 'Realized';
  const count = `${desired - failing.length} of ${desired} nodes enforce the policy`;
  const [first] = [...failing, ...owners.filter(([, lack]) => lack !== null)];
  if (first === undefined)
    return { type, status: 'True', reason: desired === 0 ? 'NoNodes' : 'Realized', message: `${count}.` };
  return { type, status: 'False', reason: 'Realizing', message: `${count}; ${first[0]}: ${first[1]}.` };
}

/** Where the pods of a policy are. */
export interface PolicyPods {
  /** In the family that has more of them: a pod may have an address of each. */
  readonly pods: number;
  readonly nodes: ReadonlySet<string>;
}

/**
 * Pods and nodes of each policy, by egressPolicyKey, for destinations on which it decides. One pass
 * over the addresses of all pods.
 */
export function podsOfPolicies({
  sources,
  classes,
  decisions,
}: CompiledEgress): ReadonlyMap<string, PolicyPods> {
  const counts = new Map<string, { v4: number; v6: number; nodes: Set<string> }>();
  for (const [node, own] of sources) {
    for (const [address, id] of own) {
      if (id === null) continue;
      const count = counts.get(id) ?? { v4: 0, v6: 0, nodes: new Set<string>() };
      counts.set(id, count);
      if (address.includes(':')) count.v6++;
      else count.v4++;
      if (node !== '') count.nodes.add(node);
    }
  }
  const found = new Map<string, { pods: number; nodes: Set<string> }>();
  for (const [id, { v4, v6, nodes }] of counts) {
    const one = classes.get(id);
    const policies = new Set<EgressPolicy>();
    for (const { outcome } of [...(one?.ipv4 ?? []), ...(one?.ipv6 ?? [])]) {
      const decision = decisions.get(outcome);
      for (const policy of [decision?.policy ?? null, ...(decision?.audited ?? [])])
        if (policy !== null) policies.add(policy);
    }
    for (const policy of policies) {
      const total = found.get(egressPolicyKey(policy)) ?? { pods: 0, nodes: new Set<string>() };
      found.set(egressPolicyKey(policy), total);
      total.pods += Math.max(v4, v6);
      for (const node of nodes) total.nodes.add(node);
    }
  }
  return found;
}
