import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startBox } from '../../build/cluster/box.ts';
import type { RealCluster } from '../../build/cluster/cluster.ts';
import {
  describeCluster,
  install,
  SYSTEM_NAMESPACE,
  untilReady,
  writeCommands,
} from '../../build/cluster/install.ts';
import { run } from '../../build/programs/command.ts';
import { until } from '../kernel/until.ts';
import { leaksNothingUntilFollowed, untilClosed } from './installation.ts';
import { leaksNothing } from './leaks.ts';
import { type Bed, OF_NODEWALL, pods, QUICK_GUARD, untilFollowed } from './nodewall.ts';
import { controllersOnWorkers, describePowerLoss } from './power-loss.ts';
import { describeRecovery } from './recovery.ts';
import { describeRemoval } from './removal.ts';
import { reset, runTrial, type Trial, titleOf } from './trial.ts';

/** 60 s is the aim (trials.long.ts); the machine may be doing other things (milliseconds). */
const LIMIT = 120_000;

/**
 * Those that locked a cluster, or come nearest to it; `npm run test:long` tries all of them
 * (trials.long.ts).
 */
const TRIALS: readonly Trial[] = [
  { policies: ['flagship'], event: 'all controllers deleted', meanwhile: 'nothing' },
  { policies: ['flagship', 'both'], event: 'all controllers killed', meanwhile: 'policy deleted' },
  { policies: ['egress'], event: 'controllers rolled out', meanwhile: 'nothing' },
  { policies: ['both'], event: 'all agents restarted', meanwhile: 'policy deleted' },
  { policies: ['flagship', 'egress'], event: 'their nodes drained', meanwhile: 'nothing' },
];
/** No connection outlives this one. */
const POWER: Trial = { policies: ['flagship', 'both'], event: 'all nodes restarted', meanwhile: 'gate off' };

interface Warning {
  readonly reason: string;
  readonly message: string;
  readonly involvedObject: { readonly name: string };
  /** ISO 8601, to the second. */
  readonly lastTimestamp: string;
}

describe('a real cluster', function () {
  this.timeout(600_000);
  let cluster: RealCluster;
  let bin: string;

  before(async function () {
    // With programs and images to be made, where run.ts has not made them ahead.
    this.timeout(3_600_000);
    const started = performance.now();
    cluster = await startBox();
    await controllersOnWorkers(cluster, () => install(cluster, QUICK_GUARD));
    bin = await writeCommands(cluster);
    process.stdout.write(
      `    up, with nodewall, in ${((performance.now() - started) / 1000).toFixed(0)} s\n`,
    );
  });
  after(() => cluster?.close());
  afterEach(async function () {
    if (this.currentTest?.state === 'failed' && cluster !== undefined)
      process.stderr.write(`${await describeCluster(cluster)}\n`);
  });

  const bed: Bed = {
    cluster: () => cluster,
    shell: (script) =>
      run(['bash', '-euo', 'pipefail', '-c', script], {
        env: { ...process.env, PATH: `${bin}:${process.env.PATH}` },
        cwd: join(import.meta.dirname, '../..'),
      }),
  };

  it('takes at most 4 GB of memory', async () => {
    const bytes = await memory();
    process.stdout.write(`      ${(bytes / 1e9).toFixed(2)} GB\n`);
    assert.ok(bytes < 4e9, `${bytes} bytes`);
  });

  it('waits for no mount at a first install, and fails no probe once it is ready', async () => {
    const { items } = await cluster.get<{ items: Warning[] }>(
      'events',
      `--namespace=${SYSTEM_NAMESPACE}`,
      '--field-selector=type=Warning',
    );
    // A kubelet on a busy machine may read late what is there.
    const isLate = /failed to sync \w+ cache: timed out/;
    const mounts = items.filter(({ reason, message }) => reason === 'FailedMount' && !isLate.test(message));
    assert.deepEqual(
      mounts.map(({ message }) => message),
      [],
    );
    const ready = new Map<string, string>();
    for (const { metadata, status } of await pods(cluster, OF_NODEWALL)) {
      const condition = status.conditions?.find(({ type }) => type === 'Ready');
      ready.set(metadata.name, condition?.lastTransitionTime ?? '');
    }
    // Nor may a probe of one second have its answer in time there.
    const isSlow = /context deadline exceeded|Client\.Timeout/;
    const late = items.filter(
      ({ reason, involvedObject, lastTimestamp, message }) =>
        reason === 'Unhealthy' &&
        !isSlow.test(message) &&
        lastTimestamp > (ready.get(involvedObject.name) ?? '9'),
    );
    assert.deepEqual(
      late.map(({ message }) => message),
      [],
    );
  });

  describePowerLoss(bed, POWER, LIMIT);

  describe('with a closed port under a flood', () => {
    const KEPT = ['closed-port'];
    before(async () => {
      await reset(cluster);
      // Confirmed: an agent that ends while it tries the policy (docs/guarded-apply.md) begins with
      // the rules before.
      await untilClosed(cluster);
    });

    for (const trial of TRIALS) {
      it(`is not locked, leaks nothing and loses no line of a connection: ${titleOf(trial)}`, async () => {
        await reset(cluster, KEPT);
        // Controllers that are told to end serve on for a while: only new ones that are ready show
        // that nothing keeps them out.
        await leaksNothingUntilFollowed(cluster, async () => {
          const { seconds } = await runTrial(cluster, trial, LIMIT);
          process.stdout.write(`      followed again after ${seconds.toFixed(1)} s\n`);
        });
      });
    }

    it('is not locked if the CNI masquerades pods on the way to nodes', async () => {
      await reset(cluster, KEPT);
      for (const node of cluster.nodes) await node.setPodNetwork({ traffic: 'masqueraded' });
      try {
        const event = 'all controllers deleted';
        await runTrial(cluster, { policies: ['flagship'], event, meanwhile: 'nothing' }, LIMIT);
        await untilReady(cluster);
        await untilFollowed(cluster);
      } finally {
        for (const node of cluster.nodes) await node.setPodNetwork({ traffic: 'routed' });
      }
    });

    const actions: Readonly<Record<string, () => Promise<void>>> = {
      'a restart of kubelet and containerd': async () => {
        const worker = cluster.node('worker-1');
        await worker.daemons.kubelet.stop();
        await worker.daemons.containerd.stop();
        const started = new Date().toISOString();
        await worker.startDaemons();
        // The Node object says Ready all along; its Lease tells that the new kubelet is there.
        await until(
          'the new kubelet reports',
          async () => {
            const lease = ['lease', worker.name, '--namespace=kube-node-lease'];
            const { spec } = await cluster.get<{ spec: { renewTime: string } }>(...lease);
            return spec.renewTime > started;
          },
          { limit: LIMIT },
        );
      },
      'the base applied again in three ways': async () => {
        const ways = [
          ['apply', '--server-side', '-k', QUICK_GUARD],
          ['apply', '--server-side', '--force-conflicts', '-k', QUICK_GUARD],
          ['apply', '-k', QUICK_GUARD],
        ];
        for (const args of ways) await cluster.kubectlOutput(args);
        await untilReady(cluster);
        await untilFollowed(cluster);
      },
    };
    for (const [what, action] of Object.entries(actions)) {
      it(`leaks nothing and loses no line of a connection: ${what}`, async () => {
        await reset(cluster, KEPT);
        await leaksNothing(cluster, action);
      });
    }
  });

  describeRecovery(bed);
  describeRemoval(bed);
});

/**
 * Of all processes in namespaces of nodes and their pods (bytes); pages that several share count
 * once.
 */
async function memory(): Promise<number> {
  const processes = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const sizes = await Promise.all(
    processes.map(async (pid) => {
      try {
        // A process in a namespace of its own has an id in each namespace around it (proc(5),
        // NSpid).
        const ids = /^NSpid:\t(.*)$/m.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '';
        if (!ids.includes('\t')) return 0;
        const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8');
        return Number(/^Pss:\s+(\d+) kB$/m.exec(rollup)?.[1] ?? 0) * 1024;
      } catch {
        // It has ended.
        return 0;
      }
    }),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}
