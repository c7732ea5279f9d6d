/**
 * The deadline of rules that are tried: where the agent is gone, and nobody can start it because
 * these rules close what is needed for that, the kernel opens that much by itself.
 */
import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { toState } from '../properties/pipeline.ts';
import { clientControlPlane } from './client-control-plane.ts';
import { type Dataplane, EITHER_IPTABLES, forEachDataplane } from './dataplane.ts';
import { GuardedNode, PORT } from './guarded-node.ts';
import { NODE_NAME, node as nodeManifest, type PolicyOptions, policy, tcp, udp } from './manifests.ts';
import { connects, listen } from './talk.ts';
import { until } from './until.ts';

const CONTROLLER = 9443;
const API_SERVER = 6443;
/** Neither on the failsafe list nor a probe's. */
const OTHER = 4444;
const TRIED = 'the new rules are in force and tried';
const PASSED = 'the deadline of the rules that are tried had passed';
/** The node must be back within that (milliseconds). */
const WITHIN = 60_000;
const LIMIT = { limit: 240_000 };

const ALL = [tcp(1, 65_535), udp(1, 65_535)];
const closed = (port: number): PolicyOptions => ({
  ingress: [{ name: 'closed', action: 'Drop', ports: [tcp(port)] }],
});
const cut = (marker: number, action: 'Drop' | 'Reject', ports: readonly object[]): PolicyOptions => ({
  ...closed(marker),
  egress: [{ name: 'cut', action, ports }],
});

/** A node of a cluster whose API server is at the other host, by both families. */
class Bed {
  readonly guarded: GuardedNode;
  readonly #plane: Awaited<ReturnType<typeof clientControlPlane>>;
  readonly addresses: Readonly<Record<4 | 6, string>>;
  #marker: number;

  static async create(dataplane: Dataplane, marker: number): Promise<Bed> {
    const guarded = await GuardedNode.create(dataplane);
    const { topology } = guarded.node;
    const [client] = topology.clients;
    const [there] = topology.plan.clientAddresses;
    if (client === undefined || there === undefined) throw new Error('no client');
    await listen(client, [API_SERVER, OTHER]);
    const plane = await clientControlPlane(guarded.node, CONTROLLER);
    return new Bed(guarded, plane, { 4: there.v4, 6: there.v6 }, marker);
  }

  private constructor(
    guarded: GuardedNode,
    plane: Awaited<ReturnType<typeof clientControlPlane>>,
    addresses: Bed['addresses'],
    marker: number,
  ) {
    [this.guarded, this.#plane, this.addresses, this.#marker] = [guarded, plane, addresses, marker];
  }

  /** The first rules are confirmed. */
  async begin(): Promise<void> {
    const marker = ++this.#marker;
    this.#plane.endpoints([{ port: API_SERVER, addresses: Object.values(this.addresses) }]);
    this.publish(closed(marker));
    await this.start();
    await until('the first rules are confirmed', () => this.isConfirmed(marker), {
      ...LIMIT,
      detail: this.guarded.agent.log,
    });
  }

  start(guard: object = {}): Promise<void> {
    const options = ['--token-file', this.#plane.tokenFile, '--ca-file', this.#plane.caFile];
    const probes = [{ name: 'backup', tcp: `${this.addresses[4]}:${PORT}` }];
    return this.guarded.follow(this.#plane.url, options, { probes, ...guard });
  }

  publish(options: PolicyOptions): void {
    const { plan } = this.guarded.node.topology;
    this.#plane.publish(toState([nodeManifest(plan), policy('cut', options)], NODE_NAME));
  }

  /** A change is tried; returns its marker. */
  async tries(change: (marker: number) => PolicyOptions): Promise<number> {
    const marker = ++this.#marker;
    const isKnown = async () => (await this.guarded.file('cluster.json')).includes(String(API_SERVER));
    await until('the API server is known', isKnown, LIMIT);
    const before = this.guarded.times(TRIED).length;
    this.publish(change(marker));
    await this.guarded.says(TRIED, before + 1);
    return marker;
  }

  async reachesBoth(port: number): Promise<readonly boolean[]> {
    const { node } = this.guarded.node.topology;
    return await Promise.all([4, 6].map((family) => connects(node, this.addresses[family as 4 | 6], port)));
  }

  async isConfirmed(marker: number): Promise<boolean> {
    return (await this.guarded.file('node-state.jsonl')).includes(String(marker));
  }

  /** Nothing is tried, and the change is held. */
  async isHeld(marker: number): Promise<boolean> {
    assert.ok(!(await this.isConfirmed(marker)), `a cut is confirmed\n${this.guarded.agent.log()}`);
    const { trial, holds } = await this.guarded.remembered();
    return (
      trial === null && holds.some(({ isBrief }) => !isBrief) && !(await this.guarded.has(String(marker)))
    );
  }

  /** The elements are there. */
  async holdsDeadline(): Promise<boolean> {
    const { topology, dataplane } = this.guarded.node;
    const [command, element] =
      dataplane.iptables === null
        ? (['nft list set inet nodewall trial-deadline-v4', 'elements = '] as const)
        : (['ipset save nodewall-trial-deadline-n4', '\nadd '] as const);
    return (await topology.node.run(command.split(' '))).stdout.includes(element);
  }

  /** Milliseconds until a fresh connection to the API server is possible by both families. */
  async untilOpen(): Promise<number> {
    const began = performance.now();
    const isOpen = async () => (await this.reachesBoth(API_SERVER)).every(Boolean);
    try {
      await until('the API server can be reached', isOpen, { limit: WITHIN });
    } catch (error) {
      throw new Error(await this.guarded.node.rules(), { cause: error });
    }
    return performance.now() - began;
  }

  async close(): Promise<void> {
    await this.guarded.close();
    await this.#plane.close();
  }
}

const TITLES = [
  'lets the node reach its API server when the agent is gone, and nothing else',
  'confirms no cut by probes that passed while the agent was stopped',
];

forEachDataplane(
  'the deadline of rules that are tried',
  (dataplane) => {
    const beds: Bed[] = [];
    let found: readonly Promise<unknown>[] = [];
    const bed = (i: number): Bed => beds[i] ?? assert.fail();
    before(async function () {
      this.timeout(300_000);
      for (let i = 0; i < 6; i++) beds.push(await Bed.create(dataplane, 21_000 + 100 * i));
      await Promise.all(beds.map((one) => one.begin()));
      // Both wait for deadlines most of the time.
      found = [agentsGone(), agentsStopped()].map((one) => one.then(null, (error: unknown) => error));
    });
    after(async function () {
      this.timeout(300_000);
      await Promise.all(beds.map((one) => one.close()));
    });

    async function agentsGone(): Promise<void> {
      const killed = async (one: Bed, change: (marker: number) => PolicyOptions): Promise<number> => {
        const marker = await one.tries(change);
        await one.guarded.end();
        return marker;
      };
      const cutOff = async (one: Bed, change: (marker: number) => PolicyOptions): Promise<void> => {
        const marker = await killed(one, change);
        assert.deepEqual(await one.reachesBoth(API_SERVER), [false, false], 'the cut is in force');
        await one.untilOpen();
        const others = await one.reachesBoth(OTHER);
        const isWide = !JSON.stringify(change(1)).includes(`"port":${API_SERVER}`);
        if (isWide) assert.deepEqual(others, [false, false], 'other ports stay closed');
        assert.equal(await one.guarded.has(String(marker)), true, 'the rules are in force but for that');
        await one.start();
        await until('the cut is held', () => one.isHeld(marker), {
          ...LIMIT,
          detail: one.guarded.agent.log,
        });
        assert.equal(await one.guarded.has('trial-deadline'), false);
      };
      const good = async (one: Bed): Promise<void> => {
        const marker = await killed(one, closed);
        await sleep(1_000);
        assert.equal(await one.guarded.has('trial-deadline'), true);
        await one.start();
        await until('a good change is confirmed in the end', () => one.isConfirmed(marker), {
          ...LIMIT,
          detail: one.guarded.agent.log,
        });
        const isOver = async () => !(await one.guarded.has('trial-deadline'));
        await until('the deadline is gone', isOver, { detail: one.guarded.agent.log });
      };
      await Promise.all([
        cutOff(bed(0), (marker) => cut(marker, 'Drop', ALL)),
        cutOff(bed(1), (marker) => cut(marker, 'Reject', [tcp(API_SERVER), tcp(CONTROLLER)])),
        good(bed(2)),
      ]);
    }

    async function agentsStopped(): Promise<void> {
      const stopped = async (one: Bed, after: number, action: 'Drop' | 'Reject'): Promise<void> => {
        const marker = await one.tries((it) => cut(it, action, ALL));
        await sleep(after);
        await one.guarded.agent.signal('SIGSTOP');
        await one.untilOpen();
        // Connections that the agent has begun are made now.
        await sleep(3_000);
        await one.guarded.agent.signal('SIGCONT');
        await until('the cut is held', () => one.isHeld(marker), {
          ...LIMIT,
          detail: one.guarded.agent.log,
        });
      };
      const good = async (one: Bed): Promise<void> => {
        const marker = await one.tries(closed);
        await one.guarded.agent.signal('SIGSTOP');
        const isOver = async () => !(await one.holdsDeadline());
        await until('the deadline passes', isOver);
        assert.equal(await one.isConfirmed(marker), false);
        await one.guarded.agent.signal('SIGCONT');
        await one.guarded.says(PASSED);
        await until('a good change is confirmed in the end', () => one.isConfirmed(marker), {
          ...LIMIT,
          detail: one.guarded.agent.log,
        });
      };
      await Promise.all([stopped(bed(3), 0, 'Drop'), stopped(bed(4), 500, 'Reject'), good(bed(5))]);
    }

    for (const [i, title] of TITLES.entries())
      it(title, async function () {
        this.timeout(400_000);
        const error = await found[i];
        if (error !== undefined) throw error;
      });

    it('is found by an agent that starts, if the one before could not remember what it tried', async function () {
      this.timeout(400_000);
      await Promise.all(found);
      const { guarded } = bed(2);
      await bed(2).tries(closed);
      await guarded.end();
      await rm(join(guarded.node.stateDir, 'guard.json'));
      await bed(2).start({ confirm: 'Manual' });
      await guarded.says(TRIED);
      const { stderr } = await guarded.node.asked('confirm');
      assert.match(stderr, /not confirmed: the change was interrupted/);
      assert.match((await guarded.node.asked('confirm')).stdout, /Confirmed: nodewall.io\/cut/);
    });
  },
  EITHER_IPTABLES,
);
