import assert from 'node:assert/strict';
import type { EndpointSlice, Service } from '../../apis/objects.ts';
import { serviceIndex } from './name-index.ts';

const service = (namespace: string, name: string): Service => ({
  kind: 'Service',
  namespace,
  name,
  selector: null,
  clusterIPs: [],
  ports: [],
});
const slice = (namespace: string, of: string, name: string): EndpointSlice => ({
  kind: 'EndpointSlice',
  namespace,
  name,
  service: of,
  addresses: [],
  ports: [],
});

describe('serviceIndex', () => {
  const web = service('shop', 'web');
  const other = service('lost', 'web');
  const slices = [
    slice('shop', 'web', 'web-1'),
    slice('lost', 'web', 'web-2'),
    slice('shop', 'web', 'web-3'),
  ];
  const index = serviceIndex({ services: [web, other], endpointSlices: slices });

  it('finds a Service only in its namespace', () => {
    assert.equal(index.service({ namespace: 'shop', name: 'web' }), web);
    assert.equal(index.service({ namespace: 'shop', name: 'db' }), undefined);
  });

  it('finds the EndpointSlices that name a Service, in its namespace', () => {
    const of = (namespace: string, name: string) =>
      [...index.endpointSlices({ namespace, name })].map((found) => found.name);
    assert.deepEqual(of('shop', 'web'), ['web-1', 'web-3']);
    assert.deepEqual(of('lost', 'web'), ['web-2']);
    assert.deepEqual(of('lost', 'web-2'), []);
  });

  it('follows added and removed objects, and returns the names of changed Services', () => {
    const following = serviceIndex({ services: [web, other], endpointSlices: slices });
    assert.deepEqual([...following.advance({ services: [other], endpointSlices: [] })], [], 'nobody asked');
    following.service(web);
    following.endpointSlices(web);
    const newer = { ...web, clusterIPs: ['10.96.0.1'] };
    const next = { services: [newer, other], endpointSlices: slices.slice(1) };
    assert.deepEqual([...following.advance(next)].sort(), ['lost/web', 'shop/web']);
    assert.equal(following.service(web), newer);
    assert.deepEqual([...following.endpointSlices(web)], slices.slice(2));
    assert.deepEqual([...following.advance(next)], []);
  });
});
