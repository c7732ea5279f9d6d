import assert from 'node:assert/strict';
import { type Config, DEFAULT_CONFIG } from '../../../apis/config.ts';
import type { NodeEgress, TunnelEnd } from '../../../apis/egress/node-egress.ts';
import { toMemberSet } from '../../../lib/net/member-set.ts';
import { present } from '../../../lib/sharing/present.ts';
import { fakeNodeEgress } from '../../../test/fake/egress-objects.ts';
import { keyText } from '../../../test/fake/fake-routes.ts';
import { closing, nodeState } from '../../../test/fake/node-state.ts';
import { rulesetText } from '../../render/nft-text.ts';
import { render } from '../../render/render.ts';
import { netstateText } from '../apply/net-object.ts';
import { keyProblem, NO_NETSTATE, toNetstate, tunnelRefusal } from './netstate.ts';

const HOST = { group: 10, underlayMtu: 1500, encrypts: true };
const end = (number: number, key?: string): TunnelEnd => ({
  node: `node-${number}`,
  address: `192.0.2.${number}`,
  mac: `0e:00:00:00:00:0${number}`,
  ...present({ key }),
});

function egressOf(tunnel: TunnelEnd, ...ends: readonly TunnelEnd[]): NodeEgress {
  return fakeNodeEgress({
    tunnel,
    nodes: toMemberSet([], ['192.0.2.1', '192.0.2.2', '192.0.2.3']),
    peers: new Map(ends.map((one) => [one.node, one])),
    slots: new Map(ends.map(({ node }, i) => [i + 1, { number: i + 1, node, take: 0 }])),
  });
}

describe('an encrypted tunnel', () => {
  it('is VXLAN between the addresses of WireGuard devices', () => {
    const text = netstateText(toNetstate(egressOf(end(1, ''), end(2, keyText(2)), end(3, '')), HOST));
    assert.deepEqual(
      text.split('\n').filter((line) => /wg|fdb/.test(line)),
      [
        'ip link add nodewall-wg mtu 1440 group 1853292545 up type wireguard',
        'wg set nodewall-wg listen-port 7792 private-key FILE',
        `wg set nodewall-wg peer ${keyText(2)} endpoint 192.0.2.2:7792 allowed-ips fd6e:6f64:6577:6c6c:c00:ff:fe00:2/128`,
        'sysctl -w net/ipv6/conf/nodewall-wg/disable_ipv6=0',
        'ip addr add fd6e:6f64:6577:6c6c:c00:ff:fe00:1/64 dev nodewall-wg nodad preferred_lft 0',
        'bridge fdb add 0e:00:00:00:00:02 dev nodewall-egress dst fd6e:6f64:6577:6c6c:c00:ff:fe00:2',
        'bridge fdb add 0e:00:00:00:00:03 dev nodewall-egress dst fd6e:6f64:6577:6c6c:c00:ff:fe00:3',
      ],
    );
    assert.match(text, /nodewall-egress .*mtu 1370 .*local fd6e:6f64:6577:6c6c:c00:ff:fe00:1 nolearning\n/);
  });

  it('leaves room for outer IPv6 packets', () => {
    const ofV6 = (one: TunnelEnd): TunnelEnd => ({ ...one, address: `2001:db8::${one.node.slice(-1)}` });
    const { links } = toNetstate(egressOf(ofV6(end(1, '')), ofV6(end(2, keyText(2)))), HOST);
    assert.deepEqual(
      links.map(({ mtu }) => mtu),
      [1350, 1420],
    );
  });

  it('has no way to an end in clear, nor the other way round', () => {
    const toClear = toNetstate(egressOf(end(1, keyText(1)), end(2), end(3, keyText(3))), HOST);
    assert.deepEqual(
      toClear.neighbours.map(({ mac }) => mac.slice(-1)),
      ['3', '3'],
    );
    const fromClear = toNetstate(egressOf(end(1), end(2), end(3, keyText(3))), { ...HOST, encrypts: false });
    assert.deepEqual(
      fromClear.neighbours.map(({ mac }) => mac.slice(-1)),
      ['2', '2'],
    );
    assert.deepEqual(fromClear.peers, []);
  });

  it('has no peer with the own key, and says why it may have no tunnel', () => {
    const host = { ...HOST, ownKey: keyText(1) };
    const peersOf = (egress: NodeEgress) => toNetstate(egress, host).peers.map(({ key }) => key);
    const copied = egressOf(end(1, ''), end(2, keyText(1)), end(3, keyText(3)));
    assert.deepEqual(peersOf(copied), [keyText(3)]);
    assert.match(keyProblem(copied, host) ?? '', /^Node node-2 has the WireGuard key of this node/);
    const other = egressOf(end(1, keyText(9)), end(3, keyText(3)));
    assert.deepEqual(peersOf(other), [keyText(3)]);
    assert.match(keyProblem(other, host) ?? '', /^the controllers know another WireGuard key/);
    for (const tunnel of [end(1, keyText(1)), end(1, ''), end(1)])
      assert.equal(keyProblem(egressOf(tunnel, end(3, keyText(3))), host), null);
    assert.equal(keyProblem(other, {}), null);
    assert.equal(keyProblem(null, host), null);
  });

  it('is not there while agent and controller do not agree about it', () => {
    for (const [tunnel, encrypts] of [
      [end(1), true],
      [end(1, ''), false],
    ] as const) {
      const egress = egressOf(tunnel, end(2));
      assert.equal(toNetstate(egress, { ...HOST, encrypts }), NO_NETSTATE);
      assert.match(
        tunnelRefusal(egress, { ...HOST, encrypts }) ?? '',
        /^egress.encryption is (None|WireGuard) in/,
      );
    }
    assert.equal(tunnelRefusal(egressOf(end(1)), { ...HOST, encrypts: false }), null);
  });

  it('is not there where the interface is too small for IPv6 inside', () => {
    const ofV6 = (one: TunnelEnd): TunnelEnd => ({ ...one, address: `2001:db8::${one.node.slice(-1)}` });
    for (const [tunnel, least] of [
      [end(1, ''), 1410],
      [ofV6(end(1, '')), 1430],
      [end(1), 1330],
      [ofV6(end(1)), 1350],
    ] as const) {
      const egress = egressOf(tunnel, { ...tunnel, node: 'node-2', mac: '0e:00:00:00:00:02' });
      const host = (underlayMtu: number) => ({
        ...HOST,
        encrypts: tunnel.key !== undefined,
        underlay: 'eth0',
        underlayMtu,
      });
      assert.equal(tunnelRefusal(egress, host(least)), null);
      assert.ok(toNetstate(egress, host(least)).links.every(({ mtu }) => mtu >= 1280));
      assert.equal(toNetstate(egress, host(least - 1)), NO_NETSTATE);
      const text = tunnelRefusal(egress, host(least - 1)) ?? '';
      assert.ok(text.startsWith(`interface eth0 has MTU ${least - 1}`) && text.includes(`${least}`), text);
      assert.equal(tunnelRefusal(egressOf(tunnel), host(least - 1)), null, 'no gateway is used');
    }
  });

  it('has rules that let it nowhere else, which an unencrypted one lacks', () => {
    const rules = (encryption: Config['egress']['encryption'], key?: string): string => {
      const config = { ...DEFAULT_CONFIG, egress: { ...DEFAULT_CONFIG.egress, encryption } };
      const state = nodeState(closing('web', 80));
      return rulesetText(render({ ...state, egress: egressOf(end(1, key), end(2, key)) }, config));
    };
    const text = rules('WireGuard', keyText(2));
    const network = 'fd6e:6f64:6577:6c6c::/64';
    for (const rule of [
      `iifgroup 1853292545 udp dport 7790 ip6 saddr ${network} ip6 daddr ${network} accept`,
      `iifgroup 1853292545 counter drop comment "between WireGuard devices only the tunnel"`,
      `ip6 saddr ${network} counter drop comment "between WireGuard devices only the tunnel"`,
      'udp dport 7792 ip saddr @egress-nodes-v4 ip daddr @egress-nodes-v4 notrack',
      'udp dport 7792 ip daddr @egress-nodes-v4 notrack',
      'udp dport 7792 ip saddr != @egress-nodes-v4 counter drop comment "the tunnel is for Nodes only"',
      `oifgroup 1853292545 udp dport 7790 ip6 saddr ${network} ip6 daddr ${network} accept`,
      `udp dport 7790 ip daddr @egress-nodes-v4 counter drop comment "the tunnel is encrypted"`,
      `iifgroup != 1853292545 counter drop comment "the tunnel is encrypted"`,
      `udp dport 7792 ip saddr @egress-nodes-v4 accept comment "exemption egressTunnel"`,
      `iifgroup 1853292545 udp dport 7790 ip6 saddr ${network} accept comment "exemption egressTunnel"`,
    ])
      assert.ok(text.includes(rule), `${rule}\n${text}`);
    assert.doesNotMatch(text, /udp dport 7790 ip saddr @egress-nodes-v4 accept comment "exemption/);
    assert.match(rules('None'), /udp dport 7790 ip saddr @egress-nodes-v4 accept comment "exemption/);
    assert.match(text, /fd6e:6f64:6577:6c6c:c00:ff:fe00:2 \. 0x0e0000000002/);
    assert.doesNotMatch(rules('None'), /fd6e|7792|1853292545/);
  });
});
