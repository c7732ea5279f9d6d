/**
 * Rules of the shape that the CNI plugin portmap gives them since 1.6 where it is told to use
 * nftables: a table `cni_hostport` for each family.
 */
import { endpoint, type Family, nftShape, type Surroundings, type Way } from './passed-by.ts';

export const portmapNftables = nftShape('portmap, nftables', ['hostPort', 'hostPortOfAddress'], table);

function table(family: Family, ways: readonly Way[], { podCidr }: Surroundings): string {
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
