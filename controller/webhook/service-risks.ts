import { overlaps } from '../../apis/difference/ranges.ts';
import type { ClusterNetworkPolicy, Rule, Service } from '../../apis/objects.ts';
import { parseAddress, parseCidr } from '../../lib/net/address.ts';
import { complement, type Range, unionRanges } from '../../lib/net/ranges.ts';
import { formatName } from '../index/service-index.ts';
import { denies, LAST_PORT, tcpPorts } from './closed-probes.ts';
import { placeOf } from './risks.ts';

/**
 * Warns about Services that a policy does not treat as its author may think: the port of a load
 * balancer's health checks is one of the Node itself, and a packet to an external address has
 * another destination when rules see it.
 */
export function serviceWarnings(policy: ClusterNetworkPolicy, services: readonly Service[]): string[] {
  if (policy.spec.mode === 'Audit') return [];
  return [...healthCheckWarnings(policy, services), ...externalAddressWarnings(policy, services)];
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
      isOfNodePorts ? names(rule, range) : denies(rule) && isOpenBefore(rules.slice(0, i), rule, range),
    );
    if (at < 0) return [];
    const what = `TCP ${port}, where load balancers check the Nodes of Service ${formatName(service)}`;
    const place = placeOf('ingress', at);
    return isOfNodePorts
      ? [
          `${place}: does not apply to ${what}: the Node itself answers there, so rules of traffic Host decide`,
        ]
      : [`${place}: closes ${what}, so they take the Node for dead; allow it in a rule before this one`];
  });
}

function names(rule: Rule, range: Range): boolean {
  return (rule.ports ?? []).length > 0 && tcpPorts(rule).some((one) => overlaps([one], range));
}

function isOpenBefore(earlier: readonly Rule[], rule: Rule, range: Range): boolean {
  const allowing = earlier.filter(({ action }) => action === 'Allow' || action === 'Pass');
  const open = complement(unionRanges(allowing.flatMap(tcpPorts)), LAST_PORT);
  return overlaps(open, range) && tcpPorts(rule).some((one) => overlaps([one], range));
}

function externalAddressWarnings({ spec }: ClusterNetworkPolicy, services: readonly Service[]): string[] {
  const holders = new Map<string, Service>();
  for (const service of services)
    for (const address of service.externalAddresses ?? []) holders.set(address, service);
  if (holders.size === 0) return [];
  return (spec.egress ?? []).flatMap(({ to = [] }, rule) =>
    to.flatMap((peer, at) => {
      const address = 'ipBlock' in peer ? singleAddress(peer.ipBlock.cidr) : null;
      const service = address === null ? undefined : holders.get(address);
      if (service === undefined) return [];
      return [
        `${placeOf('egress', rule)}.to[${at}]: is an external address of Service ${formatName(service)}, which kube-proxy ` +
          'exchanges for an endpoint before rules see a packet of the Node; write toServices',
      ];
    }),
  );
}

/** Null: a larger block. */
function singleAddress(text: string): string | null {
  const cidr = parseCidr(text)?.cidr;
  const [address = ''] = text.split('/');
  return cidr !== undefined &&
    cidr.length === (cidr.family === 4 ? 32 : 128) &&
    parseAddress(address) !== null
    ? address
    : null;
}
