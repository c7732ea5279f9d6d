import {
  EGRESS_STAGES,
  type EgressGateway,
  type EgressGatewayStatus,
  type EgressPolicy,
  type HeldAddress,
} from '../../apis/egress/objects.ts';
import type { Pod } from '../../apis/objects.ts';
import { compareText } from '../../lib/sharing/lists.ts';

/**
 * The total order of policies (docs/egress.md): stage, priority, name. Policies that are equal so
 * far are of different namespaces and never select one pod; the namespace makes the order total.
 */
export function compareEgressPolicies(a: EgressPolicy, b: EgressPolicy): number {
  return (
    EGRESS_STAGES.indexOf(a.spec.stage) - EGRESS_STAGES.indexOf(b.spec.stage) ||
    a.spec.priority - b.spec.priority ||
    compareText(a.name, b.name) ||
    compareText(a.namespace, b.namespace)
  );
}

/** `namespace/name` of an EgressPolicy, the name of a ClusterEgressPolicy. */
export function egressPolicyText({ namespace, name }: Pick<EgressPolicy, 'namespace' | 'name'>): string {
  return namespace === '' ? name : `${namespace}/${name}`;
}

export function comparePods(a: Pod, b: Pod): number {
  return compareText(a.namespace, b.namespace) || compareText(a.name, b.name);
}

/** A possible holder of an address: a policy, or the gateway for its Shared policies. */
type Holder = EgressPolicy | EgressGateway;

/**
 * Names a holder in the status: `namespace/name` or `name` of a policy; '' of the gateway. A policy
 * that is created again under its name is the same holder.
 */
export function holderName(holder: Holder): string {
  return holder.kind === 'EgressGateway' ? '' : egressPolicyText(holder);
}

/** The holder of each address of a gateway, or its last one, as the status says. */
export class HolderRecords {
  readonly #nameOf: ReadonlyMap<string, string>;
  readonly #byName: ReadonlyMap<string, readonly HeldAddress[]>;

  constructor(status: EgressGatewayStatus | null) {
    const records = status?.addresses ?? [];
    this.#nameOf = new Map(records.map(({ address, policy }) => [address, policy]));
    this.#byName = Map.groupBy(records, ({ policy }) => policy);
  }

  isOfAnother(address: string, by: Holder): boolean {
    const name = this.#nameOf.get(address);
    return name !== undefined && name !== holderName(by);
  }

  /** Those that the policy has: of a Shared one those of the gateway. */
  inUse(policy: EgressPolicy): readonly string[] {
    const name = policy.spec.address.allocation === 'Shared' ? '' : holderName(policy);
    const own = this.#byName.get(name) ?? [];
    return own.flatMap(({ address, heldUntil }) => (heldUntil === undefined ? address : []));
  }

  /** Those that it has before those that it had. */
  ofHolder(holder: Holder): readonly string[] {
    const own = this.#byName.get(holderName(holder)) ?? [];
    const isReleased = ({ heldUntil }: HeldAddress): boolean => heldUntil !== undefined;
    const ordered = [...own.filter((one) => !isReleased(one)), ...own.filter(isReleased)];
    return ordered.map(({ address }) => address);
  }
}
