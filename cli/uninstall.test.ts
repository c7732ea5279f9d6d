import assert from 'node:assert/strict';
import { NODE_VIEWS_PATH } from '../apis/stream.ts';
import type { KubeApi, KubeRequest } from '../controller/kubeapi/kube-api.ts';
import { KubeError } from '../controller/kubeapi/kube-error.ts';
import { SwitchedOffNodes } from './uninstall.ts';

interface Report {
  readonly time: string;
  readonly enabled: boolean;
  readonly enforced: string | null;
}

const ENFORCING: Report = { time: '10:00', enabled: true, enforced: 'e.1' };
const CLEARED: Report = { time: '10:01', enabled: false, enforced: null };

describe('SwitchedOffNodes', () => {
  let nodes: { metadata: { name: string; labels?: Record<string, string> } }[];
  let reports: Map<string, Report>;
  let failure: KubeError | null;
  let off: SwitchedOffNodes;

  const request: KubeApi = async <T>({ path }: KubeRequest): Promise<T> => {
    if (path === '/api/v1/nodes') return { items: nodes } as T;
    assert.equal(path, NODE_VIEWS_PATH);
    if (failure !== null) throw failure;
    const items = nodes.map(({ metadata }) => ({ metadata, status: reports.get(metadata.name) }));
    return { items } as T;
  };

  beforeEach(async () => {
    nodes = ['a', 'b'].map((name) => ({ metadata: { name } }));
    reports = new Map(nodes.map(({ metadata }) => [metadata.name, ENFORCING]));
    failure = null;
    off = new SwitchedOffNodes(request);
    await off.begin();
  });

  const reasons = async (): Promise<Record<string, string>> =>
    Object.fromEntries((await off.list()).uncleared.map(({ node, reason }) => [node, reason]));

  it('counts a node that has reported since that nothing is in force', async () => {
    reports.set('a', CLEARED);
    assert.deepEqual(await off.list(), {
      nodes: 2,
      uncleared: [{ node: 'b', reason: 'its agent has not reported since 10:00' }],
    });
    reports.set('b', CLEARED);
    assert.deepEqual(await reasons(), {});
  });

  it('does not count what was reported before', async () => {
    reports.set('a', CLEARED);
    off = new SwitchedOffNodes(request);
    await off.begin();
    assert.match((await reasons()).a ?? '', /not reported since 10:01/);
  });

  it('names nodes whose rules are in force, and those that never reported', async () => {
    reports.set('a', { ...ENFORCING, time: '10:02' });
    reports.delete('b');
    assert.deepEqual(await reasons(), {
      a: 'its last report, of 10:02, is of rules in force',
      b: 'its agent has not reported to the controllers that run now',
    });
    // Rules that an agent found at its start, and has not looked at yet.
    reports.set('a', { ...CLEARED, enforced: 'e.1' });
    assert.match((await reasons()).a ?? '', /^its last report, of .*, is of rules in force$/);
  });

  it('names all nodes while no controller answers', async () => {
    for (const status of [404, 503]) {
      failure = new KubeError('no', { status, reason: status === 404 ? 'NotFound' : 'ServiceUnavailable' });
      assert.deepEqual(Object.keys(await reasons()), ['a', 'b']);
    }
    failure = new KubeError('no pod answers by kubectl exec', { reason: 'Unreachable' });
    assert.deepEqual(await reasons(), { a: failure.message, b: failure.message });
    failure = new KubeError('no', { status: 403, reason: 'Forbidden' });
    await assert.rejects(off.list(), KubeError);
  });

  it('does not wait for nodes on which no agent can run', async () => {
    nodes.push({ metadata: { name: 'w', labels: { 'kubernetes.io/os': 'windows' } } });
    assert.equal((await off.list()).nodes, 2);
  });

  it('asks for nodes that come meanwhile', async () => {
    for (const name of ['a', 'b']) reports.set(name, CLEARED);
    nodes.push({ metadata: { name: 'c' } });
    assert.deepEqual(Object.keys(await reasons()), ['c']);
  });
});
