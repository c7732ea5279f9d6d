import assert from 'node:assert/strict';
import type { PortMatch } from '../../apis/compiled.ts';
import type { NetworkPolicyPort, NetworkPolicyProtocol } from '../../apis/objects.ts';
import { toServices } from './service-set.ts';

const PORTS: readonly [NetworkPolicyPort, PortMatch][] = [
  [{}, { protocol: 'tcp' }],
  [{ protocol: 'UDP' }, { protocol: 'udp' }],
  [{ port: 80 }, { protocol: 'tcp', ports: [80, 80] }],
  [
    { protocol: 'SCTP', port: 80, endPort: 90 },
    { protocol: 'sctp', ports: [80, 90] },
  ],
  [{ sourcePort: 53 }, { protocol: 'tcp', sourcePorts: [53, 53] }],
  [
    { port: 1, sourcePort: 2, sourceEndPort: 3 },
    { protocol: 'tcp', ports: [1, 1], sourcePorts: [2, 3] },
  ],
];
const PROTOCOLS: readonly [NetworkPolicyProtocol, PortMatch[]][] = [
  [{ icmp: {} }, [{ protocol: 'icmp' }, { protocol: 'icmpv6' }]],
  [{ icmp: { icmpType: 8 } }, [{ protocol: 'icmp', type: 8 }]],
  [{ icmp: { icmpType: 3, icmpCode: 0 } }, [{ protocol: 'icmp', type: 3, code: 0 }]],
  [{ icmpv6: {} }, [{ protocol: 'icmpv6' }]],
  [{ icmpv6: { icmpType: 128, icmpCode: 0 } }, [{ protocol: 'icmpv6', type: 128, code: 0 }]],
  [{ igmp: {} }, [{ protocol: 'igmp' }]],
  [
    { igmp: { igmpType: 22, groupAddress: '224.0.0.22' } },
    [{ protocol: 'igmp', type: 22, group: '224.0.0.22' }],
  ],
  [{ protocol: 'vrrp' }, [{ protocol: 112 }]],
  [{ protocol: 253 }, [{ protocol: 253 }]],
  [{ protocol: 'ospf', groupAddress: 'FF02:0:0::5' }, [{ protocol: 89, group: 'ff02::5' }]],
  // Those that have an item of their own are that item, for which older agents have a name.
  [{ protocol: 'tcp' }, [{ protocol: 'tcp' }]],
  [{ protocol: 132 }, [{ protocol: 'sctp' }]],
  [{ protocol: 1 }, [{ protocol: 'icmp' }]],
  [{ protocol: 58 }, [{ protocol: 'icmpv6' }]],
  [{ protocol: 2, groupAddress: '224.0.0.22' }, [{ protocol: 'igmp', group: '224.0.0.22' }]],
];

describe('toServices', () => {
  for (const [port, service] of PORTS) {
    it(JSON.stringify(port), () =>
      assert.deepEqual(toServices({ action: 'Drop', ports: [port] }), [service]),
    );
  }
  for (const [protocol, services] of PROTOCOLS) {
    it(JSON.stringify(protocol), () => {
      assert.deepEqual(toServices({ action: 'Drop', protocols: [protocol] }), services);
    });
  }

  it('sorts ports and protocols together, without duplicates', () => {
    const ports = [{ port: 80 }, { protocol: 'TCP', port: 80, endPort: 80 }, { port: 22 }] as const;
    const services = toServices({ action: 'Drop', ports, protocols: [{ igmp: {} }] });
    const reversed = toServices({ action: 'Drop', ports: ports.toReversed(), protocols: [{ igmp: {} }] });
    assert.equal(services.length, 3);
    assert.deepEqual(reversed, services);
  });

  it('returns none for absent and empty lists', () => {
    assert.deepEqual(toServices({ action: 'Drop' }), []);
    assert.deepEqual(toServices({ action: 'Drop', ports: [], protocols: [] }), []);
  });
});
