import assert from 'node:assert/strict';
import { entryText, MOST_PLATFORM_ENTRIES } from '../../apis/platform.ts';
import { type KernelFacts, NO_KERNEL_FACTS, type PlatformLink, platformEntries } from './platform-facts.ts';
import { PLATFORM_PROGRAMS } from './platform-programs.ts';

const link = (kind: string, tunnelPort?: number, isUp = true): PlatformLink => {
  return { index: 1, name: `${kind}0`, kind, isUp, ...(tunnelPort === undefined ? {} : { tunnelPort }) };
};
/** The entries as text: with peers that are not `nodes`, and with a direction. */
const texts = (facts: Partial<KernelFacts>): string[] =>
  platformEntries({ ...NO_KERNEL_FACTS, ...facts }).map((entry) => {
    const peers = typeof entry.peers === 'string' ? '' : ` of ${entry.peers.join(' ')}`;
    const direction = entry.direction === undefined ? '' : ` ${entry.direction}`;
    return `${entryText(entry)}${peers}${direction}: ${entry.reason}`;
  });

describe('platformEntries', () => {
  const LINKS: readonly [PlatformLink, readonly string[]][] = [
    [link('vxlan', 8472), ['UDP 8472: vxlan vxlan0']],
    [link('geneve', 6081), ['UDP 6081: geneve geneve0']],
    [link('ipip'), ['IPIP: ipip ipip0']],
    [link('sit'), ['IPV6: sit sit0']],
    [link('ip6tnl'), ['IPIP: ip6tnl ip6tnl0', 'IPV6: ip6tnl ip6tnl0']],
    ...['gre', 'gretap', 'erspan', 'ip6gre', 'ip6gretap', 'ip6erspan'].map(
      (kind): [PlatformLink, string[]] => [link(kind), [`GRE: ${kind} ${kind}0`]],
    ),
    [link('ipip', 5555), ['UDP 5555: ipip ipip0']],
    [link('veth'), []],
    [link('vxlan', 8472, false), []],
    [link('ipip', undefined, false), []],
    // The tunnel of egress gateways.
    [link('vxlan', 7790), []],
  ];
  for (const [one, wanted] of LINKS)
    it(`has ${wanted.length} for ${JSON.stringify(one)}`, () =>
      assert.deepEqual(texts({ links: [one] }).sort(), [...wanted].sort()));

  it("has WireGuard's port, its peers, and their ports where these are others", () => {
    const endpoints = [
      { address: '192.0.2.1', port: 51820 },
      { address: '192.0.2.2', port: 7 },
      { address: 'fd00::2', port: 7 },
    ];
    assert.deepEqual(texts({ wireGuard: [{ name: 'wg0', port: 51820, endpoints }] }).sort(), [
      'UDP 51820 of 192.0.2.1 192.0.2.2 fd00::2: wireguard wg0',
      'UDP 51820: wireguard wg0',
      'UDP 7 of 192.0.2.2 fd00::2 egress: wireguard wg0',
    ]);
    assert.deepEqual(texts({ wireGuard: [{ name: 'own', port: 7792, endpoints }] }), []);
  });

  it('has IPsec by states, and by a program that negotiates keys', () => {
    const ports = ['AH', 'ESP', 'UDP 4500', 'UDP 500'];
    const found = (facts: Partial<KernelFacts>) =>
      texts(facts)
        .map((text) => text.split(':')[0])
        .sort();
    assert.deepEqual(found({ hasIpsecStates: true }), ports);
    assert.deepEqual(found({ sockets: [{ protocol: 'udp', port: 500 }] }), ports);
    assert.deepEqual(found({ sockets: [{ protocol: 'udp', port: 4500 }] }), ['UDP 4500']);
    assert.deepEqual(found({ sockets: [{ protocol: 'tcp', port: 500 }] }), []);
  });

  it('has routing protocols', () => {
    const groups = 'VRRP of 224.0.0.18/32 ff02::12/128 egress: VRRP, a raw socket';
    const wanted = ['TCP 179: BGP', 'UDP 3784: BFD', groups, 'VRRP: VRRP, a raw socket'];
    const bfd = { protocol: 'udp', port: 3784 } as const;
    assert.deepEqual(texts({ sockets: [bfd], hasBgpSession: true, rawProtocols: [1, 112] }).sort(), wanted);
    assert.deepEqual(texts({ sockets: [{ protocol: 'tcp', port: 179 }] }), ['TCP 179: BGP']);
  });

  it('has the ports of known programs that a socket listens at, and no others of them', () => {
    for (const { program, protocol, ports, source } of PLATFORM_PROGRAMS) {
      assert.match(source, /^https:\/\//);
      const [, last] = ports;
      const found = texts({
        sockets: [
          { protocol, port: last },
          { protocol: 'tcp', port: 22 },
        ],
      });
      assert.deepEqual(found, [`${protocol.toUpperCase()} ${last}: port of ${program}`]);
    }
  });

  it('has each once, and no more than a list may have', () => {
    const links = Array.from({ length: 6 }, (_, i) => ({ ...link('vxlan', 8472), name: `vx${i}` }));
    assert.deepEqual(texts({ links }), ['UDP 8472: vxlan vx0, vxlan vx1, vxlan vx2, vxlan vx3 and 2 more']);
    const many = Array.from({ length: 300 }, (_, i) => link('vxlan', 1000 + i));
    assert.equal(texts({ links: many }).length, MOST_PLATFORM_ENTRIES);
    const endpoints = Array.from({ length: 300 }, (_, i) => ({ address: '192.0.2.1', port: 1000 + i }));
    const wireGuard = [{ name: 'wg0', port: 51820, endpoints }];
    const found = texts({ wireGuard, links: [link('vxlan', 8472), link('ipip')] });
    assert.deepEqual(found.slice(0, 3).sort(), [
      'IPIP: ipip ipip0',
      'UDP 51820: wireguard wg0',
      'UDP 8472: vxlan vxlan0',
    ]);
    assert.equal(found.length, MOST_PLATFORM_ENTRIES);
  });
});
