import type { PortMatch } from '../../apis/compiled.ts';
import type { NetworkPolicyPort, NetworkPolicyProtocol, Rule } from '../../apis/objects.ts';

/** Protocols with ports: Kubernetes' names to nft's. */
export const NFT_PORT_PROTOCOLS = { TCP: 'tcp', UDP: 'udp', SCTP: 'sctp' } as const;

/**
 * A rule's `ports` and `protocols` as one sorted list without duplicates; empty means all traffic.
 */
export function toServices(rule: Rule): PortMatch[] {
  const services = [
    ...(rule.ports ?? []).map(portService),
    ...(rule.protocols ?? []).flatMap(protocolServices),
  ];
  const unique = new Map(services.map((service) => [JSON.stringify(service), service]));
  return [...unique.keys()].sort().flatMap((key) => unique.get(key) ?? []);
}

function portService({ protocol, port, endPort, sourcePort, sourceEndPort }: NetworkPolicyPort): PortMatch {
  return {
    protocol: NFT_PORT_PROTOCOLS[protocol ?? 'TCP'],
    ...(port === undefined ? {} : { ports: [port, endPort ?? port] as const }),
    ...(sourcePort === undefined ? {} : { sourcePorts: [sourcePort, sourceEndPort ?? sourcePort] as const }),
  };
}

function protocolServices({ icmp, icmpv6, igmp }: NetworkPolicyProtocol): PortMatch[] {
  if (icmp !== undefined) {
    const { icmpType, icmpCode } = icmp;
    if (icmpType === undefined) return [{ protocol: 'icmp' }, { protocol: 'icmpv6' }];
    return [{ protocol: 'icmp', ...typeAndCode(icmpType, icmpCode) }];
  }
  if (icmpv6 !== undefined) return [{ protocol: 'icmpv6', ...typeAndCode(icmpv6.icmpType, icmpv6.icmpCode) }];
  const { igmpType, groupAddress } = igmp ?? {};
  return [
    {
      protocol: 'igmp',
      ...(igmpType === undefined ? {} : { type: igmpType }),
      ...(groupAddress === undefined ? {} : { group: groupAddress }),
    },
  ];
}

function typeAndCode(type: number | undefined, code: number | undefined): { type?: number; code?: number } {
  return { ...(type === undefined ? {} : { type }), ...(code === undefined ? {} : { code }) };
}
