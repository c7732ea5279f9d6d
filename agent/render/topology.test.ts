import assert from 'node:assert/strict';
import { type Config, DEFAULT_CONFIG, EXEMPTIONS } from '../../apis/config.ts';
import { chainLines, ruleText } from './nft-text.ts';
import { baseChains, type IndexTraffic, masqueradeChains, protocolExemptions } from './topology.ts';

const skeleton = (traffic: IndexTraffic, config: Config) =>
  baseChains(traffic, config, {
    before: [],
    first: [],
    indexes: [traffic],
    deadline: [],
    vrfs: [],
    nameServers: [],
    localPods: [],
    podIndexes: [],
    tunnel: [[{ match: 'interfaceGroup', field: 'iifgroup', groups: [9], negated: false }]],
  });

/** The base chain's lines, and those of the exemptions by protocol. */
const exempting = (direction: 'ingress' | 'egress', config: Config) => [
  ...skeleton(direction, config).flatMap(chainLines),
  ...[...protocolExemptions(direction, config).values()].flat().map(ruleText),
];

describe('topology', () => {
  it('has rules for each exemption that is on', () => {
    for (const exemption of EXEMPTIONS) {
      const off: Config = {
        ...DEFAULT_CONFIG,
        exemptions: { ...DEFAULT_CONFIG.exemptions, [exemption]: false },
      };
      const [on, without] = [DEFAULT_CONFIG, off].map((config) =>
        (['ingress', 'egress'] as const).flatMap((direction) =>
          exempting(direction, config).filter((line) => line.includes(`exemption ${exemption}"`)),
        ),
      );
      assert.ok((on ?? []).length > 0, exemption);
      assert.deepEqual(without, [], exemption);
    }
  });

  it('distinguishes DHCP by direction: answers in, requests out', () => {
    const dhcp = (direction: 'ingress' | 'egress') =>
      exempting(direction, DEFAULT_CONFIG).filter((line) => line.includes('dhcp'));
    assert.match(
      dhcp('ingress').join('\n'),
      /^ip daddr 255\.255\.255\.255 udp sport 67 udp dport 68 .*\nip6 daddr fe80::\/10 udp sport 547 udp dport 546/,
    );
    assert.match(
      dhcp('egress').join('\n'),
      /ipv4 udp dport 67 udp sport 68 .*\n.*ipv6 udp dport 547 udp sport 546/,
    );
  });

  it('matches pods’ interfaces by the configured group', () => {
    const config: Config = { ...DEFAULT_CONFIG, interfaceGroups: { pods: 20, clusternet: 9 } };
    assert.ok(
      skeleton('egress', config)
        .flatMap(chainLines)
        .some((line) => line.startsWith('oifgroup 20 accept')),
    );
  });

  it('has no prerouting chain without NodePort rules', () => {
    assert.deepEqual(
      baseChains('nodeport', DEFAULT_CONFIG, {
        before: [],
        first: [],
        indexes: [],
        deadline: [],
        vrfs: [],
        nameServers: ['192.0.2.53/32'],
        localPods: [],
        podIndexes: [],
        tunnel: [],
      }),
      [],
    );
  });

  it('evaluates before routing only translated packets that come from neither the node nor its pods', () => {
    assert.deepEqual(skeleton('nodeport', DEFAULT_CONFIG).flatMap(chainLines).slice(1), [
      'ct state established,related accept',
      'ct status dnat jump nodeport-entry',
      'iif "lo" accept comment "from the node itself"',
      'iifgroup 8 accept comment "from local pods"',
      'icmpv6 type { 133, 134, 135, 136 } accept comment "exemption neighborDiscovery"',
      'icmpv6 type { 130, 131, 132, 143 } accept comment "exemption multicastListener"',
      'jump nodeport',
    ]);
  });

  it('copies DNS answers, and questions to the believed servers, before it accepts established connections', () => {
    const lines = (direction: 'ingress' | 'egress', ...nameServers: readonly string[]) =>
      baseChains(direction, DEFAULT_CONFIG, {
        before: [],
        first: [],
        indexes: [],
        deadline: [],
        vrfs: [],
        nameServers,
        localPods: [],
        podIndexes: [],
        tunnel: [],
      }).map(chainLines);
    const [[, answer, second] = []] = lines('ingress', '192.0.2.53/32');
    assert.match(
      answer ?? '',
      /^udp sport 53 ct state established ct direction reply limit rate 5000\/second burst 10000 packets log .* group 7412 snaplen 65535 /,
    );
    assert.match(second ?? '', /^ct state established,related accept/);
    const [[, jump] = [], questions = []] = lines('egress', '192.0.2.53/32', '2001:db8::53/128', '0.0.0.0/0');
    assert.equal(jump, 'udp dport 53 jump dns-questions');
    assert.deepEqual(
      questions.map((line) => line.replace(/ limit .*/, '')),
      ['meta nfproto ipv4', 'meta nfproto ipv6 ct original ip6 daddr 2001:db8::53'],
    );
    assert.match(questions[0] ?? '', /limit rate 5000\/second burst 10000 packets log .* group 7412 /);
    assert.doesNotMatch([...lines('ingress'), ...lines('egress')].join('\n'), /53/);
  });

  it('masquerades by groups if configured, with the exceptions', () => {
    assert.deepEqual(masqueradeChains(DEFAULT_CONFIG), []);
    const masquerade = { enabled: true, except: ['10.0.0.0/9', '10.128.0.0/9', 'fd00::/8'] };
    const [base, fixed] = masqueradeChains({ ...DEFAULT_CONFIG, masquerade });
    assert.match(
      base === undefined ? '' : chainLines(base).join(' '),
      /^type nat hook postrouting priority 100; policy accept; jump masquerade-/,
    );
    assert.deepEqual(fixed === undefined ? [] : chainLines(fixed), [
      'meta nfproto ipv4 iifgroup 8 oifgroup != { 8, 9 } ip daddr != 10.0.0.0/8 counter masquerade fully-random comment "pods leave the node"',
      'meta nfproto ipv6 iifgroup 8 oifgroup != { 8, 9 } ip6 daddr != fd00::/8 counter masquerade fully-random comment "pods leave the node"',
    ]);
  });
});
