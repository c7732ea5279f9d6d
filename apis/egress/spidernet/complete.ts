import type { EgressGateway, EgressObjects, EgressPolicy } from '../objects.ts';
import { SPIDERNET_GROUP } from './kinds.ts';

type Parts = Pick<EgressObjects, 'egressGateways' | 'egressPolicies'>;

/**
 * Completes objects of egressgateway.spidernet.io by what others say of them: the only gateway of
 * v1 is that of all its policies, and gives the addresses that they demand; and a gateway's status
 * has the addresses of policies without a status. Other objects stay the same.
 */
export function completeSpidernet({ egressGateways, egressPolicies }: Parts): Parts {
  return {
    egressGateways: withOnly(egressGateways, egressPolicies),
    egressPolicies: withAddresses(egressGateways, egressPolicies),
  };
}

function withOnly(
  gateways: readonly EgressGateway[],
  policies: readonly EgressPolicy[],
): readonly EgressGateway[] {
  const [only, ...more] = gateways.filter(({ spec }) => spec.defaultIfOnly);
  if (only === undefined || more.length > 0) return gateways;
  const demanded = policies.filter(isOfFirstProposal).flatMap(({ spec }) => {
    const { ipv4, ipv6 } = spec.address.fixed;
    return [ipv4 ?? [], ipv6 ?? []].flat();
  });
  const ranges = only.spec.ranges.length > 0 ? only.spec.ranges : [...new Set(demanded)];
  const source = ranges.length > 0 ? 'Floating' : 'Node';
  const completed: EgressGateway = { ...only, spec: { ...only.spec, default: true, ranges, source } };
  return gateways.map((gateway) => (gateway === only ? completed : gateway));
}

/** EgressGatewayPolicies of v1 name no gateway. */
function isOfFirstProposal({ writtenAs, spec }: EgressPolicy): boolean {
  return writtenAs === 'EgressGatewayPolicy' && spec.gateway === undefined;
}

function withAddresses(
  gateways: readonly EgressGateway[],
  policies: readonly EgressPolicy[],
): readonly EgressPolicy[] {
  const known = new Map<string, readonly string[]>();
  for (const { name: gateway, status } of gateways) {
    for (const { namespace, name, addresses } of status?.policies ?? []) {
      known.set(`${gateway}|${namespace}|${name}`, addresses);
      known.set(`|${namespace}|${name}`, addresses);
    }
  }
  if (known.size === 0) return policies;
  return policies.map((policy) => {
    const { apiGroup, namespace, name, spec, status } = policy;
    const addresses = known.get(`${spec.gateway ?? ''}|${namespace}|${name}`);
    if (apiGroup !== SPIDERNET_GROUP || status !== null || addresses === undefined) return policy;
    return { ...policy, status: { addresses } };
  });
}
