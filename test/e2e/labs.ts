/**
 * The clusters that several files share. `npm test` runs these files in one process, by the file
 * that is named like their folder; each can be run alone too.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { startCluster } from '../cluster/cluster.ts';
import { startAskedBed } from './asked-bed.ts';
import { OneController } from './one-controller.ts';
import { startRolloutBed } from './rollout-bed.ts';
import { AGENT_CONFIG } from './story-agents.ts';
import { type Story, startStory } from './story-bed.ts';

/** A lab that is started before the first suite that uses it, and closed after the last one. */
class SharedLab<L extends { close(): Promise<void> }> {
  readonly #start: () => Promise<L>;
  #lab: Promise<L> | null = null;
  #users = 0;

  constructor(start: () => Promise<L>) {
    this.#start = start;
    // Where the last one is left out, as by --grep.
    after(() => this.#close());
  }

  /** To be called in a suite. The lab is there in its tests and hooks. */
  use(): () => L {
    let lab: L | null = null;
    this.#users++;
    const started = () => this.started();
    const left = () => (--this.#users === 0 ? this.#close() : undefined);
    before(async function () {
      // Behind the suite's own, which still need the lab.
      this.test?.parent?.afterAll(left);
      // The first one on a machine builds programs.
      this.timeout(1_800_000);
      lab = await started();
    });
    return () => lab ?? assert.fail('no test runs');
  }

  started(): Promise<L> {
    this.#lab ??= this.#start();
    return this.#lab;
  }

  async #close(): Promise<void> {
    const lab = await this.#lab?.catch(() => null);
    this.#lab = null;
    await lab?.close();
  }
}

/** A real API server. */
export const apiServer = new SharedLab(startCluster);

/** One controller with its webhook, on that API server. */
export const oneController = new SharedLab(async () =>
  OneController.start({
    gates: 'NodeNetworkPolicy=true,EgressGateway=true',
    cluster: await apiServer.started(),
  }),
);

/** One cluster, and who asks it: Prometheus, users, the console, the kubectl plugin. */
export const askedCluster = new SharedLab(startAskedBed);

/** One controller, agents, and what changes in a cluster. */
export const changes = new SharedLab(() => startStory({ asksApiServer: true }));

/** Probes of a change, from the controller that leads and from another agent. */
export const GUARD = {
  enabled: true,
  window: 1,
  failAfter: 1,
  probes: [
    { name: 'ssh', from: 'peer', tcp: 'node:22' },
    { name: 'web', from: 'controller', tcp: 'node:443' },
    { name: 'ping', from: 'peer', icmp: 'node6' },
  ],
};
/**
 * Of the controllers and of the agent whose changes are guarded. No name server can be reached;
 * that of the machine is not asked.
 */
const GUARDED = stringify({ ...AGENT_CONFIG, names: { servers: ['127.0.0.1'] }, guard: GUARD });

interface Failures {
  readonly story: Story;
  /** The path of the configuration {@link GUARDED}. */
  readonly config: string;
  close(): Promise<void>;
}

/** Two controllers, agents, and what fails: probes, controllers, the API server, tokens. */
export const failures = new SharedLab(async (): Promise<Failures> => {
  const folder = await mkdtemp(join(tmpdir(), 'nodewall-story-'));
  const config = join(folder, 'config.yaml');
  await writeFile(config, GUARDED);
  const story = await startStory({ replicas: 2, controllerOptions: ['--config', config] });
  return {
    story,
    config,
    async close() {
      await story.close();
      await rm(folder, { recursive: true });
    },
  };
});

const ZONE = { 'topology.kubernetes.io/zone': 'a' };

/** One controller, and four agents that are simulated: what nodes report, and what comes of it. */
export const simulated = new SharedLab(async () => {
  const nodes = { n1: ZONE, n2: ZONE, n3: ZONE, n4: ZONE };
  const config = 'startupTaint: nodewall.io/agent-not-ready';
  const bed = await startRolloutBed({ nodes, controllers: 1, config });
  for (const node of bed.nodes) node.start();
  await bed.leader();
  return bed;
});
