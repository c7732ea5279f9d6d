import { endpoint, type Family, nftShape, type Surroundings, type Way } from './passed-by.ts';

/**
 * Rules of the shape that kube-proxy's nftables mode gives them (pkg/proxy/nftables): a table a
 * family, verdict maps by address and port.
 */
export const kubeProxyNftables = nftShape(
  'kube-proxy, nftables',
  ['nodePort', 'loadBalancer', 'externalIP'],
  kubeProxyTable,
);

/** kube-proxy's default masquerade bit, 14. */
const MARK = '0x4000';

function kubeProxyTable(
  family: Family,
  ways: readonly Way[],
  { nodeAddresses, podCidr }: Surroundings,
): string {
  const [ip, type] = family === 4 ? (['ip', 'ipv4_addr'] as const) : (['ip6', 'ipv6_addr'] as const);
  const outside = ways.filter(({ kind }) => kind !== 'nodePort');
  const byAddress = [
    ...ways.map((way) => [way.clusterIP, way.protocol, way.clusterPort, `goto service-${way.name}`]),
    ...outside.map((way) => [way.address, way.protocol, way.port, `goto external-${way.name}`]),
  ].map(([address, protocol, port, verdict]) => `${address} . ${protocol} . ${port} : ${verdict}`);
  const nodePorts = ways
    .filter(({ kind }) => kind === 'nodePort')
    .map(({ protocol, port, name }) => `${protocol} . ${port} : goto external-${name}`);
  const serviceChains = ways.map((way) => {
    const choice = `numgen random mod 1 vmap { 0 : goto endpoint-${way.name} }`;
    const external = way.masqueraded
      ? `jump mark-for-masquerade; goto service-${way.name}`
      : `${ip} saddr ${podCidr[family]} goto service-${way.name}
       fib saddr type local jump mark-for-masquerade
       fib saddr type local goto service-${way.name}
       ${choice}`;
    return `
  chain service-${way.name} {
    ${ip} daddr ${way.clusterIP} ${ip} saddr != ${podCidr[family]} jump mark-for-masquerade
    ${choice}
  }
  chain external-${way.name} {
    ${external}
  }
  chain endpoint-${way.name} {
    ${ip} saddr ${way.pod} jump mark-for-masquerade
    meta l4proto ${way.protocol} dnat to ${endpoint(way.pod, way.podPort)}
  }`;
  });
  const clusterIPs = [...new Set(ways.map(({ clusterIP }) => clusterIP))];
  return `table ${ip} kube-proxy {
  set cluster-ips { type ${type}; elements = { ${clusterIPs.join(', ')} } }
  set nodeport-ips { type ${type}; elements = { ${nodeAddresses[family].join(', ')} } }
  map service-ips {
    type ${type} . inet_proto . inet_service : verdict
    elements = { ${byAddress.join(', ')} }
  }
  map service-nodeports {
    type inet_proto . inet_service : verdict
    elements = { ${nodePorts.join(', ')} }
  }
  chain nat-prerouting { type nat hook prerouting priority dstnat; jump services; }
  chain nat-output { type nat hook output priority -100; jump services; }
  chain nat-postrouting { type nat hook postrouting priority srcnat; jump masquerading; }
  chain filter-forward { type filter hook forward priority 0; ct state new jump cluster-ips-check; }
  chain filter-output { type filter hook output priority 0; ct state new jump cluster-ips-check; }
  chain cluster-ips-check { ${ip} daddr @cluster-ips reject; }
  chain services {
    ${ip} daddr . meta l4proto . th dport vmap @service-ips
    ${ip} daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports
  }
  chain mark-for-masquerade { meta mark set meta mark or ${MARK}; }
  chain masquerading {
    meta mark and ${MARK} == 0 return
    meta mark set meta mark xor ${MARK}
    masquerade fully-random
  }${serviceChains.join('')}
}
`;
}

/**
 * Rules of the shape that the CNI plugin portmap gives them since 1.6 where it is told to use
 * nftables: a table `cni_hostport` for each family.
 */
export const portmapNftables = nftShape('portmap, nftables', ['hostPort', 'hostPortOfAddress'], portmapTable);

function portmapTable(family: Family, ways: readonly Way[], { podCidr }: Surroundings): string {
  const ip = family === 4 ? 'ip' : 'ip6';
  const rule = ({ kind, address, protocol, port, pod, podPort }: Way) =>
    `${kind === 'hostPort' ? '' : `${ip} daddr ${address} `}meta l4proto ${protocol} th dport ${port} dnat to ${endpoint(pod, podPort)}`;
  const rules = (kind: Way['kind']) => ways.filter((way) => way.kind === kind).map(rule);
  return `table ${ip} cni_hostport {
  chain prerouting {
    type nat hook prerouting priority -100;
    jump hostip_hostports
    fib daddr type local jump hostports
  }
  chain output {
    type nat hook output priority -100;
    jump hostip_hostports
    fib daddr type local jump hostports
  }
  chain masquerading {
    type nat hook postrouting priority 100;
    ${ip} saddr ${podCidr[family]} ${ip} daddr ${podCidr[family]} ct status dnat masquerade
  }
  chain hostip_hostports {
    ${rules('hostPortOfAddress').join('\n    ')}
  }
  chain hostports {
    ${rules('hostPort').join('\n    ')}
  }
}
`;
}
