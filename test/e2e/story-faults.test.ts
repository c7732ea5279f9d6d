/**
 * Everything between API server, controller and agents does wrong for 20 seconds, while pods,
 * labels and policies change. NODEWALL_STORY_SECONDS makes it longer, NODEWALL_SEED another.
 */
import assert from 'node:assert/strict';
import { type Random, seededRandom } from '../../perf/generate/random.ts';
import { createAuthority } from '../cluster/certificates.ts';
import type { ClusterOfNodes } from '../cluster/cluster-of-nodes.ts';
import type { ByteFaults, FaultyProxy, LineFaults } from '../faults/faults.ts';
import { lineProxyIn, tcpProxyIn } from '../faults/process.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { tcp } from '../kernel/manifests.ts';
import { pause, until } from '../kernel/until.ts';
import { closed, realized, type Story, startStory } from './story-bed.ts';

const SECONDS = Number(process.env.NODEWALL_STORY_SECONDS ?? 20);
/** Milliseconds from a change to the next: a busy cluster, not a benchmark. */
const BETWEEN = 100;
const SEED = process.env.NODEWALL_SEED ?? '1';
/** A watch that fell silent is given up after 150 s, a stream after 95 s. */
const RECOVERY = 240_000;

const BYTES: ByteFaults = { delay: [0, 5], cutAfter: 60_000, refuse: 0.05 };
const API_LINES: LineFaults = { duplicate: 0.05, drop: 0.05, swap: 0.05, garble: 0.01, only: '"kind"' };
/**
 * A name that is garbled is another name, which no later list puts right; TLS is there to notice
 * that.
 */
const STREAM_LINES: LineFaults = { duplicate: 0.01, drop: 0.02, swap: 0.02 };

/** A proxy for what is said before one for the bytes. */
interface Faulty {
  readonly lines: FaultyProxy<LineFaults>;
  readonly bytes: FaultyProxy<ByteFaults>;
  readonly origin: { readonly server: string; readonly ca: string };
}

async function faulty(bed: ClusterOfNodes, target: string, targetCa: string, name: string): Promise<Faulty> {
  const { address, controlPlane } = bed;
  const authority = await createAuthority(`${name} authority`);
  const { certificate, key } = await authority.issue({ commonName: name, names: [address], usage: 'server' });
  const common = { host: address, seed: `${SEED} ${name}` };
  const lines = await lineProxyIn(controlPlane, { ...common, target, targetCa, certificate, key });
  const bytes = await tcpProxyIn(controlPlane, { ...common, targetHost: address, targetPort: lines.port });
  return { lines, bytes, origin: { server: `https://${address}:${bytes.port}`, ca: authority.certificate } };
}

kernelSuite('a story of faulty connections', function () {
  this.timeout(180_000 + 2 * RECOVERY + 1000 * SECONDS);
  let story: Story;
  let api: Faulty;
  let agents: Faulty;
  before(async function () {
    this.timeout(1_800_000);
    story = await startStory({
      controllerOptions: ['--relist-period', '2'],
      async apiServer(bed) {
        api ??= await faulty(bed, bed.cluster.server, bed.cluster.ca, 'api');
        return api.origin;
      },
      async controller(bed, { server, ca }) {
        agents ??= await faulty(bed, server, ca, 'agents');
        return agents.origin;
      },
    });
    await story.applied(closed('always', 22, { tier: 'platform' }));
    await story.statusIs('always', realized(2));
  });
  after(() => story?.close());

  async function corrections(): Promise<number> {
    const metrics = (await story.replicas[0]?.metrics()) ?? '';
    const rows = metrics.matchAll(/^nodewall_controller_watch_corrections_total\S* (\d+)/gm);
    return [...rows].reduce((sum, [, count]) => sum + Number(count), 0);
  }

  it('nothing leaks during faults; afterwards the state is as without faults', async () => {
    const random = seededRandom(SEED);
    const proxies = [api, agents];
    let changes = 0;
    const change = async (): Promise<void> => {
      changes++;
      await CHANGES[random.below(CHANGES.length)]?.(story, random).catch(ifMissing);
    };
    await story.withoutLeaks('worker-1', 22, async () => {
      for (const { bytes } of proxies) await bytes.set(BYTES);
      await api.lines.set(API_LINES);
      await agents.lines.set(STREAM_LINES);
      for (const end = performance.now() + 1000 * SECONDS; performance.now() < end; ) {
        await change();
        await pause(BETWEEN);
        if (random.below(20) === 0)
          await random.pick([api, agents]).bytes.cutAll(random.pick(['reset', 'end']));
      }
      for (const { bytes } of proxies) await bytes.set({});
      // A connection that is cut lists at once; what is dropped without a cut, the next list finds.
      await api.lines.set({ drop: 0.3, only: '"kind"' });
      await until('what was dropped is found by lists', async () => {
        await change();
        return (await corrections()) > 0;
      });
      for (const { lines } of proxies) await lines.set({});
    });
    await story.cluster.label(['node', 'cp-1'], { role: 'control' });
    await story.applied(closed('last', 443));
    await story.sameBytes(RECOVERY);
    await story.statusIs('last', realized(2), RECOVERY);
    await story.statusIs('always', realized(2), RECOVERY);
    await story.sees('other0', 'worker-2', 443, 'closed');
    await story.routed();
    const counts = await Promise.all(proxies.flatMap(({ bytes, lines }) => [bytes.counts(), lines.counts()]));
    process.stdout.write(
      `      ${JSON.stringify({ seed: SEED, changes, corrections: await corrections(), counts })}\n`,
    );
    assert.ok(changes > SECONDS, `only ${changes} changes`);
    assert.ok((counts[1]?.drop ?? 0) > 0 && (counts[3]?.lines ?? 0) > 0, JSON.stringify(counts));
  });
});

/** Of a change to an object that is not there: then nothing changes. */
function ifMissing(error: Error): void {
  if (!error.message.includes('NotFound')) throw error;
}

const PODS = ['a', 'b', 'c', 'd', 'e', 'f'];
const POLICIES = ['p', 'q', 'r'];

/** Each leaves what it finds already so. */
const CHANGES: readonly ((story: Story, random: Random) => Promise<unknown>)[] = [
  (story, random) => {
    const address = `10.244.${random.below(4)}.${1 + random.below(250)}`;
    return story.pod(pickOf(PODS, random), { app: pickOf(['x', 'y'], random) }, [address]);
  },
  (story, random) => story.cluster.label(['pod', pickOf(PODS, random)], { app: pickOf(['x', 'y'], random) }),
  (story, random) => story.cluster.remove('pod', pickOf(PODS, random)),
  (story, random) => {
    const from = [{ podSelector: { matchLabels: { app: pickOf(['x', 'y'], random) } } }];
    const rule = {
      name: 'r',
      action: random.pick(['Allow', 'Drop']),
      from,
      ports: [tcp(1000 + random.below(3))],
    };
    return story.applied(
      closed(pickOf(POLICIES, random), 1, { priority: 1 + random.below(9), ingress: [rule] }),
    );
  },
  (story, random) => story.cluster.remove('ncnp', pickOf(POLICIES, random)),
  // cp-1's rules come and go.
  (story, random) => story.cluster.label(['node', 'cp-1'], { role: pickOf(['worker', 'control'], random) }),
];

function pickOf<T>(values: readonly T[], random: Random): T {
  return values[random.below(values.length)] ?? assert.fail();
}
