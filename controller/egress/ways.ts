import type { EgressGateway, EgressObjects, EgressPolicy } from '../../apis/egress/objects.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import { addToList, compareText, sameItems } from '../../lib/sharing/lists.ts';
import type { ObjectIndex } from '../index/object-index.ts';
import { canonicalRequirements } from '../index/selector.ts';
import { type Allocation, allocate, type Dealing, type EgressPaths, NO_GATEWAY } from './allocation.ts';
import { egressPolicyKey } from './class.ts';
import { gatewayChooser } from './gateways.ts';

/** The way out that a policy of action Gateway has. */
export interface PolicyWay {
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
