import assert from 'node:assert/strict';
import { parseAddress } from '../../lib/net/address.ts';
import type { EgressPart, EgressValues } from './entries.ts';
import { readEgressEntry, readEnd, toWrittenEntry } from './entry-json.ts';

const at = (text: string): bigint => parseAddress(text)?.value ?? assert.fail(text);
const range = { first: at('192.0.2.1'), last: at('192.0.2.9') };
const POLICY = { apiGroup: 'nodewall.io', kind: 'EgressPolicy', namespace: 'shop', name: 'p' } as const;
const MAC = '0e:00:00:00:00:01';

/** An entry of each part, and of each variant. */
const ENTRIES: { readonly [P in EgressPart]: readonly (readonly [string, EgressValues[P]])[] } = {
  sources: [
    ['192.0.2.1', 'c'],
    ['2001:db8::1', null],
  ],
  pods: [['shop/a/uid', null]],
  subnets: [['192.0.2.1-192.0.2.9', 'c']],
  classes: [['c', { id: 'c', ipv4: [{ range, outcome: 'o' }], ipv6: [] }]],
  outcomes: [
    ['o', { id: 'o', policy: POLICY, audited: [POLICY], established: 'Recheck', action: { kind: 'direct' } }],
    ['o', { id: 'o', policy: null, audited: [], action: { kind: 'pass' } }],
    ['o', { id: 'o', policy: null, audited: [], action: { kind: 'take', take: 63 } }],
    ['o', { id: 'o', policy: null, audited: [], action: { kind: 'drop', reason: 'policy' } }],
    [
      'o',
      {
        id: 'o',
        policy: null,
        audited: [],
        action: { kind: 'slots', slots: [1], reserve: [2], otherwise: 'Direct' },
      },
    ],
  ],
  slots: [['1', { node: 'a', take: 0, floating: 's g' }]],
  peers: [['a', { node: 'a', address: '192.0.2.1', mac: MAC, key: '', networks: ['10.0.0.0/24'] }]],
  arrivals: [
    ['192.0.2.1', { node: 'a', takes: [{ range, take: 1 }] }],
    ['192.0.2.1', { node: 'a', class: 'c', takes: [] }],
  ],
  served: [['c', { nodes: ['a'], ipv4: [{ range, take: 1 }], ipv6: [] }]],
  takes: [
    ['1', { kind: 'floating', ipv4: ['192.0.2.1'], ipv6: ['2001:db8::1'] }],
    ['1', { kind: 'node', interface: null }],
  ],
  owned: [
    [
      's g',
      {
        slot: 's',
        gateway: 'g',
        epoch: 0,
        addresses: ['192.0.2.1'],
        announce: 'L2',
        leaseMilliseconds: 2000,
      },
    ],
  ],
  candidacies: [
    [
      'g',
      {
        gateway: 'g',
        source: 'Floating',
        heartbeatMilliseconds: 500,
        probes: [{ address: '192.0.2.1', port: 443, seconds: 5, failures: 3 }],
      },
    ],
  ],
};

/** Values that no variant of the part allows; the key is the first of the entries. */
const WRONG: readonly (readonly [EgressPart, unknown])[] = [
  ['sources', 7],
  ['subnets', ''],
  ['classes', { ipv4: [] }],
  ['outcomes', { audited: [], action: { kind: 'direct', take: 1 } }],
  ['outcomes', { audited: [], action: { kind: 'take' } }],
  ['outcomes', { audited: [], action: { kind: 'bounce' } }],
  ['slots', { node: 'a', take: 64 }],
  ['peers', { address: 'here', mac: MAC }],
  ['peers', { address: '192.0.2.1', mac: MAC, key: 'one' }],
  ['arrivals', { node: 'a' }],
  ['arrivals', { node: 'a', class: 'c', takes: [] }],
  ['takes', { kind: 'floating', ipv4: ['2001:db8::1'], ipv6: [] }],
  ['owned', { epoch: 0, addresses: ['x'], announce: 'L2', leaseMilliseconds: 1 }],
  ['candidacies', { source: 'Node', heartbeatMilliseconds: 0, probes: [] }],
];

describe('an entry of egress gateways', () => {
  for (const [part, entries] of Object.entries(ENTRIES) as [EgressPart, [string, never][]][]) {
    it(`of ${part} is read as it was written`, () => {
      for (const [key, value] of entries) {
        const written = JSON.parse(JSON.stringify(toWrittenEntry(part, key, value)));
        assert.deepEqual(readEgressEntry(part, key, written), value);
        if (typeof written === 'string') continue;
        const newer = { ...written, more: 1 };
        assert.throws(
          () => readEgressEntry(part, key, newer),
          /; is the controller newer than this agent\?$/,
        );
      }
    });
  }

  it('is refused where its key or value is not valid', () => {
    for (const [part, value] of WRONG) {
      const [[key] = assert.fail()] = ENTRIES[part];
      assert.throws(
        () => readEgressEntry(part, key, value),
        /^Error: egress: .*: must be /,
        JSON.stringify(value),
      );
    }
    assert.throws(() => readEgressEntry('slots', '64', { node: 'a', take: 0 }), /"64" is no key of slots/);
    assert.throws(() => readEgressEntry('subnets', 'here', 'c'), /"here" is not a valid range/);
    assert.throws(() => readEnd({ node: 'a', address: '192.0.2.1', mac: 'x' }), /mac: must be a MAC/);
  });
});
