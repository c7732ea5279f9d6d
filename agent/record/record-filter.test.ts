import assert from 'node:assert/strict';
import {
  type FilterOptions,
  fromQuery,
  matches,
  type ParsedRecord,
  toFilter,
  toQuery,
} from './record-filter.ts';

const NOW = Date.parse('2026-11-21T16:00:00Z');
const RECORD: ParsedRecord = {
  time: '2026-11-21T15:50:00.000001Z',
  node: 'cp-1',
  verdict: 'Drop',
  policy: 'p',
  tier: 'securityops',
  rule: 'r',
  label: 'admins',
  direction: 'ingress',
  src: '10.0.0.7',
  dst: '192.168.10.11',
  protocol: 'tcp',
  srcPort: 40_000,
  dstPort: 8080,
  originalDst: '203.0.113.1',
  originalDstPort: 30_080,
  interface: 'eth0',
  interfaceGroup: 'pods',
};

const shown = (options: FilterOptions, record = RECORD) => matches(record, toFilter(options, NOW));

describe('toFilter', () => {
  const YES: readonly FilterOptions[] = [
    {},
    { policy: 'p', rule: 'r', tier: 'SecurityOps', verdict: 'drop', direction: 'ingress', label: 'admins' },
    { src: '10.0.0.0/8' },
    { src: '10.0.0.7', dst: '192.168.10.11' },
    { dst: '203.0.113.0/24' },
    { port: '8080' },
    { port: '30080' },
    { protocol: 'TCP' },
    { srcPort: '40000' },
    { interface: 'eth0' },
    { interface: 'pods' },
    { since: '10m' },
    { since: '2026-11-21T15:50:00Z' },
    { deciding: true },
  ];
  const NO: readonly FilterOptions[] = [
    { policy: 'q' },
    { policy: 'p', rule: 's' },
    { verdict: 'Allow' },
    { audit: true },
    { src: '10.0.1.0/24' },
    { src: '::/0' },
    { port: '40000' },
    { srcPort: '8080' },
    { traffic: 'NodePort' },
    { icmpType: '8' },
    { protocol: 'udp' },
    { interface: 'eth' },
    { since: '9m' },
    { since: '2026-11-21T15:51:00Z' },
    { label: '' },
  ];
  for (const options of YES) it(`shows it with ${JSON.stringify(options)}`, () => assert(shown(options)));
  for (const options of NO)
    it(`leaves it out with ${JSON.stringify(options)}`, () => assert(!shown(options)));

  it('filters by Audit, and by rules after the deciding one', () => {
    const audit = { ...RECORD, audit: true, after: 'p/first' };
    assert.deepEqual(
      [shown({ audit: true }, audit), shown({ audit: true, deciding: true }, audit)],
      [true, false],
    );
  });

  it('filters by type, code and traffic', () => {
    const ping = { ...RECORD, protocol: 'icmp', icmpType: 8, icmpCode: 0, traffic: 'NodePort' };
    assert(shown({ icmpType: '8', icmpCode: '0', traffic: 'NodePort' }, ping));
    assert(!shown({ icmpType: '8', icmpCode: '1' }, ping));
    assert(shown({ igmpType: '22' }, { ...RECORD, igmpType: 22 }));
  });

  it('treats a missing field as no match', () => {
    const notice = { time: '2026-11-21T15:50:00Z', node: 'cp-1', policy: 'p', suppressed: 7 };
    assert.deepEqual(
      [shown({ policy: 'p' }, notice), shown({ policy: 'p', src: '::/0' }, notice)],
      [true, false],
    );
    assert(!shown({ since: '1h' }, { ...RECORD, time: 'x' }));
  });

  it('passes through the query of a URL unchanged', () => {
    const options = { policy: 'a b&c', src: 'fd00::/8', port: '22', since: '10m', audit: true } as const;
    assert.deepEqual(fromQuery(new URLSearchParams(toQuery(options).toString())), options);
    assert.throws(() => fromQuery(new URLSearchParams('prot=22')), /prot=22 is no parameter/);
  });

  for (const [option, text] of [
    ['src', '10.0.0.300'],
    ['dst', ''],
    ['port', 'ssh'],
    ['since', 'yesterday'],
    ['since', '7'],
  ] as const) {
    it(`rejects --${option} ${text}`, () =>
      assert.throws(() => toFilter({ [option]: text }, NOW), { status: 2 }));
  }
});
