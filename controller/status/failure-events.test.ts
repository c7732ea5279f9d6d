import assert from 'node:assert/strict';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import { type FakeKubeApi, fakeKubeApi } from '../../test/fake/kube-api.ts';
import { FailureEvents } from './failure-events.ts';

const EVENTS = '/apis/events.k8s.io/v1/namespaces/default/events';
const POLICY = { name: 'protect-api', uid: '0123456789abcdef' };

describe('failureEvents', () => {
  let api: FakeKubeApi;
  let clock: FakeClock;
  let events: FailureEvents;

  beforeEach(() => {
    api = fakeKubeApi();
    clock = fakeClock();
    const date = (): Date => new Date(1_750_000_000_000 + clock.now());
    events = new FailureEvents({
      request: api.request,
      clock: Object.assign(clock, { date }),
      identity: 'controller-1',
      failed: (error) => assert.fail(error as Error),
    });
  });

  async function pass(seconds: number): Promise<void> {
    for (let i = 0; i < seconds; i++) {
      clock.pass(1_000);
      for (let j = 0; j < 4; j++) await new Promise(setImmediate);
    }
  }

  const all = () => [...api.objects].filter(([path]) => path.startsWith(EVENTS)).map(([, event]) => event);
  const fail = (...nodes: readonly string[]): void =>
    events.failing(
      POLICY,
      nodes.map((node) => ({ node, rule: 'r', reason: 'no memory' })),
    );

  it('combines several nodes in one event on the policy', async () => {
    fail('n1');
    fail('n2', 'n1');
    await pass(3);
    const [event, ...others] = all();
    assert.deepEqual(others, []);
    assert.equal(
      event?.note,
      '2 nodes cannot enforce the policy: n1 (rule r: no memory), n2 (rule r: no memory)',
    );
    assert.deepEqual(event.regarding, {
      apiVersion: 'nodewall.io/v1alpha1',
      kind: 'ClusterNetworkPolicy',
      ...POLICY,
    });
    assert.deepEqual([event.type, event.reason, event.action], ['Warning', 'NodesFailed', 'Enforce']);
    assert.match(String(event.eventTime), /^2025-06-15T15:06:42\.000000Z$/);
  });

  it('says of a node what it reported, after everything else, and 60 of it wait at most', async () => {
    const said = { type: 'Warning', reason: 'NodewallDriftRepaired', note: 'once' } as const;
    events.happened('n1', said);
    events.happened('n1', { ...said, note: '2 times' });
    fail('n2');
    await pass(5);
    const [first, second] = all();
    assert.equal(first?.reason, 'NodesFailed');
    assert.deepEqual(
      [second?.reason, second?.note, second?.regarding],
      ['NodewallDriftRepaired', '2 times', { apiVersion: 'v1', kind: 'Node', name: 'n1', uid: 'n1' }],
    );
    for (let node = 0; node < 100; node++) events.happened(`many-${node}`, said);
    await pass(200);
    assert.equal(all().length, 2 + 60);
  });

  it('counts up within ten minutes, and creates a new event after that or if the event was deleted', async () => {
    const series = () => all().map((event) => (event.series as { count: number } | undefined)?.count);
    fail('n1');
    await pass(3);
    fail('n2');
    await pass(3);
    assert.deepEqual(series(), [2]);
    api.objects.clear();
    fail('n3');
    await pass(3);
    assert.deepEqual(series(), [undefined]);
    await pass(600);
    fail('n4');
    await pass(3);
    assert.equal(all().length, 2);
  });

  it('writes of a gate without a value as often as what it says changes', async () => {
    for (const said of ['1 node', '1 node', '3 nodes']) {
      events.gateUnset(said);
      await pass(3);
    }
    assert.deepEqual(
      all().map(({ note, series }) => [note, (series as { count: number } | undefined)?.count]),
      [
        ['1 node', 2],
        ['3 nodes', undefined],
      ],
    );
  });

  it('writes one event a second, and none after clear', async () => {
    for (let i = 0; i < 5; i++)
      events.failing({ name: `p${i}`, uid: `uid-${i}` }, [{ node: 'n', reason: 'r' }]);
    await pass(3);
    assert.equal(all().length, 2);
    await events.clear();
    await pass(10);
    assert.equal(all().length, 2);
  });

  it('writes events on Nodes before those on policies, up to a limit', async () => {
    fail('n1');
    events.troubled('n1', 'the agent cannot follow the controller: x');
    await pass(3);
    assert.deepEqual(
      all().map(({ regarding, reason, note }) => [(regarding as { kind: string }).kind, reason, note]),
      [
        ['Node', 'NodewallNotEnforced', 'the agent cannot follow the controller: x'],
        ['ClusterNetworkPolicy', 'NodesFailed', '1 node cannot enforce the policy: n1 (rule r: no memory)'],
      ],
    );
    assert.deepEqual(all()[0]?.regarding, { apiVersion: 'v1', kind: 'Node', name: 'n1', uid: 'n1' });
    events.troubled('n1', 'again');
    for (let i = 0; i < 1000; i++) events.troubled(`m${i}`, 'x');
    await pass(200);
    const [first = assert.fail()] = all();
    assert.equal((first.series as { count: number }).count, 2);
    assert.equal(all().length, 2 + 59);
  });

  it("shortens notes to the API's limit", async () => {
    fail(...Array.from({ length: 100 }, (_, i) => `node-with-a-name-${i}`));
    await pass(3);
    assert.equal(Buffer.byteLength(String(all()[0]?.note)), 1_024);
    // A long reason from one node must not prevent the events of others.
    events.failing({ name: `${'a'.repeat(199)}.b`, uid: 'f'.repeat(16) }, [
      { node: 'n1', reason: '💥'.repeat(250) },
    ]);
    await pass(3);
    const [, event] = all();
    assert.ok(Buffer.byteLength(String(event?.note)) <= 1_024);
    assert.match(String(event?.note), /^1 node cannot enforce the policy: n1 \((💥)+…$/u);
    // An RFC 1123 subdomain.
    const { name = '' } = (event?.metadata ?? {}) as { name?: string };
    assert.match(name, /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/);
  });
});
