import assert from 'node:assert/strict';
import type { ClusterObjects, EndpointSlice, Node, Pod, Service } from '../../apis/objects.ts';
import { formatMembers } from '../../lib/net/member-set.ts';
import { serviceIndex } from '../index/name-index.ts';
import { ObjectIndex } from '../index/object-index.ts';
import { type AddressPeer, canonicalPeers } from './address-set.ts';
import { AddressSets } from './address-sets.ts';

const pod = (name: string, app: string, address: string, namespace = 'shop'): Pod => ({
  kind: 'Pod',
  namespace,
  name,
  labels: { app },
  serviceAccount: 'default',
  addresses: [address],
});
const node = (name: string, address: string): Node => ({
  kind: 'Node',
  name,
  labels: { role: 'worker' },
  addresses: [address],
});
const service: Service = {
  kind: 'Service',
  namespace: 'shop',
  name: 'web',
  selector: { app: 'web' },
  clusterIPs: [],
  ports: [],
};

type State = Pick<ClusterObjects, 'nodes' | 'namespaces' | 'pods' | 'services'> & {
  readonly endpointSlices: readonly EndpointSlice[];
};

const START: State = {
  nodes: [node('n', '192.0.2.1')],
  namespaces: [{ kind: 'Namespace', name: 'shop', labels: { team: 'red' } }],
  pods: [pod('a', 'web', '10.0.0.1'), pod('b', 'db', '10.0.0.2')],
  services: [service],
  endpointSlices: [],
};

const PEERS: Readonly<Record<string, AddressPeer[]>> = {
  web: [{ podSelector: { matchLabels: { app: 'web' } } }],
  nodes: [{ nodeSelector: { matchLabels: { role: 'worker' } } }],
  red: [{ podSelector: {}, namespaceSelector: { matchLabels: { team: 'red' } } }],
  account: [{ serviceAccount: { namespace: 'shop', name: 'default' } }],
  service: [{ serviceReference: { namespace: 'shop', name: 'web' } }],
  mixed: [
    { podSelector: { matchLabels: { app: 'web' } } },
    { nodeSelector: {} },
    { ipBlock: { cidr: '10.9.0.0/16' } },
  ],
};

/**
 * Returns the sets after each state, and the names of those that are different objects than before.
 */
function following() {
  const empty: State = { nodes: [], namespaces: [], pods: [], services: [], endpointSlices: [] };
  const world = { index: new ObjectIndex(empty), services: serviceIndex(empty) };
  const sets = new AddressSets(world);
  const named = Object.entries(PEERS).map(([name, peers]) => [name, canonicalPeers(peers)] as const);
  let added = named.map(([, peers]) => peers);
  let last: ReturnType<typeof sets.advance> = new Map();
  return (next: State) => {
    const change = world.index.difference(next);
    const losses = sets.losses(change);
    world.index.advance(next, change);
    const services = world.services.advance(next);
    const found = sets.advance({ wanted: { added, removed: [] }, change, losses, services });
    const changed = named.flatMap(([name, { id }]) => (found.get(id) === last.get(id) ? [] : name));
    added = [];
    last = found;
    const members = named.map(([name, { id }]) => {
      const set = found.get(id);
      return [name, set === undefined ? null : formatMembers(set.members)] as const;
    });
    return { changed, ...Object.fromEntries(members) } as Record<string, string[]>;
  };
}

describe('addressSets', () => {
  it('replaces only sets whose selected objects were added or removed', () => {
    const to = following();
    assert.equal(to(START).changed?.length, 6);
    const more = { ...START, pods: [...START.pods, pod('c', 'db', '10.0.0.3', 'lost')] };
    assert.deepEqual(to(more).changed, []);
    const web = { ...more, pods: [...more.pods, pod('d', 'web', '10.0.0.4')] };
    const found = to(web);
    assert.deepEqual(found.changed, ['web', 'red', 'account', 'service', 'mixed']);
    assert.deepEqual(found.web, ['10.0.0.1', '10.0.0.4']);
    assert.deepEqual(found.mixed, ['10.0.0.1', '10.0.0.4', '10.9.0.0/16', '192.0.2.1']);
    assert.deepEqual(to({ ...web, nodes: [] }).changed, ['nodes', 'mixed']);
  });

  it('follows a relabelled namespace and a changed Service selector', () => {
    const to = following();
    to(START);
    const blue = { ...START, namespaces: [] };
    const found = to(blue);
    assert.deepEqual([found.changed, found.red], [['red'], []]);
    assert.deepEqual(to(START).red, ['10.0.0.1', '10.0.0.2']);
    const other = to({ ...START, services: [{ ...service, selector: { app: 'db' } }] });
    assert.deepEqual([other.changed, other.service], [['service'], ['10.0.0.2']]);
    assert.deepEqual(to({ ...START, services: [] }).service, []);
  });

  it('keeps an address that another pod, a node or a block also has', () => {
    const to = following();
    const shared = {
      ...START,
      nodes: [node('n', '10.0.0.1')],
      pods: [...START.pods, pod('e', 'web', '10.0.0.1', 'lost'), pod('f', 'web', '10.9.0.7')],
    };
    to(shared);
    const less = { ...shared, pods: shared.pods.slice(1) };
    const found = to(less);
    assert.deepEqual(found.changed, ['red', 'account', 'service'], 'the pod in another namespace has it');
    const none = to({ ...shared, pods: [pod('f', 'db', '10.9.0.7')] });
    assert.deepEqual(none.web, []);
    assert.deepEqual(none.mixed, ['10.0.0.1', '10.9.0.0/16'], 'the node, and the block');
  });

  it('gives the same sets when many changes make it resolve everything again', () => {
    const many = Array.from({ length: 40 }, (_, i) =>
      pod(`m${i}`, i % 2 === 0 ? 'web' : 'db', `10.1.0.${i}`),
    );
    const to = following();
    to(START);
    const found = to({ ...START, pods: many });
    assert.equal(found.web?.length, 20);
    assert.deepEqual(found.changed, ['web', 'red', 'account', 'service', 'mixed']);
    assert.deepEqual(to({ ...START, pods: many.map((one) => ({ ...one })) }).changed, []);
  });
});
