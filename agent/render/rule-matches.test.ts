import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { PortMatch } from '../../apis/compiled.ts';
import { ruleText } from './nft-text.ts';
import { serviceMatches } from './rule-matches.ts';
import type { MatchOf } from './ruleset.ts';

function texts(services: readonly PortMatch[]): string[] {
  return serviceMatches(services).map((matches) =>
    ruleText({ matches, counter: false, statement: { kind: 'drop' }, comment: null }).replace(/ ?drop$/, ''),
  );
}

/** Port matches, and nft's text for them. */
const TABLE: readonly [string, readonly PortMatch[], readonly string[]][] = [
  ['nothing named', [], ['']],
  ['a port', [{ protocol: 'tcp', ports: [80, 80] }], ['tcp dport 80']],
  ['a range', [{ protocol: 'udp', ports: [80, 90] }], ['udp dport 80-90']],
  [
    'ports, merged',
    [
      { protocol: 'tcp', ports: [90, 99] },
      { protocol: 'tcp', ports: [80, 90] },
      { protocol: 'tcp', ports: [22, 22] },
    ],
    ['tcp dport { 22, 80-99 }'],
  ],
  ['a protocol', [{ protocol: 'sctp' }], ['meta l4proto sctp']],
  ['protocols', [{ protocol: 'udp' }, { protocol: 'tcp' }], ['meta l4proto { tcp, udp }']],
  [
    'a protocol and a port of it',
    [{ protocol: 'tcp' }, { protocol: 'tcp', ports: [80, 80] }],
    ['meta l4proto tcp'],
  ],
  ['a source port', [{ protocol: 'tcp', sourcePorts: [1, 9] }], ['tcp sport 1-9']],
  [
    'source and destination',
    [{ protocol: 'tcp', ports: [80, 80], sourcePorts: [1, 9] }],
    ['tcp sport 1-9 tcp dport 80'],
  ],
  [
    'two protocols',
    [
      { protocol: 'tcp', ports: [53, 53] },
      { protocol: 'udp', ports: [53, 53] },
    ],
    ['meta l4proto . th dport { tcp . 53, udp . 53 }'],
  ],
  ['whole ICMP', [{ protocol: 'icmp' }, { protocol: 'icmpv6' }], ['meta l4proto { icmp, icmpv6 }']],
  ['an ICMP type', [{ protocol: 'icmp', type: 8 }], ['icmp type 8']],
  ['a type and code', [{ protocol: 'icmpv6', type: 1, code: 4 }], ['icmpv6 type 1 icmpv6 code 4']],
  [
    'types, some with codes',
    [
      { protocol: 'icmp', type: 8 },
      { protocol: 'icmp', type: 3, code: 4 },
      { protocol: 'icmp', type: 8, code: 0 },
    ],
    ['icmp type . icmp code { 3 . 4, 8 . 0-255 }'],
  ],
  ['a type beside whole ICMP', [{ protocol: 'icmp' }, { protocol: 'icmp', type: 8 }], ['meta l4proto icmp']],
  [
    'ports, ICMP and IGMP',
    [
      { protocol: 'tcp', ports: [80, 80] },
      { protocol: 'icmp', type: 8 },
      { protocol: 'icmpv6', type: 128 },
      { protocol: 'igmp' },
    ],
    ['tcp dport 80', 'meta l4proto igmp', 'icmp type 8', 'icmpv6 type 128'],
  ],
  [
    'IGMP by type and group',
    [
      { protocol: 'igmp', type: 22, group: '224.0.0.22' },
      { protocol: 'igmp', group: '224.0.0.1' },
      { protocol: 'igmp', type: 34 },
      { protocol: 'igmp', type: 17 },
    ],
    ['igmp type 22 ip daddr 224.0.0.22', 'meta l4proto igmp ip daddr 224.0.0.1', 'igmp type { 17, 34 }'],
  ],
  [
    'protocols by number, whole and by group',
    [
      { protocol: 112, group: 'ff02::12' },
      { protocol: 89, group: 'ff02::12' },
      { protocol: 89, group: '224.0.0.5' },
      { protocol: 50, group: '224.0.0.5' },
      { protocol: 50 },
      { protocol: 'igmp' },
      { protocol: 9 },
    ],
    [
      'meta l4proto { igmp, 9, 50 }',
      'meta l4proto { 89, 112 } ip6 daddr ff02::12',
      'meta l4proto 89 ip daddr 224.0.0.5',
    ],
  ],
];

describe('servicematch', () => {
  for (const [title, services, wanted] of TABLE) {
    it(title, () => assert.deepEqual(texts(services), wanted));
  }

  it('makes disjoint tuples that cover exactly the Services', () => {
    const port = fc.integer({ min: 1, max: 12 });
    const range = fc.tuple(port, port).map(([a, b]) => [Math.min(a, b), Math.max(a, b)] as const);
    const service = fc.record(
      { protocol: fc.constantFrom('tcp', 'udp'), ports: range, sourcePorts: range },
      { requiredKeys: ['protocol'] },
    ) as fc.Arbitrary<Extract<PortMatch, { protocol: 'tcp' | 'udp' | 'sctp' }>>;
    const isIn = (number: number, [first, last]: readonly [number, number] = [0, 65535]) =>
      first <= number && number <= last;
    fc.assert(
      fc.property(fc.array(service, { minLength: 1, maxLength: 5 }), (services) => {
        for (const match of serviceMatches(services).flat()) {
          if (match.match === 'portTuple') assertTuples(match, services, isIn);
        }
      }),
      { numRuns: 300 },
    );
  });
});

function assertTuples(
  { tuples, withSourcePort }: MatchOf<'portTuple'>,
  services: readonly Extract<PortMatch, { protocol: 'tcp' | 'udp' | 'sctp' }>[],
  isIn: (number: number, range?: readonly [number, number]) => boolean,
): void {
  for (const protocol of ['tcp', 'udp'] as const) {
    for (let from = 0; from < 14; from++) {
      for (let to = 0; to < 14; to++) {
        const found = tuples.filter(
          (tuple) =>
            tuple.protocol === protocol &&
            (!withSourcePort || isIn(from, tuple.sourcePorts)) &&
            isIn(to, tuple.ports),
        );
        const wanted = services.some(
          (one) => one.protocol === protocol && isIn(from, one.sourcePorts) && isIn(to, one.ports),
        );
        assert.equal(found.length, wanted ? 1 : 0, `${protocol} ${from} to ${to}`);
      }
    }
  }
}
