import type { Flow } from './oracle.ts';
import type { Row } from './test-cluster.ts';
import { checkRows, policy } from './test-cluster.ts';

const from = (...groups: (number | string)[]) => [
  policy('p', { ingress: [{ action: 'Drop', from: groups.map((interfaceGroup) => ({ interfaceGroup })) }] }),
];
const to = (interfaceGroup: number | string) => [
  policy('p', { egress: [{ action: 'Drop', to: [{ interfaceGroup }] }] }),
];
const orBlock = [
  policy('p', {
    ingress: [{ action: 'Drop', from: [{ interfaceGroup: 9 }, { ipBlock: { cidr: '10.5.0.0/24' } }] }],
  }),
];
const on = (interfaceGroup: number | string): Partial<Flow> => ({ src: '10.5.1.1', interfaceGroup });
const leaving = (interfaceGroup: number | string): Partial<Flow> => ({
  ...on(interfaceGroup),
  direction: 'egress',
});
const blue = { interfaceGroups: { blue: 30 } };
const hit = 'Drop rule p#0';
const miss = 'Allow default';

const rows: Row[] = [
  ['number and number', from(9), on(9), hit],
  ['another number', from(9), on(8), miss],
  ['name and number', from('clusternet'), on(9), hit],
  ['number and name', from(8), on('pods'), hit],
  ['name and name', from('pods'), on('pods'), hit],
  ['any of them', from(7, 'pods'), on(8), hit],
  ['unknown in the flow', from(9), { src: '10.5.1.1' }, miss],
  ['group 0 is a group', from(0), on(0), hit],
  ['group 0 is not every group', from(0), on(9), miss],
  ['group 0 is not the unknown', from(0), { src: '10.5.1.1' }, miss],
  ['a flow on group 0', from(9), on(0), miss],
  ['the source may be unknown', from(9), { interfaceGroup: 9 }, hit],
  ['a name of the configuration', from('blue'), on(30), hit, blue],
  ['the flow says it', from(30), on('blue'), hit, blue],
  ['the others keep their numbers', from('pods'), on(8), hit, blue],
  [
    'a name of the configuration, in full',
    from('blue'),
    on(31),
    hit,
    { interfaceGroups: { blue: { group: 31 } } },
  ],
  ['another number for pods', from('pods'), on(20), hit, { interfaceGroups: { pods: 20 } }],
  ['the default is no longer pods', from('pods'), on(8), miss, { interfaceGroups: { pods: 20 } }],
  ['a name the flow alone knows', from(9), on('green'), miss],
  ['beside an address: the address', orBlock, { ...on(8), src: '10.5.0.1' }, hit],
  ['beside an address: the interface', orBlock, on(9), hit],
  ['beside an address: neither', orBlock, on(8), miss],
  ['egress', to('clusternet'), leaving(9), hit],
  ['egress, another', to('clusternet'), leaving(7), miss],
  ['egress to local pods is exempt before', to('pods'), leaving(8), 'Allow exempt'],
  ['egress to local pods', to('pods'), leaving(8), hit, { exemptions: { localPods: false } }],
];

describe('oracle: interfaceGroup', () => checkRows({ rows }));
