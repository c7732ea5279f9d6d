import assert from 'node:assert/strict';
import type { Flow } from '../flow.ts';
import { mayBeInRow, type Row } from './row.ts';

const ROW: Row = {
  direction: 'ingress',
  traffic: 'Host',
  peers: ['192.0.2.0-192.0.2.9', '2001:db8::-2001:db8::f'],
  interfaceGroups: null,
  protocols: [[6, 6]],
  ports: [[80, 81]],
  sourcePorts: null,
  icmp: null,
  igmp: null,
  before: 'Allow',
  after: 'Drop',
  ruleBefore: null,
  ruleAfter: null,
};
const FLOW: Flow = { direction: 'ingress', src: '192.0.2.9', protocol: 'tcp', dstPort: 80 };

describe('a flow in a row', () => {
  const cases: readonly [string, boolean, Partial<Flow>, Partial<Row>?][] = [
    ['at the end of a range', true, {}],
    ['one beyond', false, { src: '192.0.2.10' }],
    ['of the other family', true, { src: '2001:db8::1' }],
    ['of any peer', true, { src: '203.0.113.1' }, { peers: null }],
    ['of the other direction', false, { direction: 'egress', dst: '192.0.2.9' }],
    ['of a NodePort', false, { traffic: 'NodePort' }],
    ['of another protocol', false, { protocol: 17 }],
    ['of another port', false, { dstPort: 82 }],
    ['from a port that is not known', true, {}, { sourcePorts: [[1, 2]] }],
    ['from another port', false, { srcPort: 3 }, { sourcePorts: [[1, 2]] }],
    ['by a link group', true, { interfaceGroup: 7 }, { interfaceGroups: [[7, 7]] }],
    ['by another link group', false, { interfaceGroup: 8 }, { interfaceGroups: [[7, 7]] }],
    [
      'of an ICMP type',
      true,
      { protocol: 'icmp', icmpType: 8 },
      { protocols: null, ports: null, icmp: { types: [[8, 8]], codes: null } },
    ],
    [
      'of another ICMP type',
      false,
      { protocol: 'icmp', icmpType: 0 },
      { protocols: null, ports: null, icmp: { types: [[8, 8]], codes: null } },
    ],
  ];
  for (const [what, isIn, flow, row] of cases) {
    it(`${isIn ? 'is' : 'is not'} there: ${what}`, () => {
      const { src, ...rest } = { ...FLOW, ...flow };
      const whole = rest.direction === 'egress' ? rest : { ...rest, src: src as string };
      assert.equal(mayBeInRow({ ...ROW, ...row }, whole), isIn);
    });
  }
});
