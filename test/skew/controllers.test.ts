/**
 * A cluster with a real API server goes from the previous version to this one, and back by
 * `rollout undo`, one component after the other, under a flood.
 */
import { closed, realized, type Story, startStory } from '../e2e/story-bed.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { tcp } from '../kernel/manifests.ts';
import { until } from '../kernel/until.ts';
import { ROOT } from '../structure/source-file.ts';
import { floodedDuring } from './flooded.ts';
import { missingPreviousRelease, previousRelease } from './previous-release.ts';

const CLOSED = 80;
const OPEN = 443;
/** Closed by the policy that the previous version does not know all of. */
const RECHECKED = 8080;
const WORKERS = ['worker-1', 'worker-2'] as const;

kernelSuite('a cluster one version apart', function () {
  this.timeout(300_000);
  let story: Story;
  let previous: string;

  before(async function () {
    this.timeout(1_800_000);
    const missing = await missingPreviousRelease();
    if (missing !== null) {
      process.stderr.write(`skipped: a cluster one version apart: ${missing}\n`);
      return this.skip();
    }
    previous = await previousRelease();
    story = await startStory({ release: previous, replicas: 1 });
  });
  after(() => story?.close());

  const ingress = [
    { name: 'open', action: 'Allow', ports: [tcp(OPEN)] },
    { name: 'close', action: 'Drop', ports: [tcp(CLOSED), tcp(OPEN)] },
  ];
  const rechecked = closed('rechecked', RECHECKED, { established: 'Recheck' });
  const closes = (name: string, port: number) =>
    until(
      `${name} closes ${port}`,
      async () => ((await story.agents[name]?.rules()) ?? '').includes(String(port)),
      { detail: () => story.agents[name]?.log().slice(-3000) ?? '' },
    );

  /** Both workers are flooded from outside. */
  async function flooded(port: number, action: () => Promise<void>): Promise<void> {
    const around = WORKERS.reduceRight(
      (inner, name) => async () => {
        const { namespace: node, ...called } = story.machine(name);
        const { namespace: client, ...caller } = story.machine(name === 'worker-1' ? 'other0' : 'other1');
        const plan = {
          nodeAddresses: [called],
          clientAddresses: [{ ...caller, client: 0, group: 0 }],
          multicastGroups: [],
        };
        const to = { protocol: 'tcp', family: 4, rate: 500 } as const;
        await floodedDuring(
          { node, clients: [client], plan },
          [
            { ...to, port },
            { ...to, port: OPEN },
          ],
          inner,
        );
      },
      action,
    );
    await around();
  }
  async function replaceController(release: string): Promise<void> {
    const [before] = story.replicas.filter((one) => one.isRunning());
    await story.addReplica(release);
    // A standby of the previous version is never ready.
    if (release === ROOT) await story.routed();
    await before?.end('SIGTERM');
    await story.routed();
  }

  it('follows each step of the upgrade, with the older agent on one worker', async () => {
    await story.applied(closed('web', CLOSED, { ingress }));
    await story.statusIs('web', realized(2));
    await flooded(CLOSED, async () => {
      await story.applyRelease(ROOT);
      // This version's agent with the previous controller.
      await story.agents['worker-2']?.replace(ROOT);
      await story.agents['worker-2']?.says('following the controller');
      await story.applied(closed('more', 8443));
      await story.statusIs('more', realized(2));
      // The previous agent with this version's controller.
      await replaceController(ROOT);
      await story.applied(closed('more', 8444));
      await story.statusIs('more', realized(2));
      for (const name of WORKERS) await closes(name, 8444);
    });
  });

  it('names the nodes whose agents ignore a field of a policy, and they enforce the rest', async () => {
    await story.applied(rechecked);
    const isNamed = (node: string) =>
      story.statusIs(
        'rechecked',
        ({ phase, failingNodes = [] }) =>
          phase === 'Failed' &&
          failingNodes.map((one) => one.node).join() === node &&
          /needs a newer agent: .* ignores established: Recheck/.test(failingNodes[0]?.reason ?? ''),
      );
    await isNamed('worker-1');
    for (const name of WORKERS) await closes(name, RECHECKED);
    await flooded(RECHECKED, async () => {
      await story.agents['worker-1']?.replace(ROOT);
      await story.statusIs('rechecked', realized(2));
      await story.agents['worker-2']?.replace(previous);
      await story.agents['worker-2']?.says('following the controller');
    });
  });

  it('keeps all rules where the controller goes back, and the CRDs after it', async () => {
    await flooded(RECHECKED, async () => {
      await replaceController(previous);
      await story.statusIs(
        'rechecked',
        ({ phase, problems = [] }) => phase === 'Invalid' && /established/.test(problems[0] ?? ''),
      );
      await story.applied(closed('more', 8445));
      await story.statusIs('more', realized(2));
      for (const name of WORKERS) await closes(name, 8445);
      // Its agent may start in the meantime, too.
      await story.agents['worker-1']?.replace(previous);
      await story.applied(closed('more', 8446));
      for (const name of WORKERS) await closes(name, 8446);
      await story.statusIs('more', realized(2));
      await story.applyRelease(previous);
      await story.applied(closed('rechecked', RECHECKED));
      await story.statusIs('rechecked', realized(2));
    });
  });
});
