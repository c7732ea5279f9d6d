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
  /** The name that the policy, or the label of its namespace, asks for; null: neither does. */
  readonly name: string | null;
  /** The label that has the name; null: none does. */
  readonly label: string | null;
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
    const label = policy.spec.gateway === undefined && policy.namespace !== '' ? gatewayLabel(labels) : null;
    const name = policy.spec.gateway ?? (label === null ? null : (labels[label] ?? ''));
    const meant = name === null ? defaults : (byName.get(name) ?? []);
    const own = meant.filter(({ apiGroup }) => apiGroup === policy.apiGroup);
    const [gateway, second] = own.length > 0 ? own : meant;
    if (gateway === undefined || second !== undefined)
      return { gateway: null, isAllowed: false, name, label };
    return { gateway, isAllowed: isAllowed(policy, gateway, labels), name, label };
  };
}

/** The label that names a gateway; null: none. The peers' program takes an empty value for none. */
function gatewayLabel(labels: Labels): string | null {
  const [own] = NAMESPACE_GATEWAY_LABELS;
  const isThere = (key: string): boolean => Object.hasOwn(labels, key) && (key === own || labels[key] !== '');
  return NAMESPACE_GATEWAY_LABELS.find(isThere) ?? null;
}
