import assert from 'node:assert/strict';
import type { Flow } from './oracle.ts';
import { oracle } from './oracle.ts';
import type { Row } from './test-cluster.ts';
import { antrea, checkRows, cluster, ours, pod, policy, service } from './test-cluster.ts';

function group(name: string, spec: object, apiVersion = ours): object {
  return { apiVersion, kind: 'ClusterGroup', metadata: { name }, spec };
}

const byGroup = (apiVersion?: string) =>
  policy('p', { ingress: [{ action: 'Drop', from: [{ group: 'g' }] }] }, apiVersion);
const from = (spec: object, ...others: object[]) => [byGroup(), group('g', spec), ...others];
const onGroup = (spec: object, ...others: object[]) => [
  policy('p', { appliedTo: [{ group: 'g' }], ingress: [{ action: 'Drop' }] }),
  group('g', spec),
  ...others,
];
const src = (address: string): Partial<Flow> => ({ src: address });
const block = (...cidrs: string[]) => ({ ipBlocks: cidrs.map((cidr) => ({ cidr })) });
const toWeb = { serviceReference: { name: 'web', namespace: 'shop' } };
const webService = service('web', 'shop', { selector: { app: 'web' } });
const hit = 'Drop rule p#0';
const miss = 'Allow default';

const peerRows: Row[] = [
  [
    'podSelector: over all namespaces',
    from({ podSelector: { matchLabels: { app: 'web' } } }),
    src('10.1.0.2'),
    hit,
  ],
  ['podSelector: {} is every pod', from({ podSelector: {} }), src('10.1.0.3'), hit],
  ['podSelector: hostNetwork is left out', from({ podSelector: {} }), src('10.1.0.4'), miss],
  ['podSelector: finished is left out', from({ podSelector: {} }), src('10.1.0.5'), miss],
  ['podSelector of nobody', from({ podSelector: { matchLabels: { app: 'x' } } }), src('10.1.0.1'), miss],
  ['a group of nobody is not any address', from({ podSelector: { matchLabels: { app: 'x' } } }), {}, miss],
  [
    'namespaceSelector alone',
    from({ namespaceSelector: { matchLabels: { team: 'red' } } }),
    src('10.1.0.3'),
    hit,
  ],
  [
    'both selectors are AND-ed',
    from({
      podSelector: { matchLabels: { app: 'web' } },
      namespaceSelector: { matchLabels: { team: 'red' } },
    }),
    src('10.1.0.2'),
    miss,
  ],
  ['nodeSelector', from({ nodeSelector: { matchLabels: { role: 'control' } } }), src('203.0.113.2'), hit],
  [
    'nodeSelector of others',
    from({ nodeSelector: { matchLabels: { role: 'worker' } } }),
    src('203.0.113.2'),
    miss,
  ],
  ['ipBlocks are OR-ed', from(block('10.4.0.0/16', '10.5.0.0/16')), src('10.5.0.1'), hit],
  [
    'except of one block leaves the other',
    from({ ipBlocks: [{ cidr: '10.5.0.0/24', except: ['10.5.0.1/32'] }, { cidr: '10.5.0.0/31' }] }),
    src('10.5.0.1'),
    hit,
  ],
  ['except', from({ ipBlocks: [{ cidr: '::/0', except: ['fd05::/16'] }] }), src('fd05::1'), miss],
  ['no ipBlocks: nothing', from({ ipBlocks: [] }), src('10.5.0.1'), miss],
  ['no childGroups: nothing', from({ childGroups: [] }), src('10.5.0.1'), miss],
  ['the source is unknown', from(block('0.0.0.0/0', '::/0')), {}, miss],
  [
    'a group beside another peer',
    [
      policy('p', { ingress: [{ action: 'Drop', from: [{ group: 'g' }, { nodeSelector: {} }] }] }),
      group('g', block('10.5.0.0/16')),
    ],
    src('203.0.113.2'),
    hit,
  ],
  [
    'on egress: destinations',
    [policy('p', { egress: [{ action: 'Drop', to: [{ group: 'g' }] }] }), group('g', block('10.5.0.0/16'))],
    { direction: 'egress', src: '10.6.0.1', dst: '10.5.0.1' },
    hit,
  ],
];

const serviceRows: Row[] = [
  ["the Service's pods", from(toWeb, webService), src('fd01::1'), hit],
  ['not its cluster IP', from(toWeb, webService), src('10.96.0.1'), miss],
  ['not pods of another namespace', from(toWeb, webService), src('10.1.0.2'), miss],
  ['not pods of other labels', from(toWeb, webService), src('10.1.0.3'), miss],
  ['not hostNetwork pods', from(toWeb, webService), src('10.1.0.4'), miss],
  ['not pods that succeeded', from(toWeb, webService), src('10.1.0.5'), miss],
  ['not pods that failed', from(toWeb, webService), src('10.1.0.6'), miss],
  [
    'the selector is AND-ed',
    from(toWeb, service('web', 'shop', { selector: { app: 'web', x: 'y' } })),
    src('10.1.0.1'),
    miss,
  ],
  ['a Service without selector: nothing', from(toWeb, service('web', 'shop', {})), src('10.1.0.1'), miss],
  [
    'an empty selector: nothing',
    from(toWeb, service('web', 'shop', { selector: {} })),
    src('10.1.0.1'),
    miss,
  ],
  ['an unknown Service: nothing', from(toWeb), src('10.1.0.1'), miss],
  [
    'the same name in another namespace',
    from(toWeb, service('web', 'lost', { selector: { app: 'web' } })),
    src('10.1.0.2'),
    miss,
  ],
  [
    'pending pods with an address',
    from(
      toWeb,
      webService,
      pod('p', 'shop', { labels: { app: 'web' }, status: { phase: 'Pending', podIP: '10.1.0.8' } }),
    ),
    src('10.1.0.8'),
    hit,
  ],
];

const mixed = [
  { childGroups: ['pods', 'nodes', 'blocks', 'svc'] },
  group('pods', { podSelector: { matchLabels: { app: 'none' } } }),
  group('nodes', { nodeSelector: { matchLabels: { role: 'control' } } }),
  group('blocks', block('10.5.0.0/24')),
  group('svc', toWeb),
  webService,
] as const;
const childRows: Row[] = [
  ['children of all kinds: block', from(...mixed), src('10.5.0.1'), hit],
  ['children of all kinds: Node', from(...mixed), src('203.0.113.2'), hit],
  ['children of all kinds: Service', from(...mixed), src('10.1.0.1'), hit],
  ['children of all kinds: none of them', from(...mixed), src('10.1.0.3'), miss],
  ['a child without members adds nothing', from({ childGroups: ['pods'] }, mixed[1]), src('10.1.0.3'), miss],
];

const here = block('10.5.0.1/32');
const there = block('10.6.0.1/32');
const lookupRows: Row[] = [
  ['own API group first', [byGroup(), group('g', there, antrea), group('g', here)], src('10.5.0.1'), hit],
  [
    "Antrea's policy: Antrea's group first",
    [byGroup(antrea), group('g', there), group('g', here, antrea)],
    src('10.5.0.1'),
    hit,
  ],
  ['the other one else', [byGroup(), group('g', here, antrea)], src('10.5.0.1'), hit],
  ["Antrea's policy: ours else", [byGroup(antrea), group('g', here)], src('10.5.0.1'), hit],
  ['the two are not united', [byGroup(), group('g', there), group('g', here, antrea)], src('10.5.0.1'), miss],
  [
    'a child is looked up where its parent is, not where the policy is',
    [byGroup(), group('g', { childGroups: ['c'] }, antrea), group('c', there), group('c', here, antrea)],
    src('10.5.0.1'),
    hit,
  ],
  [
    'and in the other one else',
    [byGroup(), group('g', { childGroups: ['c'] }, antrea), group('c', here)],
    src('10.5.0.1'),
    hit,
  ],
];

const workers = { nodeSelector: { matchLabels: { role: 'worker' } } };
const controls = { nodeSelector: { matchLabels: { role: 'control' } } };
const appliedRows: Row[] = [
  ['a group with this Node', onGroup(workers), {}, hit],
  ['a group without it', onGroup(controls), {}, miss],
  ['nodeSelector {}', onGroup({ nodeSelector: {} }), {}, hit],
  [
    'a child with it',
    onGroup({ childGroups: ['c', 'w'] }, group('c', controls), group('w', workers)),
    {},
    hit,
  ],
  ['children without it', onGroup({ childGroups: ['c'] }, group('c', controls)), {}, miss],
  [
    'of a rule',
    [
      policy('p', {
        appliedTo: [],
        ingress: [
          { action: 'Allow', appliedTo: [{ group: 'c' }] },
          { action: 'Drop', appliedTo: [{ group: 'c' }, { group: 'w' }] },
        ],
      }),
      group('c', controls),
      group('w', workers),
    ],
    {},
    'Drop rule p#1',
  ],
  [
    'own API group first',
    [
      policy('p', { appliedTo: [{ group: 'g' }], ingress: [{ action: 'Drop' }] }, antrea),
      group('g', controls, antrea),
      group('g', workers),
    ],
    {},
    miss,
  ],
];

describe('oracle: ClusterGroup', () => {
  checkRows({ peerRows, serviceRows, childRows, lookupRows, appliedRows });

  const unknown: Readonly<Record<string, object[]>> = {
    'no such group': [byGroup()],
    'no such child': from({ childGroups: ['c'] }),
    'two levels of nesting': from(
      { childGroups: ['c'] },
      group('c', { childGroups: ['d'] }),
      group('d', here),
    ),
    'a cycle': from({ childGroups: ['g'] }),
    'no kind': from({}),
    'two kinds': from({ ...here, ...workers }),
    'a field it does not know': from({ externalEntitySelector: {} }),
    'appliedTo a group of pods': onGroup({ podSelector: {} }),
    'appliedTo a child of addresses': onGroup(
      { childGroups: ['w', 'b'] },
      group('w', workers),
      group('b', here),
    ),
  };
  for (const [claim, objects] of Object.entries(unknown)) {
    it(`throws: ${claim}`, () => {
      assert.throws(() => oracle({ objects: [...objects, ...cluster], node: 'n1' }));
    });
  }
});
