import {
  type EgressGateway,
  type EgressObjects,
  type EgressPolicy,
  NAMESPACE_GATEWAY_LABEL,
} from '../../apis/egress/objects.ts';
import type { ClusterObjects, Labels } from '../../apis/objects.ts';
import { addToList, compareText, sameItems } from '../../lib/sharing/lists.ts';
import { memo } from '../../lib/sharing/memo.ts';
import type { ObjectIndex } from '../index/object-index.ts';
import { allHold, canonicalRequirements } from '../index/selector.ts';
import { type Allocation, allocate, type Dealing, type EgressPaths, NO_GATEWAY } from './allocation.ts';
import { egressPolicyKey } from './class.ts';

/** The way out that a policy of action Gateway has. */
interface PolicyWay {
  /** The one that the policy means, even if it may not use it; null: there is none. */
  readonly gateway: EgressGateway | null;
  readonly paths: EgressPaths;
}

export interface Ways {
  /** By egressPolicyKey: policies of action Gateway, without those in mode Audit. */
  readonly ways: ReadonlyMap<string, PolicyWay>;
  /** Sorted by name. */
  readonly allocations: readonly Allocation[];
}

type WayParts = Pick<ClusterObjects, 'nodes' | 'namespaces'> & EgressObjects;

/** Follows the gateways of policies, and what these give them, over successive states. */
export class WayIndex {
  readonly #index: ObjectIndex;
  readonly #dealing: Dealing;
  #parts: readonly (readonly object[])[] = [];
  #ways: Ways = { ways: new Map(), allocations: [] };

  /** @param index in the state of the objects of each `advance` */
  constructor(index: ObjectIndex, dealing: Dealing) {
    this.#dealing = dealing;
    this.#index = index;
  }

  /**
   * Returns the same object if nothing changed; the allocation of a gateway without a change is the
   * same.
   *
   * @param ordered the policies in evaluation order; versions of a status may be older
   */
  advance(objects: WayParts, ordered: readonly EgressPolicy[]): Ways {
    const { egressGateways, egressPolicies, nodes, namespaces } = objects;
    const parts = [egressGateways, egressPolicies, nodes, namespaces];
    if (sameItems(parts, this.#parts)) return this.#ways;
    this.#parts = parts;
    const current = new Map(egressPolicies.map((policy) => [egressPolicyKey(policy), policy]));
    const policies = ordered.flatMap((policy) => current.get(egressPolicyKey(policy)) ?? []);
    const { users, ways } = this.#chosen(egressGateways, policies);
    const known = new Map(this.#ways.allocations.map((one) => [one.gateway, one]));
    const gateways = egressGateways.toSorted((a, b) => compareText(a.name, b.name));
    const allocations = gateways.map((gateway) =>
      this.#allocation(gateway, users.get(gateway) ?? [], known.get(gateway)),
    );
    for (const { gateway, paths } of allocations) {
      for (const [policy, own] of paths) ways.set(egressPolicyKey(policy), { gateway, paths: own });
    }
    this.#ways = { ways, allocations };
    return this.#ways;
  }

  /** The policies that each gateway takes, and the ways of those that none takes. */
  #chosen(gateways: readonly EgressGateway[], policies: readonly EgressPolicy[]) {
    const choose = gatewayChooser(gateways);
    const users = new Map<EgressGateway, EgressPolicy[]>();
    const ways = new Map<string, PolicyWay>();
    for (const policy of policies) {
      if (policy.spec.action !== 'Gateway' || policy.spec.mode === 'Audit') continue;
      const { gateway, isAllowed } = choose(policy, this.#index.namespaceLabels(policy.namespace));
      if (gateway === null || !isAllowed) ways.set(egressPolicyKey(policy), { gateway, paths: NO_GATEWAY });
      else addToList(users, gateway, policy);
    }
    return { users, ways };
  }

  #allocation(
    gateway: EgressGateway,
    policies: readonly EgressPolicy[],
    before: Allocation | undefined,
  ): Allocation {
    const nodes = this.#index.selectNodes(canonicalRequirements(gateway.spec.nodeSelector));
    const isKept =
      before !== undefined && sameItems(before.policies, policies) && sameItems(before.nodes, nodes);
    return isKept ? before : allocate(gateway, nodes, policies, this.#dealing);
  }
}

interface GatewayChoice {
  /** The one that the policy means; null: there is none. */
  readonly gateway: EgressGateway | null;
  /** Whether policies of the policy's namespace may use it. */
  readonly isAllowed: boolean;
  /** The name that the policy, or the label of its namespace, asks for; null: neither does. */
  readonly name: string | null;
  /** The label that has the name; null: none does. */
  readonly label: string | null;
}

/**
 * Finds the gateway of a policy: the one that it names, else that of its namespace's label, else
 * the default one. Two defaults are none: validation refuses them.
 *
 * @returns a function of the policy and of the labels of its namespace
 */
export function gatewayChooser(
  gateways: readonly EgressGateway[],
): (policy: EgressPolicy, labels: Labels) => GatewayChoice {
  const requirementsOf = memo(canonicalRequirements);
  const byName = Map.groupBy(gateways, ({ name }) => name);
  const defaults = gateways.filter(({ spec }) => spec.default);
  const isAllowed = ({ namespace }: EgressPolicy, { spec }: EgressGateway, labels: Labels): boolean => {
    if (namespace === '') return true;
    return spec.allowedNamespaces !== null && allHold(requirementsOf(spec.allowedNamespaces), labels);
  };
  return (policy, labels) => {
    const label = policy.spec.gateway === undefined && policy.namespace !== '' ? gatewayLabel(labels) : null;
    const name = policy.spec.gateway ?? (label === null ? null : (labels[label] ?? ''));
    const meant = name === null ? defaults : (byName.get(name) ?? []);
    const [gateway, second] = meant;
    if (gateway === undefined || second !== undefined)
      return { gateway: null, isAllowed: false, name, label };
    return { gateway, isAllowed: isAllowed(policy, gateway, labels), name, label };
  };
}

/** The label, if the namespace has it; else null. */
function gatewayLabel(labels: Labels): string | null {
  return Object.hasOwn(labels, NAMESPACE_GATEWAY_LABEL) ? NAMESPACE_GATEWAY_LABEL : null;
}
