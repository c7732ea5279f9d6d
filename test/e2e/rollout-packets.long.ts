import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { stringify } from 'yaml';
import type { RolloutStatus } from '../../apis/rollout.ts';
import { placeInRollout } from '../../controller/rollout/order.ts';
import type { Machine } from '../cluster/cluster-of-nodes.ts';
import { createParty, type Party } from '../kernel/passed-by-party.ts';
import { until } from '../kernel/until.ts';
import { relay } from '../netns/namespace.ts';
import { type SimulatedAgent, simulatedAgents } from './simulated-agent.ts';
import { type Story, startStory } from './story-bed.ts';
import { replicaPort, SERVICE_PORT } from './story-controllers.ts';

const SIMULATED = 197;
const POLICY = 'web';
/** Closed by the first version, by the second one, and by none. */
const [FIRST, SECOND, NEVER] = [443, 8080, 7];
/** Milliseconds until no answer is silence; on one machine, an answer takes less than one. */
const PATIENCE = 200;

const closes = (port: number): object => ({
  name: `close-${port}`,
  action: 'Drop',
  appliedTo: [{ nodeSelector: {} }],
  ports: [{ protocol: 'TCP', port }],
});

function policy(apiPort: number, version: 1 | 2): object {
  const cut = {
    name: 'cut',
    action: 'Drop',
    appliedTo: [{ nodeSelector: { matchLabels: { bad: 'true' } } }],
    ports: [SERVICE_PORT, apiPort].map((port) => ({ protocol: 'TCP', port })),
  };
  const added = version === 1 ? {} : { egress: [cut] };
  const ports = version === 1 ? [FIRST] : [FIRST, SECOND];
  const rollout = { steps: [2, '5%', '25%', '100%'], pause: 1 };
  return {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'ClusterNetworkPolicy',
    metadata: { name: POLICY },
    spec: { priority: 5, rollout, ingress: ports.map(closes), ...added },
  };
}

/** Calls ports of the real nodes again and again, from outside; the outcomes of each in turn. */
class Callers {
  readonly #caller: Party;
  readonly #from: Machine;
  readonly #machines: readonly Machine[];
  readonly outcomes = new Map<string, string[]>();
  #isOver = false;
  #running: Promise<unknown> = Promise.resolve();

  constructor(from: Machine, machines: readonly Machine[]) {
    this.#caller = createParty(from.namespace);
    this.#from = from;
    this.#machines = machines;
  }

  async call({ v4: dst }: Machine, port: number): Promise<string> {
    const { v4: src } = this.#from;
    const call = { protocol: 'tcp', family: 4, src, dst, port, patience: PATIENCE } as const;
    return (await this.#caller.call(call)).outcome;
  }

  start(port: number): void {
    this.#running = Promise.all(
      this.#machines.map(async (machine) => {
        const list: string[] = [];
        this.outcomes.set(machine.name, list);
        while (!this.#isOver) {
          // Where a port that nobody closes does not answer, the machine is slow.
          const [outcome, control] = await Promise.all([this.call(machine, port), this.call(machine, NEVER)]);
          if (control === 'answered') list.push(outcome);
          await pause(20);
        }
      }),
    );
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#running;
  }
}

describe(`a rollout over 3 real and ${SIMULATED} simulated nodes, one bad in the first step`, function () {
  this.timeout(300_000);
  let story: Story;
  let agents: readonly SimulatedAgent[] = [];
  /** The real nodes, in the order of the rollout. */
  let order: readonly Machine[] = [];
  let apiPort = 0;

  before(async () => {
    story = await startStory();
    const { cluster, controlPlane, address } = story;
    apiPort = Number(new URL(cluster.server).port);
    const config = join(cluster.folder, 'guarded.yaml');
    const settings = { interfaceGroupFile: '', failsafe: { egress: [] }, guard: { enabled: true } };
    await writeFile(config, stringify(settings));
    for (const agent of Object.values(story.agents)) {
      await agent.end('SIGTERM');
      agent.start('--config', config);
    }
    await story.applied(policy(apiPort, 1));
    await rolloutIs('the real nodes have the first version', ({ progress }) => progress === 'Completed');
    // Names of simulated nodes, so that two real ones come first.
    const { metadata } = await cluster.get<{ metadata: { uid: string } }>('ncnp', POLICY);
    const place = (name: string): string => placeInRollout(name, metadata.uid);
    order = story.nodes.toSorted((a, b) => (place(a.name) < place(b.name) ? -1 : 1));
    const names = Array.from({ length: 20 * SIMULATED }, (_, i) => `simulated-${i}`)
      .filter((name) => place(name) > place(order[1]?.name ?? ''))
      .slice(0, SIMULATED);
    assert.equal(names.length, SIMULATED);
    const nodes = names.map((name) => ({ apiVersion: 'v1', kind: 'Node', metadata: { name } }));
    await story.applied(...nodes);
    const path = join(cluster.folder, 'agents.socket');
    await relay(controlPlane, { path }, { host: address, port: replicaPort(0) });
    agents = await simulatedAgents(cluster, names, () => [{ socketPath: path }]);
    for (const agent of agents) agent.start();
    await cluster.label([`node/${order[0]?.name}`], { bad: 'true' });
    await story.statusIs(POLICY, { phase: 'Realized', currentNodesRealized: SIMULATED + 3 });
    for (const { v4 } of order) {
      await story.gets('other0', v4, FIRST, 'silence');
      await story.gets('other0', v4, SECOND, 'answered');
    }
  });

  after(async () => {
    for (const agent of agents) agent.stop();
    await story?.close();
  });

  async function rolloutIs(what: string, wanted: (status: RolloutStatus) => boolean): Promise<number> {
    let last: RolloutStatus | undefined;
    return await until(
      what,
      async () => {
        const { status } = await story.cluster.get<{ status?: { rollout?: RolloutStatus } }>('ncnp', POLICY);
        last = status?.rollout;
        return last !== undefined && wanted(last);
      },
      { detail: () => JSON.stringify(last) },
    );
  }

  const simulatedWith = (generation: number): number =>
    agents.filter((agent) => agent.generation(POLICY) === generation).length;

  it('drops packets by the new version on the nodes of the step alone; is paused, and undone everywhere', async () => {
    const [bad, good, other] = order;
    assert.ok(bad && good && other);
    const callers = new Callers(story.machine('other0'), order);
    callers.start(SECOND);
    await story.applied(policy(apiPort, 2));
    const paused = await rolloutIs('it is paused', ({ progress }) => progress === 'Paused at step 1 of 4');
    const [now] = (await status()).failed ?? [];
    assert.equal(now?.node, bad.name);
    assert.match(now?.reason ?? '', /^rolled back/);
    // Both had the version; the bad one is back at the one before, by itself.
    await until('the node is open again', async () => (await callers.call(bad, SECOND)) === 'answered');
    assert.equal(await callers.call(good, SECOND), 'silence');
    assert.equal(simulatedWith(1), SIMULATED);

    const undo = ['annotate', '--overwrite', 'ncnp', POLICY, 'nodewall.io/rollout=undo'];
    await story.kubectl(...undo);
    const undone = await until(
      'no node drops by the new version',
      async () => (await callers.call(good, SECOND)) === 'answered' && simulatedWith(1) === SIMULATED,
    );
    await rolloutIs('it is undone', ({ progress }) => progress === 'Undone');
    await callers.stop();

    const dropped = order.map(({ name }) => {
      const outcomes = callers.outcomes.get(name) ?? [];
      return [outcomes.filter((outcome) => outcome === 'silence').length, outcomes.length] as const;
    });
    const [[ofBad], [ofGood], [ofOther, asked]] = dropped as [[number], [number], [number, number]];
    const counted = JSON.stringify(dropped);
    assert.ok(ofBad > 0 && ofGood > 0, `dropped: ${counted}`);
    assert.ok(asked > 100, `asked: ${counted}`);
    assert.equal(ofOther, 0, `the third node dropped: ${counted}`);
    for (const { name, history } of agents) assert.deepEqual(history.get(POLICY), [1], name);
    for (const one of order)
      assert.equal(await callers.call(one, FIRST), 'silence', 'the first version is there');
    const times = `paused ${paused.toFixed()} ms after the edit, undone ${undone.toFixed()} ms after the command`;
    process.stderr.write(`    ${times}; calls without an answer, and all, by node: ${counted}\n`);
  });

  async function status(): Promise<RolloutStatus> {
    await rolloutIs('the node is named', ({ failed = [] }) => failed.length > 0);
    const { status: now } = await story.cluster.get<{ status: { rollout: RolloutStatus } }>('ncnp', POLICY);
    return now.rollout;
  }
});
