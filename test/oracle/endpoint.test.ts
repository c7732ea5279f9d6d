import type { Flow } from './oracle.ts';
import type { Row } from './test-cluster.ts';
import { checkRows, pod, policy, service } from './test-cluster.ts';

/** A slice of Service web in shop unless the metadata say otherwise. */
function slice(endpoints: object[], ports: object[] | undefined, metadata: object = {}): object {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 's', namespace: 'shop', labels: { 'kubernetes.io/service-name': 'web' }, ...metadata },
    addressType: 'IPv4',
    endpoints,
    ports,
  };
}

const web = service('web', 'shop', {
  clusterIP: '10.96.0.1',
  clusterIPs: ['10.96.0.1', 'fd96::1'],
  ports: [
    { name: 'http', port: 80, targetPort: 8080 },
    { name: 'dns', protocol: 'UDP', port: 53 },
  ],
});
const toServices = (...names: string[]) =>
  policy('p', {
    egress: [{ action: 'Drop', toServices: names.map((name) => ({ name, namespace: 'shop' })) }],
  });
const behind = (podIP: string, namespace = 'shop', spec: object = {}) =>
  pod(`behind ${podIP}`, namespace, { spec, status: { podIP } });
const toWeb = (...objects: object[]) => [toServices('web'), ...objects, ...behindWeb];
const behindWeb = ['10.1.0.1', '10.1.0.2', 'fd01::1'].map((podIP) => behind(podIP));
const at = (dst: string, dstPort: number, protocol: string | number = 'tcp'): Partial<Flow> => {
  return { direction: 'egress', dst, dstPort, protocol };
};
const endpoint = (address: string, conditions?: object) => ({ addresses: [address], conditions });
const hit = 'Drop rule p#0';
const miss = 'Allow default';

const clusterIPRows: Row[] = [
  ['a cluster IP with its port', toWeb(web), at('10.96.0.1', 80), hit],
  ['the other family', toWeb(web), at('fd96::1', 80), hit],
  ['the other port', toWeb(web), at('10.96.0.1', 53, 'udp'), hit],
  ['the protocol by number', toWeb(web), at('10.96.0.1', 80, 6), hit],
  ['the port of another protocol', toWeb(web), at('10.96.0.1', 53), miss],
  ['the target port is not the cluster IP’s', toWeb(web), at('10.96.0.1', 8080), miss],
  ['another address', toWeb(web), at('10.96.0.2', 80), miss],
  ['destination unknown', toWeb(web), { direction: 'egress', protocol: 'tcp', dstPort: 80 }, miss],
  ['port unknown', toWeb(web), { direction: 'egress', protocol: 'tcp', dst: '10.96.0.1' }, miss],
  ['protocol unknown', toWeb(web), { direction: 'egress', dstPort: 80, dst: '10.96.0.1' }, miss],
  [
    'clusterIP alone',
    toWeb(service('web', 'shop', { clusterIP: '10.96.0.1', ports: [{ port: 80 }] })),
    at('10.96.0.1', 80),
    hit,
  ],
  [
    'headless',
    toWeb(service('web', 'shop', { clusterIP: 'None', clusterIPs: ['None'], ports: [{ port: 80 }] })),
    at('10.96.0.1', 80),
    miss,
  ],
  ['an unknown Service matches nothing', [toServices('web')], at('10.96.0.1', 80), miss],
  [
    'the same name in another namespace',
    toWeb(service('web', 'lost', { clusterIP: '10.96.0.1', ports: [{ port: 80 }] })),
    at('10.96.0.1', 80),
    miss,
  ],
  ['the second Service', [toServices('ghost', 'web'), web], at('10.96.0.1', 80), hit],
  [
    'no cross product between Services',
    [
      toServices('web', 'db'),
      web,
      service('db', 'shop', { clusterIP: '10.96.0.2', ports: [{ port: 5432 }] }),
    ],
    at('10.96.0.2', 80),
    miss,
  ],
  [
    'an empty list is as if absent',
    [policy('p', { egress: [{ action: 'Drop', toServices: [] }] })],
    at('10.96.0.2', 80),
    hit,
  ],
  ['Services of a List', toWeb({ apiVersion: 'v1', kind: 'List', items: [web] }), at('10.96.0.1', 80), hit],
];

const http = [{ name: 'http', port: 8080 }];
const one = slice([endpoint('10.1.0.1')], http);
const two = slice([endpoint('10.1.0.2')], [{ protocol: 'SCTP', port: 9090 }], { name: 't' });
const sliceRows: Row[] = [
  ['an endpoint with its target port', toWeb(web, one), at('10.1.0.1', 8080), hit],
  ['the service port is not the endpoint’s', toWeb(web, one), at('10.1.0.1', 80), miss],
  [
    'the target port of the Service does not count',
    toWeb(web, slice([endpoint('10.1.0.1')], [{ port: 1 }])),
    at('10.1.0.1', 8080),
    miss,
  ],
  ['ready', toWeb(web, slice([endpoint('10.1.0.1', { ready: true })], http)), at('10.1.0.1', 8080), hit],
  [
    'not ready',
    toWeb(web, slice([endpoint('10.1.0.1', { ready: false })], http)),
    at('10.1.0.1', 8080),
    miss,
  ],
  [
    'not ready, though serving',
    toWeb(web, slice([endpoint('10.1.0.1', { ready: false, serving: true })], http)),
    at('10.1.0.1', 8080),
    miss,
  ],
  ['no word on readiness', toWeb(web, slice([endpoint('10.1.0.1', {})], http)), at('10.1.0.1', 8080), hit],
  [
    'readiness null',
    toWeb(web, slice([endpoint('10.1.0.1', { ready: null })], http)),
    at('10.1.0.1', 8080),
    hit,
  ],
  [
    'every address of an endpoint',
    toWeb(web, slice([{ addresses: ['10.1.0.1', '10.1.0.2'] }], http)),
    at('10.1.0.2', 8080),
    hit,
  ],
  [
    'every port of a slice',
    toWeb(web, slice([endpoint('10.1.0.1')], [...http, { port: 9 }])),
    at('10.1.0.1', 9),
    hit,
  ],
  ['a second slice', toWeb(web, one, two), at('10.1.0.2', 9090, 'sctp'), hit],
  ['no cross product between slices', toWeb(web, one, two), at('10.1.0.2', 8080), miss],
  ['nor the other way round', toWeb(web, one, two), at('10.1.0.1', 9090, 'sctp'), miss],
  ['nor with the cluster IPs', toWeb(web, one), at('10.96.0.1', 8080), miss],
  [
    'a port without a number',
    toWeb(web, slice([endpoint('10.1.0.1')], [{ name: 'x' }])),
    at('10.1.0.1', 80),
    miss,
  ],
  [
    'a port that is null',
    toWeb(web, slice([endpoint('10.1.0.1')], [{ port: null }])),
    at('10.1.0.1', 80),
    miss,
  ],
  ['no ports', toWeb(web, slice([endpoint('10.1.0.1')], undefined)), at('10.1.0.1', 80), miss],
  [
    'a headless Service has its endpoints',
    toWeb(service('web', 'shop', { clusterIP: 'None' }), one),
    at('10.1.0.1', 8080),
    hit,
  ],
  ['a Service without selector too', toWeb(service('web', 'shop', {}), one), at('10.1.0.1', 8080), hit],
  ['slices of an unknown Service', toWeb(one), at('10.1.0.1', 8080), miss],
  [
    'slices of another namespace',
    toWeb(web, slice([endpoint('10.1.0.1')], http, { namespace: 'lost' })),
    at('10.1.0.1', 8080),
    miss,
  ],
  [
    'slices without the label',
    toWeb(web, slice([endpoint('10.1.0.1')], http, { name: 'web-1', labels: {} })),
    at('10.1.0.1', 8080),
    miss,
  ],
  ['IPv6', toWeb(web, slice([endpoint('fd01:0::1')], http)), at('fd01::1', 8080), hit],
  ['names are no addresses', toWeb(web, slice([endpoint('example.com')], http)), at('10.1.0.1', 8080), miss],
];

const third = slice([endpoint('10.1.7.7')], http);
const stray = [toServices('web'), web, third];
const podRows: Row[] = [
  ['no pod has the address', stray, at('10.1.7.7', 8080), miss],
  ['a pod has it', [...stray, behind('10.1.7.7')], at('10.1.7.7', 8080), hit],
  [
    'with hostNetwork',
    [...stray, behind('10.1.7.7', 'shop', { hostNetwork: true })],
    at('10.1.7.7', 8080),
    hit,
  ],
  ['of another namespace', [...stray, behind('10.1.7.7', 'lost')], at('10.1.7.7', 8080), miss],
  [
    'a finished pod had it',
    [...stray, pod('p', 'shop', { status: { podIP: '10.1.7.7', phase: 'Succeeded' } })],
    at('10.1.7.7', 8080),
    miss,
  ],
  [
    'a reference to a pod proves nothing',
    [
      ...[toServices('web'), web, behind('10.1.7.9')],
      slice([{ ...endpoint('10.1.7.7'), targetRef: { kind: 'Pod', name: 'behind 10.1.7.9' } }], http),
    ],
    at('10.1.7.7', 8080),
    miss,
  ],
];

const dns = service('dns', 'shop', { clusterIP: '8.8.8.8', ports: [{ protocol: 'UDP', port: 53 }] });
const failsafeRows: Row[] = [
  ['toServices names what it closes', [toServices('dns'), dns], at('8.8.8.8', 53, 'udp'), hit],
  [
    'an empty list names nothing',
    [policy('p', { egress: [{ action: 'Drop', toServices: [] }] })],
    at('8.8.8.8', 53, 'udp'),
    'Allow failsafe',
  ],
];

describe('oracle: toServices', () => checkRows({ clusterIPRows, sliceRows, podRows, failsafeRows }));
