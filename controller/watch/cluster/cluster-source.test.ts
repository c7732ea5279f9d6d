import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { KubeConfig } from '@kubernetes/client-node';
import fc from 'fast-check';
import type { ClusterObjects } from '../../../apis/objects.ts';
import {
  type FakeApi,
  type FakeObject,
  type FakeRequest,
  type Fault,
  fakeApi,
} from '../../../test/fake/fake-api.ts';
import { until as poll } from '../../../test/kernel/until.ts';
import { cases } from '../../../test/properties/runs.ts';
import type { Snapshot } from '../source.ts';
import { ClusterSource, type ClusterSourceOptions } from './cluster-source.ts';
import type { FailureReason } from './transport.ts';
import type { WatchNotice, WatchTimes } from './watch-failures.ts';

const PODS = '/api/v1/pods';
const NODES = '/api/v1/nodes';
const SERVICES = '/api/v1/services';
const POLICIES = '/apis/nodewall.io/v1alpha1/clusternetworkpolicies';
const GROUPS = '/apis/nodewall.io/v1alpha1/clustergroups';
const TIERS = '/apis/nodewall.io/v1alpha1/tiers';
const ANTREA_POLICIES = '/apis/crd.antrea.io/v1beta1/clusternetworkpolicies';
const BUILT_IN = [NODES, '/api/v1/namespaces', PODS, SERVICES, '/apis/discovery.k8s.io/v1/endpointslices'];

const TIMES: WatchTimes = {
  answer: 300,
  idle: 300,
  watch: [1000, 2000],
  firstWait: 1,
  longestWait: 20,
  longestReconnect: 20,
  catchUp: 0,
  absent: 20,
  absence: 60,
  relist: [1e8, 1e8],
  overlap: 50,
  proof: 50,
};

const node = (name: string, address = '192.0.2.1'): FakeObject => {
  return { metadata: { name }, status: { addresses: [{ type: 'InternalIP', address }] } };
};
const pod = (name: string, address: string, phase = 'Running'): FakeObject => {
  return { metadata: { name, namespace: 'default' }, spec: {}, status: { podIP: address, phase } };
};
const policy = (name: string, spec: object = {}, uid = 'u'): FakeObject => {
  return { metadata: { name, uid }, spec: { priority: 5, appliedTo: [{ nodeSelector: {} }], ...spec } };
};
const service = (name: string): FakeObject => ({ metadata: { name, namespace: 'default' }, spec: {} });
const tier = (name: string, priority: unknown): FakeObject => ({ metadata: { name }, spec: { priority } });

describe('ClusterSource', () => {
  let api: FakeApi;
  let source: ClusterSource;
  const corrections = (): number => source.metrics().reduce((sum, one) => sum + one.corrections, 0);
  let latest: Snapshot | null;
  let notices: WatchNotice[];
  let happened: EventEmitter<{ it: [] }>;

  beforeEach(async () => {
    api = await fakeApi();
    for (const collection of [...BUILT_IN, POLICIES, GROUPS, TIERS]) api.install(collection);
  });
  afterEach(async () => {
    await source.close();
    await api.close();
  });

  function start(options: Partial<ClusterSourceOptions> = {}): void {
    const kubeConfig = new KubeConfig();
    const cluster = { name: 'fake', server: api.server, skipTLSVerify: true };
    kubeConfig.loadFromClusterAndUser(cluster, { name: 'user', token: 'secret' });
    latest = null;
    notices = [];
    happened = new EventEmitter();
    source = new ClusterSource({
      kubeConfig,
      quiet: 1,
      longest: 10,
      onNotice(notice) {
        notices.push(notice);
        happened.emit('it');
      },
      ...options,
      times: { ...TIMES, ...options.times },
    });
    void source.start((snapshot) => {
      latest = snapshot;
      happened.emit('it');
    });
    api.events.on('request', () => happened.emit('it'));
  }

  /** Checks the condition after every delivery, notice and request. */
  async function until(isSo: () => boolean): Promise<void> {
    while (!isSo()) await new Promise<void>((resolve) => happened.once('it', resolve));
  }
  const objects = (): ClusterObjects => latest?.objects ?? assert.fail('nothing is delivered');
  const names = (list: keyof ClusterObjects): string =>
    objects()
      [list].map(({ name }) => name)
      .join(' ');
  const metricsOf = (resource: string) =>
    source.metrics().find((one) => one.resource === resource) ?? assert.fail(resource);
  const noticed = (event: WatchNotice['event'], resource: string) =>
    notices.find((notice) => notice.event === event && notice.resource === resource);
  /** Applies the fault to the next request of this kind only. */
  const once = (kind: FakeRequest['kind'], collection: string, fault: Fault): void => {
    let isDone = false;
    api.fault = (request) => {
      if (isDone || request.kind !== kind || request.collection !== collection) return null;
      isDone = true;
      return fault;
    };
  };

  it('proves that no watch is behind: a watch that delivers nothing is listed again', async () => {
    const [policyName, last] = ['p', 'n1'];
    api.fault = ({ kind, collection }) =>
      kind === 'watch' && [POLICIES, NODES].includes(collection) ? { do: 'silence' } : null;
    start({ times: { idle: 60_000 } });
    await until(() => latest !== null && api.watches() === BUILT_IN.length + 3);
    api.put(POLICIES, policy(policyName));
    api.put(NODES, node(last));
    // The API server's watch cache is behind, as that of a replica without a connection to etcd.
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.deepEqual([names('policies'), names('nodes')], ['', '']);
    const lists: string[] = [];
    api.events.on('request', ({ kind, collection, query }) => {
      const isAbsent = collection.includes('antrea') || collection.endsWith('guardrails');
      if (kind === 'list' && query.get('limit') !== '1' && !isAbsent) lists.push(collection);
    });
    await source.prove();
    assert.deepEqual([names('policies'), names('nodes')], [policyName, last]);
    // Bookmarks prove the others. A busy machine may list twice what its watch does not deliver.
    assert.deepEqual([...new Set(lists)].sort(), [NODES, POLICIES].sort());
  });

  it('proves nothing while the API server does not answer, and again once it does', async () => {
    start();
    await until(() => latest !== null);
    let isOver = false;
    api.fault = ({ kind, query }) =>
      kind === 'list' && query.get('limit') === '1' ? { do: 'answer', status: 503 } : null;
    const proof = source.prove().then(() => {
      isOver = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.equal(isOver, false);
    api.put(NODES, node('n1'));
    api.fault = () => null;
    await proof;
    assert.equal(names('nodes'), 'n1');
  });

  it('proves it while a watch from an older version has no answer yet', async () => {
    start({ times: { answer: 60_000 } });
    await until(() => latest !== null && api.watches() === BUILT_IN.length + 3);
    once('watch', NODES, { do: 'hang' });
    api.cut(NODES);
    await until(() => api.watches() === BUILT_IN.length + 2);
    api.put(NODES, node('n1'));
    await source.prove();
    assert.equal(names('nodes'), 'n1');
  });

  it('proves an API server that was set back to older data by listing again', async () => {
    api.put(NODES, node('n1'));
    start();
    await until(() => latest !== null);
    api.fault = ({ kind }) => (kind === 'watch' ? { do: 'silence' } : null);
    for (const collection of BUILT_IN) api.cut(collection);
    await until(() => api.watches() === BUILT_IN.length + 3);
    api.setBack(10);
    api.put(NODES, node('n2'));
    await source.prove();
    assert.equal(names('nodes'), 'n2');
  });

  it('delivers one snapshot when everything is listed, then each change', async () => {
    api.put(NODES, node('n1'));
    api.put(PODS, pod('p2', '10.0.0.2'));
    api.put(PODS, pod('p1', '10.0.0.1'));
    api.put(POLICIES, policy('one'));
    start();
    await source.synced;
    assert.equal(latest?.complete, true);
    assert.deepEqual([names('nodes'), names('pods'), names('policies')], ['n1', 'p1 p2', 'one']);
    assert.deepEqual(latest?.problems, []);
    const before = objects();
    api.put(PODS, pod('p1', '10.0.0.9'));
    await until(() => objects().pods[0]?.addresses[0] === '10.0.0.9');
    assert.equal(objects().pods[1], before.pods[1]);
    for (const list of ['nodes', 'namespaces', 'services', 'endpointSlices', 'policies', 'tiers'] as const) {
      assert.equal(objects()[list], before[list], list);
    }
    api.remove(PODS, pod('p1', ''));
    await until(() => names('pods') === 'p2');
    api.put(PODS, pod('p2', '10.0.0.2', 'Succeeded'));
    await until(() => names('pods') === '');
    assert.equal(corrections(), 0);
  });

  it('delivers nothing before everything is listed', async () => {
    once('list', GROUPS, { do: 'hang' });
    api.put(POLICIES, policy('one', { appliedTo: [{ group: 'g' }] }));
    api.put(GROUPS, { metadata: { name: 'g' }, spec: { nodeSelector: {} } });
    start();
    await until(() => metricsOf('clusternetworkpolicies.nodewall.io').state === 'watching');
    assert.equal(notices.length > 0 && latest === null, true);
    await source.synced;
    assert.deepEqual([names('policies'), latest?.problems], ['one', []]);
  });

  it('sends its credentials, and reads a changed token again', async () => {
    const asked: FakeRequest[] = [];
    api.fault = (request) => {
      asked.push(request);
      return null;
    };
    start();
    await until(() => api.watches() === 8);
    assert.ok(asked.every(({ headers }) => headers.authorization === 'Bearer secret'));
    const pods = asked.find(({ collection, kind }) => collection === PODS && kind === 'watch');
    assert.equal(pods?.query.get('fieldSelector'), 'status.phase!=Succeeded,status.phase!=Failed');
    assert.equal(pods?.query.get('allowWatchBookmarks'), 'true');
    const seconds = Number(pods?.query.get('timeoutSeconds'));
    assert.ok(seconds >= 1 && seconds <= 2);
  });

  it('reads lists in pages, larger ones after a list expired', async () => {
    for (let i = 0; i < 1203; i++) api.put(PODS, pod(`p${i}`, `10.0.${i >> 8}.${i & 255}`));
    const limits: string[] = [];
    api.fault = ({ collection, kind, query }) => {
      if (collection !== PODS || kind !== 'list') return null;
      limits.push(`${query.get('limit')}${query.has('continue') ? '…' : ''}`);
      if (limits.length === 2) api.compact();
      return null;
    };
    start();
    await source.synced;
    assert.equal(objects().pods.length, 1203);
    assert.deepEqual(limits, ['500', '500…', '2000']);
  });

  it('keeps the last valid version, and reports the problem', async () => {
    api.put(POLICIES, policy('one'));
    api.put(TIERS, tier('t', 7));
    start();
    await source.synced;
    const before = objects();
    api.put(POLICIES, policy('one', { priority: 'high' }));
    api.put(TIERS, tier('t', 700));
    await until(() => latest?.problems.length === 2);
    assert.equal(objects().policies, before.policies);
    assert.equal(objects().tiers, before.tiers);
    const said = latest?.problems.map(({ kind, name, path, file, line }) => [kind, name, path, file, line]);
    assert.deepEqual(said, [
      ['ClusterNetworkPolicy', 'one', 'spec.priority', '', 0],
      ['Tier', 't', 'spec.priority', '', 0],
    ]);
    api.put(POLICIES, policy('one', { priority: 8 }));
    await until(() => objects().policies[0]?.spec.priority === 8);
    api.remove(TIERS, tier('t', 0));
    await until(() => objects().tiers.length === 0);
    assert.deepEqual(latest?.problems, []);
  });

  it('starts with the last valid version from the status of an invalid policy', async () => {
    const spec = { priority: 3, appliedTo: [{ nodeSelector: {} }], tier: 'baseline' };
    const status = (enforcedSpec: string) => ({ enforcedGeneration: 4, enforcedSpec });
    const invalid = (name: string, enforced: string) => ({
      ...policy(name, { priority: 'high' }),
      status: status(enforced),
    });
    await api.put(POLICIES, invalid('inherited', JSON.stringify(spec)));
    await api.put(POLICIES, invalid('garbled', '{'));
    await api.put(POLICIES, invalid('invalid', '{"priority":"low"}'));
    start();
    await source.synced;
    const [only, ...others] = latest?.objects.policies ?? [];
    assert.deepEqual([only?.name, only?.generation, only?.spec.priority], ['inherited', 4, 3]);
    assert.equal(others.length, 0);
    // From now on the last valid version is the one seen by this process.
    await api.put(POLICIES, policy('inherited', { priority: 7 }));
    await until(() => latest?.objects.policies[0]?.spec.priority === 7);
    await api.put(POLICIES, invalid('inherited', JSON.stringify(spec)));
    await until(() => (latest?.problems.length ?? 0) === 3);
    assert.equal(latest?.objects.policies[0]?.spec.priority, 7);
  });

  it('does not keep the last valid version of a recreated policy', async () => {
    api.put(POLICIES, policy('one'));
    api.put(POLICIES, policy('two'));
    start();
    await source.synced;
    api.remove(POLICIES, policy('one'));
    api.put(POLICIES, policy('one', { priority: 'high' }, 'another'));
    await until(() => names('policies') === 'two');
    assert.equal(latest?.problems.length, 1);
  });

  it('reports no problem for status and for ignored fields', async () => {
    api.put(POLICIES, policy('one'));
    start();
    await source.synced;
    const before = latest;
    let count = 0;
    happened.on('it', () => count++);
    api.put(POLICIES, { ...policy('one'), status: { phase: 'Realized' } });
    api.put(POLICIES, { ...policy('one'), metadata: { ...policy('one').metadata, labels: { a: 'b' } } });
    const events = () => metricsOf('clusternetworkpolicies.nodewall.io').events;
    // A change of another resource is delivered after all earlier changes.
    await until(() => events() === 2 || api.watches() === 0 || count > 100);
    api.put(NODES, node('n1'));
    await until(() => names('nodes') === 'n1');
    assert.equal(objects().policies, before?.objects.policies);
    assert.equal(latest?.problems, before?.problems);
  });

  it('warns about Services while they do not exist', async () => {
    const rule = { action: 'Allow', toServices: [{ name: 's', namespace: 'default' }] };
    api.put(POLICIES, policy('one', { egress: [rule] }));
    start();
    await source.synced;
    assert.match(latest?.problems[0]?.message ?? '', /no Service default\/s/);
    api.put(SERVICES, service('other'));
    await until(() => names('services') === 'other');
    assert.equal(latest?.problems.length, 1);
    api.put(SERVICES, service('s'));
    await until(() => latest?.problems.length === 0);
    api.remove(SERVICES, service('s'));
    await until(() => latest?.problems.length === 1);
  });

  it('keeps the last valid version of a Node, and reports the problem', async () => {
    api.put(NODES, node('n1'));
    start();
    await source.synced;
    api.put(NODES, { metadata: { name: 'n1' }, status: { addresses: 'many' } });
    await until(() => latest?.problems.length === 1);
    assert.deepEqual(objects().nodes[0]?.addresses, ['192.0.2.1']);
    api.remove(NODES, node('n1'));
    await until(() => names('nodes') === '');
    assert.deepEqual(latest?.problems, []);
  });

  it('works without CRDs, and notices when they are added and removed', async () => {
    api.put(ANTREA_POLICIES, policy('theirs'));
    api.uninstall(ANTREA_POLICIES);
    start();
    await source.synced;
    assert.equal(noticed('absent', 'clusternetworkpolicies.crd.antrea.io')?.event, 'absent');
    assert.equal(metricsOf('clusternetworkpolicies.crd.antrea.io').state, 'absent');
    api.put(ANTREA_POLICIES, policy('theirs'));
    await until(() => names('policies') === 'theirs');
    notices = [];
    api.uninstall(ANTREA_POLICIES);
    await until(() => names('policies') === '');
    await until(() => noticed('absent', 'clusternetworkpolicies.crd.antrea.io') !== undefined);
  });

  describe('for egress gateways', () => {
    const GATEWAYS = '/apis/nodewall.io/v1alpha1/egressgateways';
    const EGRESS_POLICIES = '/apis/nodewall.io/v1alpha1/egresspolicies';
    const SERVICE_CIDRS = '/apis/networking.k8s.io/v1/servicecidrs';
    const selected = { nodeSelector: { matchLabels: { gateway: 'true' } } };
    const ofNode = { ...pod('p1', '10.0.0.1'), spec: { nodeName: 'n1' } };

    it('reads gateways, policies, networks of Services, and the Nodes of pods', async () => {
      for (const collection of [GATEWAYS, EGRESS_POLICIES, SERVICE_CIDRS]) api.install(collection);
      api.put(SERVICE_CIDRS, { metadata: { name: 'kubernetes' }, spec: { cidrs: ['10.96.0.0/16'] } });
      api.put(PODS, ofNode);
      api.put(PODS, { ...pod('p2', '192.0.2.1'), spec: { nodeName: 'n1', hostNetwork: true } });
      start({ egress: true });
      await until(() => latest !== null);
      assert.deepEqual(
        objects().pods.map(({ name, node: of, hostNetwork = false, addresses }) => [
          name,
          of,
          hostNetwork,
          addresses,
        ]),
        [
          ['p1', 'n1', false, ['10.0.0.1']],
          ['p2', 'n1', true, []],
        ],
      );
      assert.deepEqual(
        objects().insideNetworks.map(({ cidrs }) => cidrs),
        [['10.96.0.0/16']],
      );
      api.put(GATEWAYS, {
        metadata: { name: 'gw', uid: 'u' },
        spec: { ...selected, source: 'Node', colour: 1 },
      });
      await until(() => latest?.problems.some(({ path }) => path === 'spec.colour') === true);
      api.put(GATEWAYS, { metadata: { name: 'gw', uid: 'u' }, spec: { ...selected, source: 'Node' } });
      await until(() => names('egressGateways') === 'gw');
      const spec = { appliedTo: [{ podSelector: {} }], gateway: 'gw' };
      api.put(EGRESS_POLICIES, { metadata: { name: 'p', namespace: 'shop', uid: 'v' }, spec });
      await until(() => names('egressPolicies') === 'p');
      await until(
        () =>
          latest?.problems.some(({ kind, name }) => kind === 'EgressPolicy' && name === 'shop/p') === true,
      );
      const slots = [{ name: '0', node: 'n1', epoch: 1, addresses: [] }];
      const status = { nodes: [{ name: 'n1', ready: true }], slots };
      api.put(GATEWAYS, {
        metadata: { name: 'gw', uid: 'u' },
        spec: { ...selected, source: 'Node' },
        status,
      });
      await until(() => objects().egressGateways[0]?.status?.slots[0]?.node === 'n1');
      assert.equal(source.metrics().length, 12 + 5);
    });

    it('reads nothing while the gate is off', async () => {
      for (const collection of [GATEWAYS, EGRESS_POLICIES]) api.install(collection);
      api.put(GATEWAYS, { metadata: { name: 'gw' }, spec: { ...selected, source: 'Node' } });
      api.put(PODS, ofNode);
      const asked: string[] = [];
      api.events.on('request', ({ collection }) => asked.push(collection));
      start();
      await until(() => latest !== null);
      assert.deepEqual([names('egressGateways'), objects().pods[0]?.node], ['', undefined]);
      assert.ok(!asked.some((collection) => collection.includes('egress') || collection.includes('cidr')));
    });
  });

  it('notices a CRD that is removed between list and watch', async () => {
    start();
    await source.synced;
    let isSeen = false;
    api.fault = ({ collection, kind }) => {
      if (collection !== ANTREA_POLICIES || kind !== 'watch' || isSeen) return null;
      isSeen = true;
      api.uninstall(ANTREA_POLICIES);
      return null;
    };
    api.put(ANTREA_POLICIES, policy('theirs'));
    await until(() => names('policies') === 'theirs');
    await until(() => names('policies') === '');
  });

  it('keeps the objects while their CRD is missing for a moment', async () => {
    api.put(POLICIES, policy('one'));
    start({ times: { absence: 1e9 } });
    await source.synced;
    let isUnknown = true;
    api.fault = ({ collection }) => {
      if (!isUnknown) return null;
      if (collection === POLICIES) return { do: 'answer', status: 404 };
      const isDiscovery = collection === '/apis/nodewall.io/v1alpha1';
      return isDiscovery ? { do: 'answer', status: 200, body: '{"resources":[]}' } : null;
    };
    api.cut(POLICIES);
    await until(() => metricsOf('clusternetworkpolicies.nodewall.io').failures.missing > 3);
    assert.equal(names('policies'), 'one');
    isUnknown = false;
    api.put(POLICIES, policy('two'));
    await until(() => names('policies') === 'one two');
  });

  it('keeps the objects at a 404 that discovery does not confirm', async () => {
    api.put(POLICIES, policy('one'));
    start();
    await source.synced;
    let isBroken = true;
    api.fault = ({ collection }) =>
      isBroken && collection === POLICIES ? { do: 'answer', status: 404 } : null;
    api.cut(POLICIES);
    await until(() => metricsOf('clusternetworkpolicies.nodewall.io').failures.missing > 3);
    assert.equal(names('policies'), 'one');
    isBroken = false;
    api.put(POLICIES, policy('two'));
    await until(() => names('policies') === 'one two');
  });

  const FAULTS: Readonly<Record<string, Fault>> = {
    'a broken connection': { do: 'drop' },
    'no answer': { do: 'hang' },
    'an answer broken off': { do: 'truncate', isClean: false },
    'an answer cut short': { do: 'truncate', isClean: true },
    'a server error': { do: 'answer', status: 500, body: 'oops' },
    'too many requests': { do: 'answer', status: 429, retryAfter: 0.01 },
    'a token that is refused': { do: 'answer', status: 401 },
    'permission refused': { do: 'answer', status: 403, body: '{"kind":"Status","message":"no"}' },
    'a page of somebody else': { do: 'answer', status: 200, body: '<html>' },
  };
  for (const [name, fault] of Object.entries(FAULTS)) {
    it(`continues after ${name}`, async () => {
      once('list', PODS, fault);
      start();
      await source.synced;
      assert.ok(noticed('failed', 'pods'));
      notices = [];
      once('watch', PODS, fault);
      api.cut(PODS);
      await until(() => noticed('failed', 'pods') !== undefined);
      api.put(PODS, pod('p1', '10.0.0.1'));
      await until(() => names('pods') === 'p1');
      await until(() => noticed('recovered', 'pods') !== undefined);
    });
  }

  const STREAM_FAULTS: Readonly<Record<string, Fault>> = {
    'a watch that ends at once': { do: 'end' },
    'a watch on which nothing comes': { do: 'silence' },
    'events told twice': { do: 'duplicate' },
    'events out of order': { do: 'swap' },
    'late events': { do: 'delay', milliseconds: 30 },
    'a line that is not valid JSON': { do: 'line', line: '{"type":"ADDED","object":{"metada' },
    'an event without a version': { do: 'line', line: '{"type":"ADDED","object":{"metadata":{"name":"x"}}}' },
    'an event of an unknown type': { do: 'line', line: '{"type":"RENAMED","object":{}}' },
    'an error in the stream': { do: 'line', line: '{"type":"ERROR","object":{"code":500}}' },
    '410 in the stream': { do: 'line', line: '{"type":"ERROR","object":{"code":410,"reason":"Expired"}}' },
  };
  const REASONS = new Map<string, FailureReason>([
    ['a watch that ends at once', 'unreachable'],
    ['a watch on which nothing comes', 'silent'],
    ['events out of order', 'disordered'],
    ['a line that is not valid JSON', 'malformed'],
    ['an event without a version', 'malformed'],
    ['an event of an unknown type', 'malformed'],
    ['an error in the stream', 'serverError'],
    ['410 in the stream', 'expired'],
  ]);
  for (const [name, fault] of Object.entries(STREAM_FAULTS)) {
    it(`misses no change with ${name}`, async () => {
      once('watch', PODS, fault);
      api.put(PODS, pod('p1', '10.0.0.1'));
      start();
      await source.synced;
      api.put(PODS, pod('p1', '10.0.0.2'));
      api.put(PODS, pod('p2', '10.0.0.3'));
      api.remove(PODS, pod('p1', ''));
      api.put(PODS, pod('p3', '10.0.0.4'));
      await until(() => names('pods') === 'p2 p3');
      assert.equal(corrections(), 0);
      const reason = REASONS.get(name);
      if (reason !== undefined) assert.equal(metricsOf('pods').failures[reason], 1);
    });
  }

  it('lists again if watches from a version keep failing', async () => {
    let lists = 0;
    api.fault = ({ collection, kind }) => {
      if (collection !== PODS) return null;
      if (kind === 'list') lists++;
      return kind === 'watch' && lists < 2 ? { do: 'line', line: 'nonsense' } : null;
    };
    start();
    await until(() => lists === 2);
    await source.synced;
    api.put(PODS, pod('p1', '10.0.0.1'));
    await until(() => names('pods') === 'p1');
  });

  it("waits as long as the server's Retry-After says", async () => {
    once('list', PODS, { do: 'answer', status: 429, retryAfter: 60 });
    start();
    await until(() => noticed('failed', 'pods') !== undefined);
    const notice = noticed('failed', 'pods');
    assert.equal(notice?.event === 'failed' && notice.retryIn, 60_000);
    assert.equal(notice?.event === 'failed' && notice.reason, 'throttled');
  });

  it('waits only briefly for an unreachable server, and restarts its back-off when the server answers', async () => {
    const waits = (): number[] =>
      notices.flatMap((one) => (one.event === 'failed' && one.resource === 'pods' ? [one.retryIn] : []));
    api.fault = ({ collection }) => (collection === PODS ? { do: 'drop' } : null);
    start({ random: () => 1, times: { firstWait: 1, longestReconnect: 2, longestWait: 100 } });
    await until(() => waits().length === 5);
    // Notices are given for the failures 1, 2, 4, 8 and 16.
    assert.deepEqual(waits(), [1, 2, 2, 2, 2]);
    api.fault = ({ collection }) => (collection === PODS ? { do: 'answer', status: 500 } : null);
    await until(() => waits().length === 7);
    const [first = 0, second = 0] = waits().slice(5);
    assert.ok(first === 1 && second > 2 && second <= 100, `${waits()}`);
  });

  it('is not current while a watch is broken', async () => {
    start({ times: { catchUp: 20 } });
    await source.synced;
    await poll('caught up', async () => source.isCurrent());
    api.fault = ({ collection, kind }) => (collection === TIERS && kind === 'watch' ? { do: 'hang' } : null);
    api.cut(TIERS);
    await poll('behind', async () => !source.isCurrent());
    api.fault = () => null;
    await poll('caught up again', async () => source.isCurrent());
  });

  it('finds and counts changes that events missed', async () => {
    api.put(PODS, pod('p1', '10.0.0.1'));
    once('watch', PODS, { do: 'lose' });
    start({ times: { relist: [100, 150] } });
    await source.synced;
    await until(() => api.watches() === 8);
    api.remove(PODS, pod('p1', ''));
    api.put(PODS, pod('p2', '10.0.0.2'));
    await until(() => names('pods') === 'p2');
    assert.equal(corrections(), 1);
    assert.deepEqual(noticed('corrected', 'pods'), {
      resource: 'pods',
      event: 'corrected',
      corrections: 1,
      objects: ['default/p1'],
    });
  });

  for (const [by, fault] of [
    ['a bookmark', null],
    ['a list', { do: 'silence' }],
  ] as const) {
    it(`starts again if ${by} shows that the server was reset to older data`, async () => {
      const first = api.put(PODS, pod('p1', '10.0.0.1'));
      api.put(PODS, pod('p2', '10.0.0.1'));
      api.fault = ({ kind }) => (kind === 'watch' ? fault : null);
      start({ times: { relist: fault === null ? [1e8, 1e8] : [30, 50], idle: 1e8, watch: [1e8, 1e8] } });
      await source.synced;
      await until(() => api.watches() === 8);
      assert.equal(names('pods'), 'p1 p2');
      api.setBack(first - 1);
      // This p1 gets the same version as the p1 before the data was set back.
      api.put(PODS, pod('p1', '10.0.0.2'));
      await until(() => names('pods') === 'p1' && objects().pods[0]?.addresses[0] === '10.0.0.2');
      assert.ok(metricsOf('pods').failures.disordered > 0);
    });
  }

  it('keeps a watch that receives data in time', async () => {
    start({ times: { idle: 400, watch: [1e8, 1e8] } });
    await source.synced;
    await poll('so many bookmarks', async () => metricsOf('pods').bookmarks > 40);
    const { watches, failures } = metricsOf('pods');
    assert.deepEqual([watches, failures.silent], [1, 0]);
  });

  it('closes at once, whatever it waits for', async () => {
    api.fault = () => ({ do: 'hang' });
    start({ times: { answer: 1e8 } });
    let requests = 0;
    api.events.on('request', () => requests++);
    await until(() => requests === 11);
    await source.close();
    assert.equal(metricsOf('pods').state, 'closed');
  });

  it("ends with the server's objects, whatever fails", async function () {
    this.timeout(120_000);
    const key = fc.constantFrom('a', 'b', 'c', 'd');
    const change = fc.oneof(
      fc.record({ step: fc.constant('put' as const), key, value: fc.nat(250) }),
      fc.record({ step: fc.constant('remove' as const), key }),
    );
    const wrong: fc.Arbitrary<Fault> = fc.constantFrom<Fault>(
      ...Object.values(FAULTS).filter((fault) => fault.do !== 'hang'),
      ...Object.values(STREAM_FAULTS).filter((fault) => fault.do !== 'silence'),
      { do: 'lose' },
    );
    const step = fc.oneof(
      { weight: 4, arbitrary: change },
      { weight: 3, arbitrary: wrong.map((fault) => ({ step: 'fault' as const, fault })) },
      { weight: 1, arbitrary: fc.constant({ step: 'compact' as const }) },
      { weight: 2, arbitrary: fc.constant({ step: 'request' as const }) },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
        const faults: Fault[] = [];
        api.fault = ({ collection }) => (collection === PODS ? (faults.shift() ?? null) : null);
        start({ times: { relist: [20, 40], overlap: 10, answer: 100, idle: 100 } });
        for (const one of steps) {
          if (one.step === 'put') api.put(PODS, pod(one.key, `10.0.0.${one.value}`));
          else if (one.step === 'remove') api.remove(PODS, pod(one.key, ''));
          else if (one.step === 'fault') faults.push(one.fault);
          else if (one.step === 'compact') api.compact();
          else await new Promise<void>((resolve) => api.events.once('request', () => resolve()));
        }
        const text = (list: readonly { name: string; addresses: readonly string[] }[]): string =>
          list.map(({ name, addresses: [address] }) => `${name}=${address}`).join(' ');
        const wanted = (): string =>
          text(
            api
              .objects(PODS)
              .map(({ metadata: { name }, status }) => {
                return { name, addresses: [(status as { podIP: string }).podIP] };
              })
              .sort((a, b) => (a.name < b.name ? -1 : 1)),
          );
        await source.synced;
        await until(() => text(objects().pods) === wanted() && faults.length === 0);
        await source.close();
      }),
      { numRuns: cases(60) },
    );
  });
});
