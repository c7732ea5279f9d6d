import {
  type EgressGateway,
  type EgressPolicy,
  NAMESPACE_GATEWAY_LABELS,
} from '../../apis/egress/objects.ts';
import type { Labels } from '../../apis/objects.ts';
import { memo } from '../../lib/sharing/memo.ts';
import { allHold, canonicalRequirements } from '../index/selector.ts';
import { compareText } from './order.ts';

/** Finds the gateways of policies. */
export interface GatewayLookup {
  /**
   * The gateway that the policy names, else that of its namespace's label, else the default one.
   * Null: there is none of that name, or the policy's namespace may not use it.
   *
   * @param labels of the policy's namespace
   */
  of(policy: EgressPolicy, labels: Labels): EgressGateway | null;
}

/** A name means the gateway of the policy's own API group, if there is one, else of the other. */
export function gatewayLookup(gateways: readonly EgressGateway[]): GatewayLookup {
  const ordered = gateways.toSorted(
    (a, b) => compareText(a.name, b.name) || compareText(a.apiGroup, b.apiGroup),
  );
  const requirementsOf = memo(canonicalRequirements);
  const mayUse = ({ namespace }: EgressPolicy, { spec }: EgressGateway, labels: Labels): boolean => {
    if (namespace === '') return true;
    return spec.allowedNamespaces !== null && allHold(requirementsOf(spec.allowedNamespaces), labels);
  };
  const ownFirst = (
    { apiGroup }: EgressPolicy,
    fits: (gateway: EgressGateway) => boolean,
  ): EgressGateway | undefined =>
    ordered.find((gateway) => gateway.apiGroup === apiGroup && fits(gateway)) ?? ordered.find(fits);
  return {
    of(policy, labels) {
      const name = policy.spec.gateway ?? (policy.namespace === '' ? undefined : labelledGateway(labels));
      const gateway = ownFirst(policy, (one) => (name === undefined ? one.spec.default : one.name === name));
      return gateway !== undefined && mayUse(policy, gateway, labels) ? gateway : null;
    },
  };
}

/** Undefined: no label. The peers' program takes an empty value for none. */
function labelledGateway(labels: Labels): string | undefined {
  const [own, ...peers] = NAMESPACE_GATEWAY_LABELS;
  if (Object.hasOwn(labels, own)) return labels[own];
  return peers.map((key) => (Object.hasOwn(labels, key) ? labels[key] : '')).find((name) => name !== '');
}
