import type { Labels } from '../manifest.ts';
import { selects } from '../selector.ts';
import type { Gateway, Policy } from './egress-objects.ts';

/**
 * The labels of a Namespace that name the gateway of its EgressPolicies; the first counts. The
 * others are those of egressgateway, for its own policies.
 */
const LABELS = [
  'nodewall.io/egress-gateway',
  'spidernet.io/egressgateway-default',
  'egressgateway.spidernet.io/default',
];

/** The gateway that a policy means, and whether the policy may use it. */
export interface Choice {
  readonly gateway: Gateway | undefined;
  readonly isAllowed: boolean;
}

/**
 * By the policy's own name of it, else the label of its namespace, else the default. A name or
 * label without such a gateway does not fall back.
 */
export function gatewayOf(
  policy: Policy,
  gateways: readonly Gateway[],
  labelsOfNamespace: (name: string) => Labels,
): Choice {
  const { namespace, apiGroup } = policy;
  const labels = namespace === undefined ? {} : labelsOfNamespace(namespace);
  const known = apiGroup === 'nodewall.io' ? LABELS.slice(0, 1) : LABELS;
  const label = known.find((key) => labels[key] !== undefined);
  const named = policy.gateway ?? (label === undefined ? undefined : labels[label]);
  const meant = gateways.filter(({ name, isDefault }) => (named === undefined ? isDefault : name === named));
  // As tiers and groups are found: in the policy's own API group first.
  const own = meant.filter((gateway) => gateway.apiGroup === apiGroup);
  const [gateway, second] = own.length > 0 ? own : meant;
  // Two defaults are refused; where they are there anyway, neither is the default.
  if (gateway === undefined || second !== undefined) return { gateway: undefined, isAllowed: false };
  const { allowedNamespaces } = gateway;
  const isAllowed =
    namespace === undefined || (allowedNamespaces !== undefined && selects(allowedNamespaces, labels));
  return { gateway, isAllowed };
}
