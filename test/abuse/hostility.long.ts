/**
 * The five of docs/security.md, each for a while and then all at once, do at random what their
 * rights allow, against a real API server with two controllers and agents in namespaces. What the
 * page says they can't do they must not be able to; nothing ends, opens or waits meanwhile.
 * NODEWALL_MINUTES is the time of each (60: an hour), NODEWALL_SEED repeats the same acts.
 */

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { closed, realized, type Story, startStory } from '../e2e/story-bed.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { createParty, type Party } from '../kernel/passed-by-party.ts';
import { until } from '../kernel/until.ts';
import { ACTORS, type Actor } from './hostile-actors.ts';
import { HIDDEN, type HostileWorld, hostileWorld } from './hostile-world.ts';
import { rssOfTree } from './memory.ts';

const MINUTES = Number(process.env.NODEWALL_MINUTES ?? '10');
const SEED = Number(process.env.NODEWALL_SEED ?? Math.floor(Math.random() * 2 ** 31));
const MiB = 1 << 20;
/** As deploy/ allows them (bytes). */
const MOST = { agent: 512 * MiB, controller: 3072 * MiB };
/** So long an administrator's change may take until it is in every kernel (milliseconds). */
const CHANGE = 60_000;
/** Milliseconds that one connection may take; a busy machine may need more than one. */
const PATIENCE = 800;
const CLOSED = 80;
const OPEN = 8080;
/** Closed on worker-1 alone. */
const HIDDEN_PORT = 443;
const GATES = 'featureGates: {NodeNetworkPolicy: true, EgressGateway: true}';

interface Lease {
  readonly spec: { readonly leaseTransitions?: number; readonly holderIdentity?: string };
}

interface Seen {
  /** The most (bytes). */
  readonly rss: { agent: number; controller: number };
  /** The longest (milliseconds). */
  change: number;
  probes: number;
  changes: number;
}

kernelSuite('five who mean harm', function () {
  this.timeout((MINUTES + 5) * 60_000);
  let story: Story;
  let world: HostileWorld;
  let caller: Party;
  let port = 20_000;

  before(async function () {
    this.timeout(600_000);
    process.stdout.write(`    NODEWALL_SEED=${SEED} NODEWALL_MINUTES=${MINUTES}\n`);
    story = await startStory({ replicas: 2, asksApiServer: true });
    const metadata = { name: 'nodewall-config', namespace: 'nodewall-system' };
    const data = { 'config.yaml': GATES };
    await story.applied({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data });
    const worker1 = [{ nodeSelector: { matchLabels: { 'kubernetes.io/hostname': 'worker-1' } } }];
    await story.applied(closed('web', CLOSED, { appliedTo: [{ nodeSelector: {} }] }));
    await story.applied(closed(HIDDEN, HIDDEN_PORT, { appliedTo: worker1 }));
    await story.statusIs('web', realized(3));
    for (const to of ['worker-1', 'worker-2']) await story.sees('other0', to, CLOSED, 'closed');
    caller = createParty(story.machine('other0').namespace);
    world = await hostileWorld(story, SEED);
  });
  after(async () => {
    world?.stranger.end();
    world?.nobody.end();
    await story?.close();
  });

  const lease = (): Promise<Lease> =>
    story.cluster.get<Lease>('lease', 'nodewall-controller', '--namespace=nodewall-system');

  async function outcome(to: string, family: 4 | 6, asked: number): Promise<string> {
    const [here, there] = [story.machine('other0'), story.machine(to)];
    const [src, dst] = family === 4 ? [here.v4, there.v4] : [here.v6, there.v6];
    const call = { protocol: 'tcp', family, src, dst, port: asked, patience: PATIENCE } as const;
    return (await caller.call(call)).outcome;
  }

  /** At each look denied traffic is denied; allowed traffic passes at one of a few looks. */
  async function assertPackets(seen: Seen): Promise<void> {
    for (const to of ['worker-1', 'worker-2'])
      for (const family of [4, 6] as const) {
        assert.equal(await outcome(to, family, CLOSED), 'silence', `${to} is open by IPv${family}`);
        let last = '';
        for (let left = 10; left > 0 && last !== 'answered'; left--) last = await outcome(to, family, OPEN);
        assert.equal(last, 'answered', `${to} by IPv${family}`);
        seen.probes += 2;
      }
  }

  async function assertProcesses(seen: Seen): Promise<void> {
    for (const [name, agent] of Object.entries(story.agents)) {
      assert.ok(agent.isRunning(), `the agent of ${name} has ended\n${agent.log().slice(-3000)}`);
      const file = join(story.cluster.folder, `${name}.state`, 'agent.json');
      const { pid } = JSON.parse(await readFile(file, 'utf8')) as { pid: number };
      seen.rss.agent = Math.max(seen.rss.agent, rssOfTree(pid));
    }
    for (const replica of story.replicas) {
      assert.ok(replica.isRunning(), `a controller has ended\n${replica.log().slice(-3000)}`);
      const size = /^process_resident_memory_bytes (\S+)$/m.exec(await replica.metrics())?.[1];
      seen.rss.controller = Math.max(seen.rss.controller, Number(size ?? 0));
    }
    for (const who of ['agent', 'controller'] as const)
      assert.ok(seen.rss[who] < MOST[who], `${who}: ${seen.rss[who] / MiB} MiB`);
  }

  /** An administrator edits a policy: agents enforce it, but those of nodes that the actor has. */
  async function assertChange(seen: Seen, has: readonly string[]): Promise<void> {
    const marker = String(++port);
    const began = performance.now();
    await story.applied(closed('edited', port, { appliedTo: [{ nodeSelector: {} }] }));
    for (const [name, agent] of Object.entries(story.agents)) {
      if (has.includes(name)) continue;
      const isThere = async (): Promise<boolean> => (await agent.rules()).includes(marker);
      const detail = () =>
        `${agent.log().slice(-3000)}\n${story.replicas.map(({ log }) => log().slice(-2000))}`;
      await until(`${name} enforces a change`, isThere, { limit: CHANGE, detail });
    }
    seen.changes++;
    seen.change = Math.max(seen.change, performance.now() - began);
  }

  /** Acts until the signal; rejects by an act that could what it can't. */
  async function acting(
    { acts, hands, pause }: Actor,
    counts: Map<string, number>,
    over: AbortSignal,
  ): Promise<void> {
    const hand = async (): Promise<void> => {
      while (!over.aborted) {
        const [name, act] = world.dice.one(Object.entries(acts));
        try {
          await act(world);
        } catch (error) {
          // Refusals are as they should be; what must not be possible is an assertion.
          if (error instanceof assert.AssertionError) throw new Error(`${name}: ${error.message}`);
        }
        counts.set(name, 1 + (counts.get(name) ?? 0));
        await sleep(pause);
      }
    };
    await Promise.all(Array.from({ length: hands }, hand));
  }

  async function withstood(actors: readonly Actor[]): Promise<void> {
    const over = new AbortController();
    const counts = new Map<string, number>();
    const seen: Seen = { rss: { agent: 0, controller: 0 }, change: 0, probes: 0, changes: 0 };
    const has = actors.flatMap((actor) => actor.has);
    const before = await lease();
    const end = performance.now() + MINUTES * 60_000;
    const watching = async (): Promise<void> => {
      do {
        await assertPackets(seen);
        await assertProcesses(seen);
        await assertChange(seen, has);
        assert.deepEqual(
          (await lease()).spec.leaseTransitions,
          before.spec.leaseTransitions,
          'the leader changed',
        );
      } while (performance.now() < end);
    };
    const acted = Promise.all(actors.map((actor) => acting(actor, counts, over.signal)));
    try {
      await Promise.race([watching(), acted]);
    } finally {
      over.abort();
      const total = [...counts.values()].reduce((sum, one) => sum + one, 0);
      const rss = `agent ${Math.round(seen.rss.agent / MiB)} MiB, controller ${Math.round(seen.rss.controller / MiB)} MiB`;
      process.stdout.write(
        `      ${total} acts; ${seen.probes} connections, ${seen.changes} changes, the slowest ${Math.round(seen.change)} ms; ${rss}\n`,
      );
    }
    await acted;
    for (const actor of actors) {
      for (const name of Object.keys(actor.acts))
        assert.ok((counts.get(name) ?? 0) > 0, `${name} was not tried`);
      await actor.undo?.(world);
    }
    // Nodes that the actor had follow again, too.
    await assertChange(seen, []);
    await assertPackets(seen);
    for (const { log } of [...story.replicas, ...Object.values(story.agents)])
      assert.doesNotMatch(log(), /internal error|Please report it/);
  }

  for (const actor of ACTORS)
    it(`${actor.who}: what the page says, and nothing else`, () => withstood([actor]));

  it('all at once', () => withstood(ACTORS));
});
