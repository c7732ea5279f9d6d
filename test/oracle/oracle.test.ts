import assert from 'node:assert/strict';
import type { Answer, Flow } from './oracle.ts';
import { oracle, sameAnswer } from './oracle.ts';
import type { Row } from './test-cluster.ts';
import { antrea, checkRows, cluster, everyNode, policy, tier } from './test-cluster.ts';

const tcp80: Partial<Flow> = {
  src: '10.5.0.1',
  dst: '10.0.0.1',
  protocol: 'tcp',
  srcPort: 40000,
  dstPort: 80,
};
const from = (...peers: object[]) => [policy('p', { ingress: [{ action: 'Drop', from: peers }] })];
const ports = (...items: object[]) => [policy('p', { ingress: [{ action: 'Drop', ports: items }] })];
const protocols = (...items: object[]) => [policy('p', { ingress: [{ action: 'Drop', protocols: items }] })];
const block = (cidr: string, ...except: string[]) => ({ ipBlock: { cidr, except } });
const applied = (nodeSelector: object) => [
  policy('p', { appliedTo: [{ nodeSelector }], ingress: [{ action: 'Drop' }] }),
];
const dropAll = [policy('deny', { ingress: [{ action: 'Drop' }], egress: [{ action: 'Drop' }] })];
const src = (address: string): Partial<Flow> => ({ ...tcp80, src: address, dst: '10.0.0.1' });
const src6 = (address: string): Partial<Flow> => ({ ...tcp80, src: address, dst: 'fd00::1' });
/** A rule that closes egress to these, and a packet to a local pod. */
const closing = (...to: object[]) => policy('p', { egress: [{ action: 'Drop', to }] });
const dropPod = [closing({ podSelector: {} })];
const leaving = (dst: string): Partial<Flow> => ({ direction: 'egress', interfaceGroup: 'pods', dst });
const own = { src: '10.0.0.1', dst: '10.5.0.1', direction: 'egress' } as const;
const hit = 'Drop rule p#0';
const miss = 'Allow default';

const peerRows: Row[] = [
  ['no peers: any address', [policy('p', { ingress: [{ action: 'Drop' }] })], tcp80, hit],
  ['empty list of peers: any address', from(), tcp80, hit],
  ['unknown source meets a rule without peers', from(), {}, hit],
  ['unknown source meets a rule with peers', from(block('0.0.0.0/0')), {}, miss],
  ['ipBlock covers its first address', from(block('10.5.0.0/24')), src('10.5.0.0'), hit],
  ['ipBlock covers its last address', from(block('10.5.0.0/24')), src('10.5.0.255'), hit],
  ['ipBlock ends there', from(block('10.5.0.0/24')), src('10.5.1.0'), miss],
  ['host bits are masked', from(block('10.5.0.77/24')), src('10.5.0.1'), hit],
  ['except is taken away', from(block('10.5.0.0/24', '10.5.0.0/31')), src('10.5.0.1'), miss],
  ['except ends there', from(block('10.5.0.0/24', '10.5.0.0/31')), src('10.5.0.2'), hit],
  [
    'except of one item leaves the other',
    from(block('10.5.0.0/24', '10.5.0.1/32'), block('10.5.0.1/32')),
    tcp80,
    hit,
  ],
  ['IPv4 /0 is no IPv6', from(block('0.0.0.0/0')), src6('fd05::1'), miss],
  ['IPv6 /0', from(block('::/0')), src6('fd05::1'), hit],
  ['IPv6 text forms are one', from(block('FD05:0:0::/127')), src6('fd05:0000::0.0.0.1'), hit],
  [
    'nodeSelector: InternalIP',
    from({ nodeSelector: { matchLabels: { role: 'worker' } } }),
    src('10.0.0.1'),
    'Allow exempt',
  ],
  [
    'nodeSelector: ExternalIP',
    from({ nodeSelector: { matchLabels: { role: 'control' } } }),
    src('203.0.113.2'),
    hit,
  ],
  [
    'nodeSelector: another node',
    from({ nodeSelector: { matchLabels: { role: 'worker' } } }),
    src('203.0.113.2'),
    miss,
  ],
  [
    'nodeSelector: annotation',
    from({ nodeSelector: {} }),
    src('10.0.0.11'),
    hit,
    { exemptions: { loopback: false } },
  ],
  ['nodeSelector: Hostname is no address', from({ nodeSelector: {} }), src('10.0.0.99'), miss],
  [
    'nodeSelector of no Node matches nothing',
    from({ nodeSelector: { matchLabels: { role: 'x' } } }),
    tcp80,
    miss,
  ],
  [
    'podSelector: over all namespaces',
    from({ podSelector: { matchLabels: { app: 'web' } } }),
    src('10.1.0.2'),
    hit,
  ],
  ['podSelector: podIPs', from({ podSelector: {} }), src6('fd01::1'), hit],
  ['podSelector: podIP beside podIPs is not read', from({ podSelector: {} }), src('10.9.9.9'), miss],
  ['podSelector: hostNetwork is left out', from({ podSelector: {} }), src('10.1.0.4'), miss],
  ['podSelector: Succeeded is left out', from({ podSelector: {} }), src('10.1.0.5'), miss],
  ['podSelector: Failed is left out', from({ podSelector: {} }), src('10.1.0.6'), miss],
  [
    'namespaceSelector alone',
    from({ namespaceSelector: { matchLabels: { team: 'red' } } }),
    src('10.1.0.3'),
    hit,
  ],
  [
    'namespaceSelector: another namespace',
    from({ namespaceSelector: { matchLabels: { team: 'red' } } }),
    src('10.1.0.2'),
    miss,
  ],
  [
    'undeclared namespace has its name as label',
    from({ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'lost' } } }),
    src('10.1.0.2'),
    hit,
  ],
  [
    'declared namespace has it too',
    from({ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'shop' } } }),
    src('10.1.0.1'),
    hit,
  ],
  [
    'podSelector and namespaceSelector are AND-ed',
    from({
      podSelector: { matchLabels: { app: 'web' } },
      namespaceSelector: { matchLabels: { team: 'red' } },
    }),
    src('10.1.0.3'),
    miss,
  ],
  ['serviceAccount', from({ serviceAccount: { name: 'bot', namespace: 'shop' } }), src('10.1.0.3'), hit],
  [
    'serviceAccount default',
    from({ serviceAccount: { name: 'default', namespace: 'lost' } }),
    src('10.1.0.2'),
    hit,
  ],
  [
    'serviceAccount of another namespace',
    from({ serviceAccount: { name: 'default', namespace: 'lost' } }),
    src('10.1.0.1'),
    miss,
  ],
  [
    'egress peers are destinations',
    [policy('p', { egress: [{ action: 'Drop', to: [block('10.5.0.1/32')] }] })],
    own,
    hit,
  ],
  [
    'a pod without namespace is in default',
    from({ serviceAccount: { name: 'default', namespace: 'default' } }),
    src('10.1.0.7'),
    hit,
  ],
  ['egress rules leave ingress alone', [policy('p', { egress: [{ action: 'Drop' }] })], tcp80, miss],
];

const selectorRows: Row[] = [
  ['{} selects every Node', applied({}), tcp80, hit],
  ['matchLabels are AND-ed', applied({ matchLabels: { role: 'worker', zone: 'b' } }), tcp80, miss],
  ['In', applied({ matchExpressions: [{ key: 'zone', operator: 'In', values: ['b', 'a'] }] }), tcp80, hit],
  [
    'In needs the key',
    applied({ matchExpressions: [{ key: 'rack', operator: 'In', values: [''] }] }),
    tcp80,
    miss,
  ],
  ['NotIn', applied({ matchExpressions: [{ key: 'zone', operator: 'NotIn', values: ['a'] }] }), tcp80, miss],
  [
    'NotIn is content without the key',
    applied({ matchExpressions: [{ key: 'rack', operator: 'NotIn', values: ['a'] }] }),
    tcp80,
    hit,
  ],
  ['Exists', applied({ matchExpressions: [{ key: 'zone', operator: 'Exists' }] }), tcp80, hit],
  ['DoesNotExist', applied({ matchExpressions: [{ key: 'zone', operator: 'DoesNotExist' }] }), tcp80, miss],
  [
    'appliedTo of a rule',
    [
      policy('p', {
        appliedTo: [],
        ingress: [
          { action: 'Allow', appliedTo: [{ nodeSelector: { matchLabels: { role: 'control' } } }] },
          { action: 'Drop', appliedTo: everyNode },
        ],
      }),
    ],
    tcp80,
    'Drop rule p#1',
  ],
  [
    'appliedTo is OR-ed',
    [
      policy('p', {
        appliedTo: [{ nodeSelector: { matchLabels: { role: 'x' } } }, { nodeSelector: {} }],
        ingress: [{ action: 'Drop' }],
      }),
    ],
    tcp80,
    hit,
  ],
];

const serviceRows: Row[] = [
  ['protocol defaults to TCP', ports({ port: 80 }), tcp80, hit],
  ['TCP is not UDP', ports({ protocol: 'UDP', port: 80 }), tcp80, miss],
  ['6 is tcp', ports({ port: 80 }), { ...tcp80, protocol: 6 }, hit],
  ['17 is udp', ports({ protocol: 'UDP' }), { protocol: 17 }, hit],
  ['132 is sctp', ports({ protocol: 'SCTP', port: 80 }), { ...tcp80, protocol: 132 }, hit],
  ['no port: every port, unknown ones too', ports({ protocol: 'TCP' }), { protocol: 'tcp' }, hit],
  ['unknown port meets a rule that names one', ports({ port: 80 }), { protocol: 'tcp' }, miss],
  ['unknown protocol meets a rule that names one', ports({ port: 80 }), { dstPort: 80 }, miss],
  ['endPort is included', ports({ port: 70, endPort: 80 }), tcp80, hit],
  ['range begins there', ports({ port: 81, endPort: 90 }), tcp80, miss],
  ['sourcePort', ports({ sourcePort: 40000 }), tcp80, hit],
  ['sourceEndPort', ports({ port: 80, sourcePort: 1, sourceEndPort: 40000 }), tcp80, hit],
  ['sourcePort and port are AND-ed', ports({ port: 81, sourcePort: 40000 }), tcp80, miss],
  [
    'empty ports: all traffic',
    [policy('p', { ingress: [{ action: 'Drop', ports: [], protocols: [] }] })],
    { protocol: 47 },
    hit,
  ],
  [
    'ports and protocols are OR-ed',
    [policy('p', { ingress: [{ action: 'Drop', ports: [{ port: 1 }], protocols: [{ icmp: {} }] }] })],
    { protocol: 'icmp' },
    hit,
  ],
  ['icmp covers ICMPv6', protocols({ icmp: {} }), { protocol: 'icmpv6', icmpType: 128 }, hit],
  ['58 is icmpv6', protocols({ icmp: {} }), { protocol: 58 }, hit],
  [
    'icmp with a type is not ICMPv6',
    protocols({ icmp: { icmpType: 128 } }),
    { protocol: 'icmpv6', icmpType: 128 },
    miss,
  ],
  [
    'icmp with a type is IPv4 alone',
    protocols({ icmp: { icmpType: 8 } }),
    { ...src6('fd05::1'), protocol: 1, icmpType: 8 },
    miss,
  ],
  ['icmp type', protocols({ icmp: { icmpType: 8 } }), { protocol: 1, icmpType: 8 }, hit],
  [
    'icmp code',
    protocols({ icmp: { icmpType: 3, icmpCode: 1 } }),
    { protocol: 'icmp', icmpType: 3, icmpCode: 2 },
    miss,
  ],
  [
    'icmp code unknown',
    protocols({ icmp: { icmpType: 3, icmpCode: 1 } }),
    { protocol: 'icmp', icmpType: 3 },
    miss,
  ],
  ['type 0 is a type', protocols({ icmp: { icmpType: 0 } }), { protocol: 'icmp', icmpType: 8 }, miss],
  ['icmpv6 is not ICMP', protocols({ icmpv6: {} }), { protocol: 'icmp' }, miss],
  [
    'icmpv6 type',
    protocols({ icmpv6: { icmpType: 128 } }),
    { protocol: 'icmpv6', icmpType: 128, icmpCode: 0 },
    hit,
  ],
  [
    'icmpv6 with a type is IPv6 alone',
    protocols({ icmpv6: { icmpType: 128 } }),
    { ...tcp80, protocol: 58, icmpType: 128 },
    miss,
  ],
  ['igmp', protocols({ igmp: {} }), { protocol: 2 }, hit],
  ['igmp type', protocols({ igmp: { igmpType: 19 } }), { protocol: 'igmp', igmpType: 20 }, miss],
  [
    'igmp group is the destination',
    protocols({ igmp: { groupAddress: '224.0.0.1' } }),
    { protocol: 'igmp', dst: '224.0.0.1' },
    hit,
  ],
  ['igmp group unknown', protocols({ igmp: { groupAddress: '224.0.0.1' } }), { protocol: 'igmp' }, miss],
  ['protocol by number', protocols({ protocol: 112 }), { protocol: 112 }, hit],
  ['protocol by name', protocols({ protocol: 'ospf' }), { protocol: 89 }, hit],
  ['another protocol', protocols({ protocol: 'ospf' }), { protocol: 90 }, miss],
  ['protocol of another item, whole', protocols({ protocol: 'udp' }), { protocol: 'udp', dstPort: 9 }, hit],
  [
    'protocol to a group',
    protocols({ protocol: 'vrrp', groupAddress: 'ff02::12' }),
    { protocol: 112, dst: 'ff02:0::12' },
    hit,
  ],
  [
    'protocol to another destination',
    protocols({ protocol: 'vrrp', groupAddress: '224.0.0.18' }),
    { protocol: 112, dst: '10.0.0.1' },
    miss,
  ],
];

const allow = { ingress: [{ action: 'Allow' }] };
const drop = { ingress: [{ action: 'Drop' }] };
const orderRows: Row[] = [
  [
    'tier first',
    [policy('a', { ...drop, priority: 1 }), policy('b', { ...allow, tier: 'platform', priority: 9 })],
    tcp80,
    'Allow rule b#0',
  ],
  [
    'then policy priority',
    [policy('a', { ...drop, priority: 10 }), policy('b', { ...allow, priority: 9 })],
    tcp80,
    'Allow rule b#0',
  ],
  [
    'then name, by code point',
    [policy('a.b', drop), policy('a-b', allow), policy('a0', drop)],
    tcp80,
    'Allow rule a-b#0',
  ],
  ['a prefix comes first', [policy('aa', drop), policy('a', allow)], tcp80, 'Allow rule a#0'],
  ['then API group', [policy('a', drop), policy('a', allow, antrea)], tcp80, 'Allow rule a#0'],
  [
    'then rule index',
    [policy('a', { ingress: [{ action: 'Reject' }, { action: 'Allow' }] })],
    tcp80,
    'Reject rule a#0',
  ],
  [
    'CamelCase tier',
    [policy('a', { ...drop, tier: 'SecurityOps' }), policy('b', { ...allow, tier: 'emergency' })],
    tcp80,
    'Allow rule b#0',
  ],
  [
    'custom tier',
    [tier('gold', 249), policy('a', { ...drop, priority: 1 }), policy('b', { ...allow, tier: 'gold' })],
    tcp80,
    'Allow rule b#0',
  ],
  [
    'tier of the own group first',
    [
      tier('gold', 10),
      tier('gold', 20, antrea),
      tier('mid', 15),
      policy('a', { ...drop, tier: 'gold' }, antrea),
      policy('b', { ...allow, tier: 'mid' }),
    ],
    tcp80,
    'Allow rule b#0',
  ],
  [
    'tier of the other group else',
    [
      tier('gold', 10),
      policy('a', { ...allow, tier: 'gold' }, antrea),
      policy('b', { ...drop, tier: 'emergency' }),
    ],
    tcp80,
    'Allow rule a#0',
  ],
  ['no policy', [], tcp80, miss],
];

const udp: Partial<Flow> = { protocol: 'udp' };
const v4 = { src: '10.0.0.1', dst: '10.5.0.1' };
const v6 = { src: 'fd00::1', dst: 'fd05::1' };
const denied = 'Drop rule deny#0';
const off = (name: string) => ({ exemptions: { [name]: false } });
const exemptionRows: Row[] = [
  ['own to own is loopback', dropAll, { src: '10.0.0.1', dst: '10.0.0.11' }, 'Allow exempt'],
  ['127.0.0.0/8 to own', dropAll, { src: '127.1.2.3', dst: '10.0.0.1' }, 'Allow exempt'],
  ['::1 to ::1', dropAll, { direction: 'egress', src: '::1', dst: '::1' }, 'Allow exempt'],
  ['one end own is not loopback', dropAll, tcp80, denied],
  ['one end unknown is not loopback', dropAll, { dst: '10.0.0.1' }, denied],
  ['another node is not loopback', dropAll, { ...tcp80, src: '203.0.113.2' }, denied],
  ['loopback off', dropAll, { src: '127.0.0.1', dst: '127.0.0.1' }, denied, off('loopback')],
  ...[133, 134, 135, 136].map(
    (icmpType): Row => [
      `ND ${icmpType}`,
      dropAll,
      { protocol: 'icmpv6', icmpType },
      'Allow exempt',
      off('multicastListener'),
    ],
  ),
  ...[130, 131, 132, 143].map(
    (icmpType): Row => [
      `MLD ${icmpType}`,
      dropAll,
      { protocol: 58, icmpType },
      'Allow exempt',
      off('neighborDiscovery'),
    ],
  ),
  ...[129, 137, 142, 144].map(
    (icmpType): Row => [`${icmpType} is neither`, dropAll, { protocol: 58, icmpType }, denied],
  ),
  ['58 over IPv4 is no ND', dropAll, { ...tcp80, protocol: 58, icmpType: 135 }, denied],
  ['ND off', dropAll, { protocol: 'icmpv6', icmpType: 135 }, denied, off('neighborDiscovery')],
  ['MLD off', dropAll, { protocol: 'icmpv6', icmpType: 143 }, denied, off('multicastListener')],
  ['ND type unknown', dropAll, { protocol: 'icmpv6' }, denied],
  ['DHCP out', dropAll, { ...udp, ...v4, direction: 'egress', srcPort: 68, dstPort: 67 }, 'Allow exempt'],
  [
    'DHCP in',
    dropAll,
    { ...udp, src: '198.51.100.9', dst: '255.255.255.255', srcPort: 67, dstPort: 68 },
    'Allow exempt',
  ],
  ['DHCP in, at the Node', dropAll, { ...udp, ...v4, srcPort: 67, dstPort: 68 }, denied],
  ['DHCP in, to whom is unknown', dropAll, { ...udp, src: '192.0.2.9', srcPort: 67, dstPort: 68 }, denied],
  ['DHCP server in', dropAll, { ...udp, ...v4, srcPort: 68, dstPort: 67 }, denied],
  ['DHCPv6 out', dropAll, { ...udp, ...v6, direction: 'egress', srcPort: 546, dstPort: 547 }, 'Allow exempt'],
  ['DHCPv6 in', dropAll, { ...udp, ...v6, dst: 'fe80::7', srcPort: 547, dstPort: 546 }, 'Allow exempt'],
  [
    'DHCPv6 in, at the Node',
    dropAll,
    { ...udp, ...v6, dst: '2001:db8::77', srcPort: 547, dstPort: 546 },
    denied,
  ],
  ['DHCP ports over IPv6', dropAll, { ...udp, ...v6, direction: 'egress', srcPort: 68, dstPort: 67 }, denied],
  [
    'DHCP over TCP',
    dropAll,
    { ...v4, protocol: 'tcp', direction: 'egress', srcPort: 68, dstPort: 67 },
    denied,
  ],
  [
    'DHCP off',
    dropAll,
    { ...udp, src: '198.51.100.9', dst: '255.255.255.255', srcPort: 67, dstPort: 68 },
    denied,
    off('dhcpClient'),
  ],
  ['egress to local pods by name', dropAll, { direction: 'egress', interfaceGroup: 'pods' }, 'Allow exempt'],
  ['egress to local pods by number', dropAll, { direction: 'egress', interfaceGroup: 8 }, 'Allow exempt'],
  [
    'the number is the configured one',
    dropAll,
    { direction: 'egress', interfaceGroup: 8 },
    denied,
    { interfaceGroups: { pods: 20 } },
  ],
  [
    'the name too',
    dropAll,
    { direction: 'egress', interfaceGroup: 20 },
    'Allow exempt',
    { interfaceGroups: { pods: { group: 20 } } },
  ],
  ['ingress from local pods', dropAll, { interfaceGroup: 'pods' }, denied],
  ['egress to another group', dropAll, { direction: 'egress', interfaceGroup: 'clusternet' }, denied],
  ['egress without group', dropAll, { direction: 'egress', dst: '10.1.0.1' }, denied],
  ['egress to local pods, a pod named', dropPod, leaving('10.1.0.1'), hit],
  ['a single address', [closing({ ipBlock: { cidr: '10.1.0.1/32' } })], leaving('10.1.0.1'), hit],
  ['a block of two', [closing({ ipBlock: { cidr: '10.1.0.0/31' } })], leaving('10.1.0.1'), 'Allow exempt'],
  [
    'mixed peers: the whole rule',
    [closing({ ipBlock: { cidr: '10.1.0.9/32' } }, { ipBlock: { cidr: '10.1.0.0/16' } })],
    leaving('10.1.0.1'),
    hit,
  ],
  ['another pod than those named', dropPod, leaving('10.1.0.77'), 'Allow exempt'],
  ['what names no pod beside it', [...dropPod, ...dropAll], leaving('10.1.0.77'), 'Allow exempt'],
  ['nodes are no pods', [closing({ nodeSelector: {} })], leaving('10.0.0.1'), 'Allow exempt'],
  ['local pods off', dropAll, { direction: 'egress', interfaceGroup: 'pods' }, denied, off('localPods')],
];

const node2 = '203.0.113.2';
const api: Partial<Flow> = { src: node2, protocol: 'tcp', dstPort: 6443 };
const dns: Partial<Flow> = { direction: 'egress', dst: '8.8.8.8', protocol: 'udp', dstPort: 53 };
const skipped = 'Allow failsafe';
const controllers = (spec: object) => [
  {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'c', namespace: 'nodewall-system' },
    spec: { serviceAccountName: 'nodewall-controller', ...spec },
    status: { podIP: '10.2.0.1' },
  },
];
const toController: Partial<Flow> = { direction: 'egress', dst: '10.2.0.1', protocol: 'tcp', dstPort: 9443 };
const safe = (...ingress: object[]) => ({ failsafe: { ingress } });
const failsafeRows: Row[] = [
  ...[6443, 2379, 2380, 10250].map(
    (dstPort): Row => [`ingress ${dstPort} from a node`, dropAll, { ...api, dstPort }, skipped],
  ),
  ...[2378, 2381, 22].map(
    (dstPort): Row => [`ingress ${dstPort} from a node`, dropAll, { ...api, dstPort }, denied],
  ),
  ['egress 6443 to a node', dropAll, { ...api, direction: 'egress', dst: node2, src: '10.0.0.1' }, skipped],
  ['ingress from elsewhere', dropAll, { ...api, src: '10.5.0.1' }, denied],
  ['ingress from unknown', dropAll, { protocol: 'tcp', dstPort: 6443 }, denied],
  ['ingress over UDP', dropAll, { ...api, protocol: 'udp' }, denied],
  ['egress DNS to any', dropAll, dns, skipped],
  ['egress DNS over TCP', dropAll, { ...dns, protocol: 'tcp', dst: '2001:db8::1' }, skipped],
  ['egress DNS to unknown', dropAll, { direction: 'egress', protocol: 'udp', dstPort: 53 }, skipped],
  ['ingress DNS', dropAll, { ...dns, direction: 'ingress' }, denied],
  ['egress to a controller', [...dropAll, ...controllers({})], toController, skipped],
  ['egress to a hostNetwork one', [...dropAll, ...controllers({ hostNetwork: true })], toController, skipped],
  ['Reject is skipped too', [policy('p', { ingress: [{ action: 'Reject' }] })], api, skipped],
  [
    'a rule that names its ports is not',
    [policy('p', { ingress: [{ action: 'Drop', ports: [{ protocol: 'TCP' }] }] })],
    api,
    hit,
  ],
  [
    'empty ports name nothing',
    [policy('p', { ingress: [{ action: 'Drop', ports: [], protocols: [] }] })],
    api,
    skipped,
  ],
  ['Allow before: nothing changed', [policy('a', allow), policy('b', drop)], api, 'Allow rule a#0'],
  ['Allow after the skipped rule', [policy('a', drop), policy('b', allow)], api, 'Allow failsafe b#0'],
  [
    'the same verdict afterwards is no change',
    [policy('a', drop), policy('b', { ingress: [{ action: 'Drop', ports: [{ port: 6443 }] }] })],
    api,
    'Drop rule b#0',
  ],
  [
    'another verdict afterwards is one',
    [policy('a', drop), policy('b', { ingress: [{ action: 'Reject', ports: [{ port: 6443 }] }] })],
    api,
    'Reject failsafe b#0',
  ],
  ['configured list replaces', dropAll, api, denied, safe({ port: 22, peers: 'any' })],
  [
    'configured entry: TCP by default',
    dropAll,
    { ...tcp80, dstPort: 22 },
    skipped,
    safe({ port: 22, peers: 'any' }),
  ],
  [
    'configured CIDR',
    dropAll,
    { ...tcp80, dstPort: 22 },
    skipped,
    safe({ port: 22, peers: ['10.6.0.0/16', '10.5.0.0/30'] }),
  ],
  [
    'outside the configured CIDR',
    dropAll,
    { ...tcp80, src: '10.5.0.4', dstPort: 22 },
    denied,
    safe({ port: 22, peers: ['10.5.0.0/30'] }),
  ],
  [
    'configured range',
    dropAll,
    { protocol: 'udp', dstPort: 90 },
    skipped,
    safe({ protocol: 'UDP', port: 80, endPort: 90, peers: 'any' }),
  ],
  ['no port: every port', dropAll, { protocol: 'sctp' }, skipped, safe({ protocol: 'SCTP', peers: 'any' })],
  ['empty list: off', dropAll, api, denied, safe()],
  ['the other direction keeps its default', dropAll, dns, skipped, safe()],
];

const tables = { peerRows, selectorRows, serviceRows, orderRows, exemptionRows, failsafeRows };

describe('oracle', () => {
  checkRows(tables);

  it('names the skipped rules and what decided, in full', () => {
    const objects = [
      ...cluster,
      policy('a', { tier: 'NetworkOps', ingress: [{ name: 'none', action: 'Drop' }] }),
      policy('b', { ingress: [{ action: 'Reject' }, { name: 'yes', action: 'Allow' }] }),
    ];
    assert.deepEqual(oracle({ objects, node: 'n1' })({ direction: 'ingress', ...api }), {
      verdict: 'Allow',
      policy: 'b',
      rule: 'yes',
      ruleIndex: 1,
      tier: 'application',
      reason: 'failsafe',
      skipped: [
        { policy: 'a', rule: 'none' },
        { policy: 'b', rule: null },
      ],
      audited: [],
    });
  });

  it('throws on input that it does not evaluate', () => {
    const service = { name: 's', namespace: 'n' };
    const specs: [object, string?][] = [
      [{ mode: 'Dry' }],
      [{ mode: 'Audit' }, antrea],
      [{ traffic: 'Forwarded' }],
      [{ traffic: 'NodePort' }, antrea],
      [{ traffic: 'NodePort', egress: [{ action: 'Drop' }] }],
      [{ ingress: [{ action: 'Log' }] }],
      [{ tier: 'baseline', ingress: [{ action: 'Pass' }] }],
      [{ tier: 'nowhere', ingress: [{ action: 'Drop' }] }],
      [{ ingress: [{ action: 'Drop', l7Protocols: [] }] }],
      [{ ingress: [{ action: 'Drop', to: [] }] }],
      [{ ingress: [{ action: 'Drop', from: [{}] }] }],
      [{ ingress: [{ action: 'Drop', from: [{ nodeSelector: {}, group: 'g' }] }] }],
      [{ ingress: [{ action: 'Drop', from: [{ group: 'g' }] }] }],
      [{ ingress: [{ action: 'Drop', from: [{ fqdn: 'example.com' }] }] }],
      [{ ingress: [{ action: 'Drop', from: [{ interfaceGroup: 'nobody' }] }] }],
      [{ ingress: [{ action: 'Drop', from: [{ interfaceGroup: 'toString' }] }] }],
      [{ ingress: [{ action: 'Drop', from: [{ interfaceGroup: 8 }] }] }, antrea],
      [{ ingress: [{ action: 'Drop', protocols: [{ icmpv6: {} }] }] }, antrea],
      [{ ingress: [{ action: 'Drop', toServices: [service] }] }],
      [{ egress: [{ action: 'Drop', to: [{ fqdn: 'a.*.com' }] }] }],
      [{ egress: [{ action: 'Drop', to: [{ fqdn: '*' }] }] }],
      [{ egress: [{ action: 'Drop', to: [{ nodeSelector: {} }], toServices: [service] }] }],
      [{ egress: [{ action: 'Drop', ports: [{ port: 1 }], toServices: [service] }] }],
      [{ egress: [{ action: 'Drop', toServices: [{ ...service, scope: 'ClusterSet' }] }] }],
      [{ appliedTo: [{ nodeSelector: {} }, { group: 'g' }], ingress: [{ action: 'Drop' }] }],
      [{ appliedTo: [{ podSelector: {} }], ingress: [{ action: 'Drop' }] }],
    ];
    for (const [spec, apiVersion] of specs) {
      const objects = [...cluster, policy('p', spec, apiVersion)];
      assert.throws(() => oracle({ objects, node: 'n1' }), Error, JSON.stringify(spec));
    }
    const judge = oracle({ objects: cluster, node: 'n1' });
    assert.throws(() => judge({ direction: 'egress', traffic: 'NodePort' }), /NodePort/);
    assert.throws(() => judge({ direction: 'ingress', protocol: 'gre' }), /not a protocol/);
  });
});

describe('sameAnswer', () => {
  const answer: Answer = {
    verdict: 'Drop',
    policy: 'p',
    rule: null,
    ruleIndex: 0,
    tier: 'platform',
    reason: 'rule',
  };

  it('accepts any name for an unnamed rule, and a missing list for an empty one', () => {
    assert.ok(sameAnswer(answer, { ...answer, rule: 'generated', skipped: [] }));
  });

  const others: Partial<Answer>[] = [
    { verdict: 'Reject' },
    { policy: 'q' },
    { ruleIndex: 1 },
    { tier: 'emergency' },
    { reason: 'failsafe' },
    { skipped: [{ policy: 'p', rule: null }] },
    { policy: null },
  ];
  for (const other of others) {
    it(`sees ${JSON.stringify(other)}`, () => {
      assert.ok(!sameAnswer(answer, { ...answer, ...other }));
    });
  }

  it('compares audited rules if both have them', () => {
    const audited = [{ policy: 'p', rule: 'a' }];
    assert.ok(sameAnswer(answer, { ...answer, audited }));
    assert.ok(sameAnswer({ ...answer, audited }, { ...answer, audited }));
    assert.ok(!sameAnswer({ ...answer, audited: [] }, { ...answer, audited }));
  });

  it('compares names if both have one', () => {
    assert.ok(!sameAnswer({ ...answer, rule: 'a' }, { ...answer, rule: 'b' }));
  });
});
