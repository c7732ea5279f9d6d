import {
  type EgressGateway,
  type EgressPolicy,
  NAMESPACE_GATEWAY_LABELS,
} from '../../apis/egress/objects.ts';
import type { Labels } from '../../apis/objects.ts';
import { memo } from '../../lib/sharing/memo.ts';
import { allHold, canonicalRequirements } from '../index/selector.ts';

export interface GatewayChoice {
  /** The one that the policy means; null: there is none. */
  readonly gateway: EgressGateway | null;
  /** Whether policies of the policy's namespace may use it. */
  readonly isAllowed: boolean;
}

/**
 * Finds the gateway of a policy: the one that it names, else that of its namespace's label, else
 * the default one. A name means the gateway of the policy's own API group, if there is one, else of
 * the other. Two defaults are none: validation refuses them.
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
    const name = policy.spec.gateway ?? (policy.namespace === '' ? undefined : labelledGateway(labels));
    const meant = name === undefined ? defaults : (byName.get(name) ?? []);
    const own = meant.filter(({ apiGroup }) => apiGroup === policy.apiGroup);
    const [gateway, second] = own.length > 0 ? own : meant;
    if (gateway === undefined || second !== undefined) return { gateway: null, isAllowed: false };
    return { gateway, isAllowed: isAllowed(policy, gateway, labels) };
  };
}

/** Undefined: no label. The peers' program takes an empty value for none. */
function labelledGateway(labels: Labels): string | undefined {
  const [own, ...peers] = NAMESPACE_GATEWAY_LABELS;
  if (Object.hasOwn(labels, own)) return labels[own];
  return peers.map((key) => (Object.hasOwn(labels, key) ? labels[key] : '')).find((name) => name !== '');
}
