import assert from 'node:assert/strict';
import { type Config, EXEMPTIONS } from '../../apis/config.ts';
import { OWN_NETWORK } from '../../apis/egress/netstate.ts';
import type { Flow } from '../../apis/flow.ts';
import { toMemberSet } from '../../lib/net/member-set.ts';
import { fakeNodeEgress } from '../../test/fake/egress-objects.ts';
import { FLOW, nodeState, OPEN } from '../../test/fake/node-state.ts';
import { policy } from '../../test/kernel/manifests.ts';
import { explain } from './explain.ts';

describe('exemptions', () => {
  const denied = policy('deny', {
    ingress: [{ name: 'in', action: 'Drop' }],
    egress: [{ name: 'out', action: 'Drop' }],
  });
  const nodes = toMemberSet([], ['192.0.2.9']);
  const mac = '0e:00:00:00:00:02';
  const peers = new Map([['g', { node: 'g', address: '192.0.2.9', mac }]]);
  const deny = { ...nodeState(denied), egress: fakeNodeEgress({ nodes, peers }) };
  const echo = { protocol: 'icmpv6', icmpType: 128, interfaceGroup: 10 } as const;
  const end = 'fe80::c00:ff:fe00:2';
  const tunnel = { protocol: 'udp', srcPort: 40_000, dstPort: 7790 } as const;
  const nd = { protocol: 'icmpv6', src: 'fe80::1', dst: 'fe80::2' } as const;
  const cases: readonly (readonly [
    (typeof EXEMPTIONS)[number],
    readonly Partial<Flow>[],
    readonly Partial<Flow>[],
  ])[] = [
    [
      'loopback',
      [
        { src: '127.0.0.1', dst: '127.9.9.9' },
        { src: '192.0.2.1' },
        { src: '::1', dst: '::1' },
        { direction: 'egress', src: '192.0.2.1', dst: '127.0.0.1' },
      ],
      [
        { src: '127.0.0.1', dst: '192.0.2.2' },
        { src: '128.0.0.1', dst: '127.0.0.1' },
        { src: '::2', dst: '::1' },
      ],
    ],
    [
      'neighborDiscovery',
      [133, 134, 135, 136].map((icmpType) => ({ ...nd, icmpType })),
      [{ ...nd, icmpType: 137 }, { ...nd }, { protocol: 'icmp', icmpType: 135 }],
    ],
    [
      'multicastListener',
      [130, 131, 132, 143].map((icmpType) => ({ ...nd, icmpType, direction: 'egress' as const })),
      [
        { ...nd, icmpType: 129 },
        { ...nd, icmpType: 128 },
      ],
    ],
    [
      'dhcpClient',
      [
        { protocol: 'udp', srcPort: 67, dstPort: 68, dst: '255.255.255.255' },
        { protocol: 'udp', srcPort: 68, dstPort: 67, direction: 'egress' },
        { protocol: 'udp', srcPort: 547, dstPort: 546, src: 'fe80::1', dst: 'fe80::2' },
        { protocol: 'udp', srcPort: 546, dstPort: 547, src: 'fe80::1', dst: 'fe80::2', direction: 'egress' },
      ],
      [
        { protocol: 'udp', srcPort: 68, dstPort: 67 },
        { protocol: 'udp', srcPort: 67, dstPort: 68 },
        { protocol: 'udp', srcPort: 547, dstPort: 546, src: 'fe80::1', dst: '2001:db8::2' },
        { protocol: 'udp', srcPort: 67, dstPort: 68, direction: 'egress' },
        { protocol: 'tcp', srcPort: 67, dstPort: 68 },
        { protocol: 'udp', srcPort: 547, dstPort: 546 },
        { protocol: 'udp', srcPort: 67, dstPort: 68, src: 'fe80::1', dst: 'fe80::2' },
      ],
    ],
    [
      'localPods',
      [
        { direction: 'egress', interfaceGroup: 'pods' },
        { direction: 'egress', interfaceGroup: 8 },
      ],
      [{ interfaceGroup: 'pods' }, { direction: 'egress', interfaceGroup: 9 }, { direction: 'egress' }],
    ],
    [
      'egressTunnel',
      [
        { ...tunnel, src: '192.0.2.9' },
        { ...tunnel, direction: 'egress', dst: '192.0.2.9' },
        { ...echo, src: end, dst: 'fe80::1' },
        { ...echo, icmpType: 129, direction: 'egress', src: 'fe80::1', dst: end },
      ],
      [
        { ...tunnel, src: '192.0.2.8' },
        { ...tunnel, src: '192.0.2.9', protocol: 'tcp' },
        { ...tunnel, src: '192.0.2.9', dstPort: 7791 },
        { ...echo, src: 'fe80::2', dst: 'fe80::1' },
        { ...echo, src: end, dst: 'fe80::1', interfaceGroup: 9 },
        { ...echo, src: end, dst: 'fe80::1', icmpType: 127 },
      ],
    ],
  ];
  for (const [name, exempt, not] of cases) {
    it(`${name}: accepted before any policy, unless turned off`, () => {
      const off: Config = { ...OPEN, exemptions: { ...OPEN.exemptions, [name]: false } };
      for (const flow of exempt) {
        const { verdict: found, reason, exemption } = explain(deny, OPEN)({ ...FLOW, ...flow });
        assert.deepEqual([found, reason, exemption], ['Allow', 'exempt', name], JSON.stringify(flow));
        assert.equal(
          explain(deny, off)({ ...FLOW, ...flow }).verdict,
          'Drop',
          `off: ${JSON.stringify(flow)}`,
        );
      }
      for (const flow of not)
        assert.equal(explain(deny, OPEN)({ ...FLOW, ...flow }).verdict, 'Drop', JSON.stringify(flow));
    });
  }
  it('egressTunnel: what carries it, where WireGuard encrypts it', () => {
    const encrypted: Config = { ...OPEN, egress: { ...OPEN.egress, encryption: 'WireGuard' } };
    const [own, other] = ['fd6e:6f64:6577:6c6c::1', 'fd6e:6f64:6577:6c6c::2'];
    for (const flow of [
      { ...tunnel, src: '192.0.2.9', dstPort: 7792 },
      { ...tunnel, direction: 'egress', dst: '192.0.2.9', dstPort: 7792 },
      { ...tunnel, src: other, dst: own, interfaceGroup: OWN_NETWORK.wireguard.group },
      { ...tunnel, direction: 'egress', src: own, dst: other, interfaceGroup: OWN_NETWORK.wireguard.group },
    ] as const) {
      const { exemption } = explain(deny, encrypted)({ ...FLOW, ...flow });
      assert.equal(exemption, 'egressTunnel', JSON.stringify(flow));
      assert.equal(explain(deny, OPEN)({ ...FLOW, ...flow }).verdict, 'Drop', JSON.stringify(flow));
    }
    for (const flow of [
      { ...tunnel, src: '192.0.2.8', dstPort: 7792 },
      { ...tunnel, src: other, dst: own, dstPort: 7792, interfaceGroup: OWN_NETWORK.wireguard.group },
      // In clear, and inside by another device: dropped beside the exemptions.
      { ...tunnel, src: '192.0.2.9' },
      { ...tunnel, src: other, dst: own },
      { ...tunnel, src: other, dst: own, interfaceGroup: 10 },
    ])
      assert.equal(explain(deny, encrypted)({ ...FLOW, ...flow }).verdict, 'Drop', JSON.stringify(flow));
  });

  it('every exemption has a case here', () => {
    assert.deepEqual(
      cases.map(([name]) => name),
      EXEMPTIONS,
    );
  });
});

describe('connections to a NodePort', () => {
  const spec: object = { traffic: 'NodePort', ingress: [{ name: 'in', action: 'Drop' }] };
  const closed = nodeState(
    policy('ports', spec),
    policy('host', { ingress: [{ name: 'in', action: 'Reject' }] }),
  );
  const off = Object.fromEntries(EXEMPTIONS.map((name) => [name, false])) as Config['exemptions'];
  const answer = (flow: Partial<Flow>, config = OPEN) => {
    const {
      verdict,
      policy: name,
      exemption,
    } = explain(closed, config)({ ...FLOW, traffic: 'NodePort', ...flow });
    return [verdict, exemption ?? name].join(' ');
  };

  it('are decided by NodePort rules only, and other traffic by the others', () => {
    assert.equal(answer({}), 'Drop ports');
    assert.equal(answer({ interfaceGroup: 9 }), 'Drop ports');
    assert.equal(answer({ traffic: 'Host' }), 'Reject host');
  });

  it('from local pods and from the Node itself are never decided, with any configuration', () => {
    for (const config of [OPEN, { ...OPEN, exemptions: off }]) {
      assert.equal(answer({ interfaceGroup: 'pods' }, config), 'Allow localPods');
      assert.equal(answer({ interfaceGroup: 8 }, config), 'Allow localPods');
      assert.equal(answer({ src: '192.0.2.1', dst: '203.0.113.9' }, config), 'Allow loopback');
      assert.equal(answer({ src: '127.0.0.1' }, config), 'Allow loopback');
      assert.equal(answer({ src: '192.0.2.2' }, config), 'Drop ports');
    }
  });

  it('are not covered by the failsafe list', () => {
    const config: Config = {
      ...OPEN,
      failsafe: { ingress: [{ protocol: 'tcp', ports: [80, 80], peers: 'any' }], egress: [] },
    };
    assert.equal(answer({}, config), 'Drop ports');
    assert.equal(answer({ traffic: 'Host' }, config), 'Allow ');
  });
});
