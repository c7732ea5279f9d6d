/**
 * All controllers are gone: agents ask the API server where they are now, obey the gate, and
 * unregister the aggregated API.
 */

import assert from 'node:assert/strict';
import { kernelSuite } from '../../kernel/kernel-suite.ts';
import { until } from '../../kernel/until.ts';
import { changes } from '../labs.ts';
import type { Agent } from '../story-agents.ts';
import { closed, realized, type Story } from '../story-bed.ts';

const API_SERVICE = 'v1alpha1.controlplane.nodewall.io';
const NEW_ADDRESSES = ['10.99.0.7', 'fd99::7'];
const WORKERS = [{ nodeSelector: { matchLabels: { role: 'worker' } } }];
/**
 * Milliseconds: the first look is after 5 s at most, the dead API is unregistered after 45 to 75.
 */
const LIMIT = 100_000;

interface ApiService {
  readonly metadata: { readonly name: string };
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

interface EventObject {
  readonly involvedObject: { readonly kind: string; readonly name: string };
  readonly message: string;
}

/** Of agents that ask the API server themselves (StoryOptions), and one controller. */
kernelSuite('a story without controllers', function () {
  this.timeout(300_000);
  const begun = changes.use();
  let story: Story;
  before(async () => {
    story = begun();
    await story.withoutPolicies();
    await story.applied(closed('web', 80), closed('all', 22, { appliedTo: WORKERS, ingress: [blanket] }));
    await story.statusIs('web', realized(2));
    await story.statusIs('all', realized(2));
  });

  const blanket = { name: 'all', action: 'Drop' };
  const agents = (): Agent[] => Object.values(story.agents);
  /** Of the aggregated API: what its APIService says; undefined where there is none. */
  async function available(): Promise<string | undefined> {
    const { items } = await story.cluster.get<{ items: ApiService[] }>('apiservices');
    const own = items.find(({ metadata }) => metadata.name === API_SERVICE);
    return own && (own.status?.conditions?.find(({ type }) => type === 'Available')?.status ?? 'Unknown');
  }

  it("agents read the controller's CA from the API server", () => {
    for (const { log } of agents()) assert.match(log(), /following the controller/);
  });

  it('agents add the new controllers to the failsafe list', async () => {
    // Registered by the controller; of a Service that nobody serves here.
    await until('the API server finds the aggregated API unavailable', async () => {
      return (await available()) === 'False';
    });
    for (const replica of story.replicas) await replica.end('SIGKILL');
    await story.applied(controllerPod());
    await story.cluster.patchStatus(['pod/controller-new', '--namespace=nodewall-system'], {
      phase: 'Running',
      podIP: NEW_ADDRESSES[0],
      podIPs: NEW_ADDRESSES.map((ip) => ({ ip })),
    });
    for (const agent of agents().filter(({ machine }) => machine.name !== 'cp-1')) {
      await until(
        `${agent.machine.name} knows the new controller`,
        async () => {
          const rules = await agent.rules();
          return NEW_ADDRESSES.every((address) => rules.includes(address));
        },
        { limit: LIMIT, detail: () => agent.log().slice(-3000) },
      );
    }
  });

  it('agents follow the feature gate', async () => {
    await story.setGate(false);
    for (const agent of agents()) {
      await until(`${agent.machine.name} has no rules`, async () => (await agent.rules()) === '', {
        limit: LIMIT,
        detail: () => agent.log().slice(-3000),
      });
    }
    // What says nothing changes nothing.
    await story.cluster.remove('configmap', 'nodewall-config', '--namespace=nodewall-system');
    await story.setGate(true);
    for (const agent of agents()) {
      await until(`${agent.machine.name} enforces again`, async () => (await agent.rules()) !== '', {
        limit: LIMIT,
        detail: () => agent.log().slice(-3000),
      });
    }
    await story.sees('other0', 'cp-1', 80, 'open');
  });

  it('agents delete the APIService of the aggregated API, once', async () => {
    await until('it is gone', async () => (await available()) === undefined, {
      limit: LIMIT,
    });
    const says = (): number =>
      agents().filter(({ log }) => log().includes('deleted the APIService of the aggregated API')).length;
    await until('the one that did says so', async () => says() === 1, { limit: LIMIT });
  });

  it('once a controller answers, agents follow only it', async () => {
    await story.cluster.remove('pod', 'controller-new', '--namespace=nodewall-system');
    await story.addReplica();
    await story.routed();
    for (const agent of agents()) {
      await until(
        `${agent.machine.name} holds what the controller says`,
        async () => {
          const rules = await agent.rules();
          return (
            agent.log().includes('the controller answers again') && !rules.includes(NEW_ADDRESSES[0] ?? '')
          );
        },
        { limit: LIMIT, detail: () => agent.log().slice(-3000) },
      );
    }
    await story.statusIs('web', realized(2));
    await story.sameBytes();
  });

  it('a node that is off is reported by policy status, an Event and its view', async () => {
    const agent = story.agents['worker-2'] ?? assert.fail();
    await agent.run('off', '--reason', 'maintenance');
    assert.equal(await agent.rules(), '');
    await story.statusIs('web', ({ phase, currentNodesRealized, failingNodes = [] }) => {
      const [first] = failingNodes;
      const isNamed =
        first?.node === 'worker-2' && /nodewall is off on the node.*maintenance/.test(first.reason);
      return phase === 'Failed' && currentNodesRealized === 1 && isNamed;
    });
    await until('an Event is on the Node', async () => {
      const { items } = await story.cluster.get<{ items: EventObject[] }>('events', '--namespace=default');
      return items.some(
        ({ involvedObject: { kind, name }, message }) =>
          kind === 'Node' && name === 'worker-2' && /nodewall is off on the node/i.test(message),
      );
    });
    await agent.run('on');
    await story.statusIs('web', realized(2));
    await story.sameBytes();
  });
});

function controllerPod(): object {
  const metadata = { name: 'controller-new', namespace: 'nodewall-system' };
  const spec = { serviceAccountName: 'nodewall-controller', containers: [{ name: 'c', image: 'i' }] };
  return { apiVersion: 'v1', kind: 'Pod', metadata, spec };
}
