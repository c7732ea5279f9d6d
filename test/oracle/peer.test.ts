import assert from 'node:assert/strict';
import type { Names } from './flow.ts';
import { oracle } from './oracle.ts';
import { checkRows, cluster, policy, type Row } from './test-cluster.ts';

const names: Names = {
  'example.com': ['10.7.0.1'],
  'api.example.com': ['10.7.0.2', 'fd07::2'],
  'a.b.example.com': ['10.7.0.3'],
  'notexample.com': ['10.7.0.4'],
  'API.Example.org.': ['10.7.0.5'],
  'gone.example.com': [],
};
const peers = (...fqdns: string[]) => fqdns.map((fqdn) => ({ fqdn }));
const to = (...fqdns: string[]) => [policy('p', { egress: [{ action: 'Drop', to: peers(...fqdns) }] })];
const row = (claim: string, fqdns: string[], dst: string, expected: string): Row => {
  return [claim, to(...fqdns), { direction: 'egress', dst }, expected, {}, names];
};
const hit = 'Drop rule p#0';
const miss = 'Allow default';

const rows: Row[] = [
  row('the name', ['api.example.com'], '10.7.0.2', hit),
  row('its other address', ['api.example.com'], 'fd07:0::2', hit),
  row('an address of another name', ['api.example.com'], '10.7.0.1', miss),
  row('a name that resolves to nothing', ['gone.example.com'], '10.7.0.1', miss),
  row('a name that nobody knows', ['nobody.example.com'], '10.7.0.1', miss),
  row('case', ['API.EXAMPLE.COM'], '10.7.0.2', hit),
  row('a trailing dot', ['api.example.com.'], '10.7.0.2', hit),
  row('case and dot of the file', ['api.example.org'], '10.7.0.5', hit),
  row('wildcard: one label', ['*.example.com'], '10.7.0.2', hit),
  row('wildcard: two labels', ['*.example.com'], '10.7.0.3', hit),
  row('wildcard: not the bare domain', ['*.example.com'], '10.7.0.1', miss),
  row('wildcard: whole labels only', ['*.example.com'], '10.7.0.4', miss),
  row('wildcard: case and dot', ['*.EXAMPLE.org.'], '10.7.0.5', hit),
  row('wildcard that matches nothing', ['*.api.example.com'], '10.7.0.2', miss),
  row('the name is no suffix', ['b.example.com'], '10.7.0.3', miss),
  row('names are OR-ed', ['*.api.example.com', 'example.com'], '10.7.0.1', hit),
  ['the destination is unknown', to('example.com'), { direction: 'egress' }, miss, {}, names],
  ['without names: nothing', to('example.com'), { direction: 'egress', dst: '10.7.0.1' }, miss],
  ['without names: not any address either', to('*.com'), { direction: 'egress' }, miss],
  [
    'a name that resolves to nothing, beside a block',
    [
      policy('p', {
        egress: [{ action: 'Drop', to: [...peers('x.y'), { ipBlock: { cidr: '10.8.0.0/16' } }] }],
      }),
    ],
    { direction: 'egress', dst: '10.8.0.1' },
    hit,
  ],
];

describe('oracle: fqdn', () => {
  checkRows({ rows });

  it('throws on a name without addresses', () => {
    const objects = [...to('example.com'), ...cluster];
    assert.throws(() => oracle({ objects, node: 'n1', names: { 'example.com': ['localhost'] } }));
  });
});
