import { type EgressGateway, type EgressPolicy, NAMESPACE_GATEWAY_LABEL } from '../../apis/egress/objects.ts';
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
