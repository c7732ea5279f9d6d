import { isDenial } from '../../apis/compiled.ts';
import { overlaps } from '../../apis/difference/service-space.ts';
import type { ClusterNetworkPolicy, ClusterObjects, IPBlock, Rule, Service } from '../../apis/objects.ts';
import { namedPorts } from '../../apis/validate/service.ts';
import { type Family, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { complement, type Range, subtract, toInterval, union, unionRanges } from '../../lib/net/interval.ts';
import { compareBigInts } from '../../lib/sharing/lists.ts';
import { directPeers, type FamilyOf } from '../compile/address-set.ts';
import type { LeftOutEndpoints } from '../compile/service-set.ts';
import { formatName, groupIndex, knownFamily } from '../index/name-index.ts';
import { LAST_PORT, rulePath, tcpPorts } from './risks.ts';

type ServiceRiskObjects = Pick<ClusterObjects, 'services' | 'groups'>;

/**
 * Warns about Services that a policy does not treat as its author may think: the port of a load
 * balancer's health checks is one of the Node itself, and a packet to an external address has
 * another destination when rules see it.
 */
export function serviceWarnings(policy: ClusterNetworkPolicy, objects: ServiceRiskObjects): string[] {
  if (policy.spec.mode === 'Audit') return [];
  return [...healthCheckWarnings(policy, objects.services), ...externalAddressWarnings(policy, objects)];
}

/** Ports that an earlier rule of the policy allows, or passes, are taken as thought of. */
function healthCheckWarnings({ spec }: ClusterNetworkPolicy, services: readonly Service[]): string[] {
  const rules = spec.ingress ?? [];
  const isOfNodePorts = spec.traffic === 'NodePort';
  return services.flatMap((service) => {
    const port = service.healthCheckNodePort;
    if (port === undefined) return [];
    const range: Range = [port, port];
    const at = rules.findIndex((rule, i) =>
      isOfNodePorts
        ? names(rule, range)
        : isDenial(rule.action) && isOpenBefore(rules.slice(0, i), rule, range),
    );
    if (at < 0) return [];
    const what = `TCP ${port}, where load balancers check the Nodes of Service ${formatName(service)}`;
    const place = rulePath('ingress', at);
    return isOfNodePorts
      ? [
          `${place}: does not apply to ${what}: the Node itself answers there, so rules of traffic Host decide`,
        ]
      : [`${place}: closes ${what}, so they take the Node for dead; allow it in a rule before this one`];
  });
}

function names(rule: Rule, range: Range): boolean {
  return namedPorts(rule).length > 0 && tcpPorts(rule).some((one) => overlaps([one], range));
}

function isOpenBefore(earlier: readonly Rule[], rule: Rule, range: Range): boolean {
  const allowing = earlier.filter(({ action }) => action === 'Allow' || action === 'Pass');
  const open = complement(unionRanges(allowing.flatMap(tcpPorts)), LAST_PORT);
  return overlaps(open, range) && tcpPorts(rule).some((one) => overlaps([one], range));
}

interface ExternalAddress {
  readonly family: Family;
  readonly value: bigint;
  readonly text: string;
  readonly service: Service;
}

/** Blocks of every address are not meant for one Service; they have its endpoints too. */
function externalAddressWarnings(
  { spec, apiGroup }: ClusterNetworkPolicy,
  { services, groups }: ServiceRiskObjects,
): string[] {
  const addresses = externalAddresses(services);
  if (addresses.length === 0) return [];
  const index = groupIndex(groups);
  const familyOf: FamilyOf = (name) => knownFamily(index, name, apiGroup);
  return (spec.egress ?? []).flatMap(({ to = [] }, rule) =>
    to.flatMap((peer, at) => {
      const blocks = directPeers([peer], familyOf).flatMap((one) => ('ipBlock' in one ? [one.ipBlock] : []));
      const found = firstInside(blocks, addresses);
      if (found === null) return [];
      const what = 'group' in peer ? `ClusterGroup ${peer.group} has` : 'has';
      return [
        `${rulePath('egress', rule)}.to[${at}]: ${what} ${found.text}, an external address of Service ${formatName(found.service)}, ` +
          'which kube-proxy exchanges for an endpoint before rules see a packet of the Node; write toServices',
      ];
    }),
  );
}

/** Sorted by family and value. */
function externalAddresses(services: readonly Service[]): ExternalAddress[] {
  return services
    .flatMap((service) =>
      (service.externalAddresses ?? []).flatMap((text) => {
        const address = parseAddress(text);
        return address === null ? [] : [{ ...address, text, service }];
      }),
    )
    .sort((a, b) => a.family - b.family || compareBigInts(a.value, b.value));
}

function firstInside(
  blocks: readonly IPBlock[],
  addresses: readonly ExternalAddress[],
): ExternalAddress | null {
  for (const { cidr: text, except = [] } of blocks) {
    const cidr = parseCidr(text)?.cidr;
    if (cidr === undefined || cidr.length === 0) continue;
    const holes = except.flatMap((hole) => parseCidr(hole)?.cidr ?? []).map(toInterval);
    for (const { first, last } of subtract([toInterval(cidr)], union(holes))) {
      const found = addresses[firstAtLeast(addresses, cidr.family, first)];
      if (found?.family === cidr.family && found.value <= last) return found;
    }
  }
  return null;
}

/** Index of the first address that is no less. */
function firstAtLeast(addresses: readonly ExternalAddress[], family: Family, value: bigint): number {
  let [low, high] = [0, addresses.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const one = addresses[middle];
    const isLess = one !== undefined && (one.family < family || (one.family === family && one.value < value));
    if (isLess) low = middle + 1;
    else high = middle;
  }
  return low;
}

const MOST_SHOWN = 3;

/** Warns about Services of toServices with endpoints that do not count, as no pod has them. */
export function leftOutEndpointWarnings(
  { spec: { egress = [] } }: ClusterNetworkPolicy,
  leftOut: LeftOutEndpoints,
): string[] {
  return egress.flatMap(({ toServices = [] }, rule) =>
    toServices.flatMap((service, at) => {
      const name = formatName(service);
      const addresses = leftOut.get(name);
      if (addresses === undefined) return [];
      const more = addresses.length > MOST_SHOWN ? ` and ${addresses.length - MOST_SHOWN} more` : '';
      return [
        `${rulePath('egress', rule)}.toServices[${at}]: no pod of the namespace has these endpoints of ${name}, which are left ` +
          `out: ${addresses.slice(0, MOST_SHOWN).join(', ')}${more}; if the Service is right, list it in endpointsWithoutPods of the configuration`,
      ];
    }),
  );
}
