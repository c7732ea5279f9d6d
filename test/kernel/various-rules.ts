import { cidr, policy, tcp, udp } from './manifests.ts';

/** Sets of both kinds, single ports, ranges, both directions. */
export function variousRules(): object {
  const hosts = Array.from({ length: 8 }, (_, i) => cidr(`192.0.2.${i * 3 + 1}/32`));
  const nets = Array.from({ length: 8 }, (_, i) => cidr(`10.${i * 3 + 1}.0.0/${16 + i}`));
  return policy('various', {
    ingress: [
      { name: 'hosts', action: 'Allow', from: hosts, ports: [tcp(22), tcp(4321)] },
      { name: 'nets', action: 'Reject', from: nets, ports: [tcp(1000, 2000), udp(53)] },
      {
        name: 'v6',
        action: 'Drop',
        from: [cidr('2001:db8::/48'), cidr('2001:db8:1::1/128')],
        ports: [udp(53)],
      },
      { name: 'deny', action: 'Drop', ports: [tcp(22)] },
    ],
    egress: [{ name: 'out', action: 'Drop', to: nets, ports: [tcp(25)] }],
  });
}
