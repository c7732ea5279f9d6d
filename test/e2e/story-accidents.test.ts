/**
 * Administrators delete by mistake, and apply again: nothing opens, and nothing is locked. One
 * controller, and agents that ask the API server themselves.
 */
import assert from 'node:assert/strict';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { until } from '../kernel/until.ts';
import { ROOT } from '../structure/source-file.ts';
import type { Agent } from './story-agents.ts';
import { closed, realized, type Story, startStory } from './story-bed.ts';

const OF_NODEWALL = '--namespace=nodewall-system';
/** Milliseconds: an agent asks the API server 5 s after the loss, then every 20. */
const LIMIT = 60_000;

interface EventList {
  readonly items: readonly {
    readonly involvedObject: { readonly kind: string };
    readonly reason: string;
    readonly message: string;
  }[];
}

kernelSuite('a story of accidents', function () {
  this.timeout(300_000);
  let story: Story;
  before(async function () {
    this.timeout(1_800_000);
    story = await startStory({ asksApiServer: true });
    // What is stored is not asked of controllers that are gone.
    for (const kind of ['mutatingwebhookconfiguration', 'validatingwebhookconfiguration'])
      await story.cluster.remove(kind, 'nodewall');
    await story.applied(closed('web', 80));
    await story.statusIs('web', realized(2));
  });
  after(() => story?.close());

  const agents = (): Agent[] => Object.values(story.agents);
  const withoutControllers = async (): Promise<void> => {
    for (const replica of story.replicas) await replica.end('SIGKILL');
  };
  /** As after `kubectl delete namespace nodewall-system` and `kubectl apply -k …/base`. */
  async function namespaceMadeAgain(): Promise<void> {
    await withoutControllers();
    await story.cluster.remove('configmap', 'nodewall-config', OF_NODEWALL);
    await story.cluster.remove('lease', 'nodewall-controller', OF_NODEWALL);
    await story.applyRelease(ROOT);
    await story.addReplica();
    await story.routed();
  }

  it('the namespace is deleted, and the base applied again: nodes go on, and it is said', async () => {
    await story.withoutLeaks('worker-1', 80, namespaceMadeAgain);
    await story.statusIs('web', ({ phase, currentNodesRealized, conditions }) => {
      const isSaid = conditions.some(({ type, status }) => type === 'GateSet' && status === 'False');
      return phase === 'Realized' && currentNodesRealized === 2 && isSaid;
    });
    for (const agent of agents()) assert.notEqual(await agent.rules(), '', agent.machine.name);
    const replica = await story.routed();
    const hasNodes = async (): Promise<boolean> =>
      /unset_gate_nodes\{gate="NodeNetworkPolicy"\} 3$/m.test(await replica.metrics());
    await until('the metric has the nodes', hasNodes, { limit: LIMIT });
    const isAnnounced = async (): Promise<boolean> => {
      const { items } = await story.cluster.get<EventList>('events', '--namespace=default');
      return items.some(
        ({ involvedObject, reason, message }) =>
          involvedObject.kind === 'Namespace' &&
          reason === 'FeatureGateUnset' &&
          /has no value; 3 nodes go on enforcing/.test(message),
      );
    };
    await until('an Event is on the namespace', isAnnounced, { limit: LIMIT });
    assert.match(replica.log(), /has no value; 3 nodes go on enforcing/);
  });

  it('they follow changes of policies without a gate', async () => {
    await story.applied(closed('web', 443));
    await story.sees('other0', 'worker-1', 443, 'closed');
    await story.sees('other0', 'worker-2', 80, 'open');
    await story.statusIs('web', realized(2));
  });

  it('a value that is none is none', async () => {
    const data = { 'config.yaml': 'featureGates: {NodeNetworkPolicy: perhaps}' };
    const metadata = { name: 'nodewall-config', namespace: 'nodewall-system' };
    await story.applied({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data });
    const replica = await story.routed();
    await until('it is said', async () => /nodewall-config is invalid.*has no value/.test(replica.log()));
    await story.sees('other0', 'worker-1', 443, 'closed');
  });

  it('only an explicit false switches off, and that lasts as well', async () => {
    await story.setGate(false);
    const isOff = async (): Promise<boolean> =>
      (await Promise.all(agents().map((agent) => agent.rules()))).every((rules) => rules === '');
    await until('no node has rules', isOff);
    await namespaceMadeAgain();
    await story.statusIs('web', { phase: 'Disabled' });
    assert.ok(await isOff());
    await story.setGate(true);
    await story.sees('other0', 'worker-1', 443, 'closed');
    await story.statusIs('web', ({ phase, conditions }) => {
      return phase === 'Realized' && !conditions.some(({ type }) => type === 'GateSet');
    });
  });

  it('a policy that is deleted while no controller can start goes, and others stay', async () => {
    await story.applied(closed('stays', 8080));
    await story.statusIs('stays', realized(2));
    await withoutControllers();
    await story.cluster.remove('clusternetworkpolicies.nodewall.io', 'web');
    await until(
      'no node has its rules',
      async () => {
        const rules = await Promise.all(agents().map((agent) => agent.rules()));
        return rules.every((one) => !one.includes('-web-'));
      },
      { limit: LIMIT, detail: () => agents()[1]?.log().slice(-3000) ?? '' },
    );
    await story.sees('other0', 'worker-1', 443, 'open');
    await story.sees('other0', 'worker-1', 8080, 'closed');
  });

  it('without the right to look, nothing goes', async () => {
    await story.applied(closed('web', 443));
    await story.addReplica();
    await story.routed();
    await story.sees('other0', 'worker-1', 443, 'closed');
    await withoutControllers();
    await story.cluster.remove('clusterrolebinding', 'nodewall-agent');
    const agent = story.agents['worker-1'] ?? assert.fail();
    await story.cluster.remove('clusternetworkpolicies.nodewall.io', 'web');
    await until('the agent says what it lacks', async () => agent.log().includes('refused (403'), {
      limit: LIMIT,
    });
    await story.sees('other0', 'worker-1', 443, 'closed');
    await story.applyRelease(ROOT);
    await story.sees('other0', 'worker-1', 443, 'open');
    await story.addReplica();
    await story.routed();
    await story.sameBytes();
  });
});
