/**
 * Guarded apply with its default times, many times: changes that cut the node off, by IPv4 and
 * IPv6, under a flood of packets that the confirmed rules drop; interruptions at random moments of
 * the window; an outage without a policy at fault. NODEWALL_TRIALS is the number of each.
 */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { CLIENT_INTERFACE } from '../netns/topology.ts';
import { toState } from '../properties/pipeline.ts';
import { clientControlPlane } from './client-control-plane.ts';
import { type Dataplane, dataplaneSuite, EITHER_IPTABLES, NFTABLES } from './dataplane.ts';
import { type FloodCount, passedDuring } from './flood-tool.ts';
import { CLOSED, GuardLanes, type Lane } from './guard-lanes.ts';
import { GuardedNode } from './guarded-node.ts';
import { NODE_NAME, node as nodeManifest, policy, tcp } from './manifests.ts';
import { until } from './until.ts';

const { NODEWALL_TRIALS = '50', NODEWALL_LANES = '10', NODEWALL_OUTAGE = '600' } = process.env;
const TRIALS = Number(NODEWALL_TRIALS);
const LANES = Number(NODEWALL_LANES);
/** Seconds of the outage. */
const OUTAGE = Number(NODEWALL_OUTAGE);
const DEFAULTS = { window: 10, failAfter: 15 };
/** Milliseconds in which the old verdicts must be back. */
const WITHIN = 20_000;
/** Milliseconds in which a good change must be confirmed. */
const CONFIRMED_WITHIN = 12_000;
/** Packets a second for each lane: all trials together send more than a million. */
const RATE = 600;
const CONTROLLER = 9443;
/** The first trial's time and the last one's, with a margin for a busy machine (milliseconds). */
const LIMIT = (TRIALS / LANES + 2) * 120_000;

/** Figures are part of the result. */
function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** The confirmed rules alone are in force. */
async function isBack({ guarded }: Lane, marker: number): Promise<boolean> {
  return (await guarded.has(String(CLOSED))) && !(await guarded.has(String(marker)));
}

async function untilInForce({ guarded }: Lane, marker: number): Promise<void> {
  const detail = () => guarded.agent.log();
  // The rule is of one family: with iptables the other one never has it.
  await until('the change is in force', () => guarded.has(String(marker)), { limit: 60_000, detail });
}

async function cutAndBack(lane: Lane, family: 4 | 6): Promise<number> {
  const { guarded } = lane;
  const marker = lane.marker();
  await guarded.cut(marker, family);
  await untilInForce(lane, marker);
  const since = performance.now();
  const detail = () => guarded.agent.log();
  await until('the confirmed rules are back', () => isBack(lane, marker), { limit: 60_000, detail });
  const took = performance.now() - since;
  // The next change's probes count only if they pass by then.
  const isFree = async () => guarded.agent.log().split('passes again').length > lapsOf(guarded);
  await until('the probe passes again', isFree, { limit: 60_000, detail });
  return took;
}

function lapsOf({ agent }: GuardedNode): number {
  return agent.log().split('rolled back to the last confirmed rules').length - 1;
}

/** Floods the closed port of each lane meanwhile. */
async function flooded(
  { lanes }: GuardLanes,
  family: 4 | 6,
  action: () => Promise<void>,
): Promise<FloodCount> {
  const target = { protocol: 'tcp', port: CLOSED, family, client: 1, rate: RATE } as const;
  const done = Promise.withResolvers<void>();
  const started = lanes.map(({ guarded }) => {
    const begun = Promise.withResolvers<void>();
    const counts = passedDuring(guarded.node.topology, [target], async () => {
      begun.resolve();
      await done.promise;
    });
    return { begun: begun.promise, counts };
  });
  await Promise.all(started.map(({ begun }) => begun));
  await action().finally(done.resolve);
  const counts = (await Promise.all(started.map((one) => one.counts))).flat();
  const sum = (of: keyof FloodCount) => counts.reduce((total, count) => total + count[of], 0);
  return { sent: sum('sent'), arrived: sum('arrived'), passed: sum('passed') };
}

/** Several programs do it, beside an agent that may remove a chain meanwhile. */
async function emptied({ guarded }: Lane): Promise<void> {
  for (let left = 5; ; left--) {
    try {
      return await guarded.node.lose();
    } catch (error) {
      if (left === 0) throw error;
    }
  }
}

/** What happens to a node while a change is tried that cuts it off. */
const INTERRUPTIONS = {
  'agent killed': async ({ guarded }: Lane) => {
    await guarded.end();
    await sleep(Math.random() * 500);
    await guarded.start(DEFAULTS);
  },
  'kernel emptied': emptied,
  'agent killed, kernel emptied': async ({ guarded }: Lane) => {
    await guarded.end();
    await guarded.node.lose();
    await guarded.start(DEFAULTS);
  },
  'clock set': ({ clock }: Lane) => clock.set(Math.round((2 * Math.random() - 1) * 3600)),
  'clock set, agent killed': async ({ guarded, clock }: Lane) => {
    await clock.set(Math.round((2 * Math.random() - 1) * 3600));
    await guarded.end();
    await guarded.start(DEFAULTS);
  },
} as const satisfies Record<string, (lane: Lane) => Promise<void>>;

async function interrupted(lane: Lane, trial: number): Promise<void> {
  const { guarded } = lane;
  const kinds = Object.entries(INTERRUPTIONS);
  const [kind, interrupt] = kinds[trial % kinds.length] ?? assert.fail();
  const marker = lane.marker();
  await guarded.cut(marker, trial % 2 === 0 ? 4 : 6);
  // From the edit on, over the window and what follows it.
  await sleep(Math.random() * 16_000);
  const before = guarded.agent.log().slice(-4_000);
  await interrupt(lane);
  const isOver = async () => {
    const { trial: pending, holds } = await guarded.remembered();
    const isHeld = holds.some(({ key, isBrief }) => key === 'nodewall.io/cut' && !isBrief);
    return pending === null && isHeld && (await isBack(lane, marker));
  };
  let seen = '';
  const detail = () => `${seen}\nbefore:\n${before}\nafter:\n${guarded.agent.log()}`;
  const isSeen = async () => {
    const memory = JSON.stringify(await guarded.remembered());
    seen = `${memory}; marker ${marker} in force: ${await guarded.has(String(marker))}`;
    return await isOver();
  };
  await until(`trial ${trial} ends (${kind})`, isSeen, { limit: 120_000, detail });
  const saved = await guarded.file('node-state.jsonl');
  assert.ok(saved.includes(String(CLOSED)) && !saved.includes(String(marker)), `trial ${trial} (${kind})`);
}

function lanesOf(dataplane: Dataplane, count: number): () => GuardLanes {
  let lanes: GuardLanes;
  before(async function () {
    this.timeout(600_000);
    lanes = await GuardLanes.create(dataplane, count);
  });
  after(async function () {
    this.timeout(600_000);
    await lanes?.close();
  });
  return () => lanes;
}

for (const dataplane of EITHER_IPTABLES) {
  dataplaneSuite('guarded apply, long', dataplane, () => {
    const lanes = lanesOf(dataplane, LANES);

    for (const family of [4, 6] as const) {
      it(`the old verdicts are back within 20 s, IPv${family}, and nothing passes that they drop`, async function () {
        this.timeout(LIMIT);
        await lanes().start(DEFAULTS);
        const took: number[] = [];
        const { sent, arrived, passed } = await flooded(lanes(), family, () =>
          lanes().run(TRIALS, async (lane) => void took.push(await cutAndBack(lane, family))),
        );
        await lanes().each(({ guarded }) => guarded.end());
        const slowest = Math.round(Math.max(...took));
        say(
          `      IPv${family}: ${took.length} trials, slowest ${slowest} ms; ${sent} packets, ${passed} leaked`,
        );
        assert.equal(took.length, TRIALS);
        assert.ok(slowest <= WITHIN, `${slowest} ms`);
        assert.ok(arrived >= 5_000 * TRIALS, `${arrived} packets arrived`);
        assert.equal(passed, 0);
      });
    }

    it('interrupted at any moment, ends with the confirmed rules', async function () {
      this.timeout(2 * LIMIT);
      await lanes().start(DEFAULTS);
      let ended = 0;
      await lanes().run(2 * TRIALS, async (lane, trial) => {
        await interrupted(lane, trial);
        ended++;
      });
      await lanes().each(({ guarded }) => guarded.end());
      say(`      ${ended} interruptions`);
      assert.equal(ended, 2 * TRIALS);
    });
  });
}

dataplaneSuite('guarded apply, long: an outage', NFTABLES, () => {
  const lanes = lanesOf(NFTABLES, LANES);
  afterEach(() => lanes().each(({ guarded }) => guarded.end()));

  it('without a policy at fault costs a node one rollback and one more transaction', async function () {
    this.timeout(OUTAGE * 2_000 + LIMIT);
    await lanes().start(DEFAULTS);
    let rollbacks = 0;
    let transactions = 0;
    await lanes().each(async (lane) => {
      const { guarded } = lane;
      const [client] = guarded.node.topology.clients;
      const marker = lane.marker();
      const before = guarded.times('enforced').length;
      await guarded.open(marker, 'Drop');
      await untilInForce(lane, marker);
      await client?.run(['ip', 'link', 'set', CLIENT_INTERFACE, 'down']);
      await sleep(OUTAGE * 1_000);
      const rolledBack = lapsOf(guarded);
      // The change itself is one.
      const applied = guarded.times('enforced').length - before - 1;
      assert.ok(rolledBack <= 1, `${rolledBack} rollbacks\n${guarded.agent.log()}`);
      assert.ok(applied <= 2, `${applied} transactions\n${guarded.agent.log()}`);
      assert.ok(await guarded.has(String(marker)), 'the change is in force in the end');
      rollbacks += rolledBack;
      transactions += applied;
      await client?.run(['ip', 'link', 'set', CLIENT_INTERFACE, 'up']);
    });
    say(
      `      ${LANES} nodes in ${OUTAGE} s: ${rollbacks} rollbacks, ${transactions} transactions after the change`,
    );
  });
});

dataplaneSuite('guarded apply, long: a good change', NFTABLES, () => {
  const lanes = lanesOf(NFTABLES, LANES);

  it('is confirmed within 12 s, and nothing is probed while nothing is tried', async function () {
    this.timeout(LIMIT);
    await lanes().start(DEFAULTS);
    const CONFIRMED = 'the rules are confirmed';
    const took: number[] = [];
    await lanes().run(TRIALS, async (lane) => {
      const { guarded } = lane;
      const marker = lane.marker();
      const before = guarded.times(CONFIRMED).length;
      await guarded.node.write('cut.json', [
        policy('cut', { ingress: [{ action: 'Drop', ports: [tcp(marker)] }] }),
      ]);
      await untilInForce(lane, marker);
      await guarded.says(CONFIRMED, before + 1);
      took.push((guarded.times(CONFIRMED).at(-1) ?? 0) - (guarded.times('enforced').at(-1) ?? 0));
    });
    say(`      ${took.length} changes, confirmed after ${Math.min(...took)} to ${Math.max(...took)} ms`);
    assert.ok(Math.max(...took) <= CONFIRMED_WITHIN, `${Math.max(...took)} ms`);
    await lanes().each(async ({ guarded }) => {
      const { node } = guarded.node.topology;
      const hook = 'type filter hook output priority 0';
      const sent = `table inet sent {\n chain out {\n ${hook}\n oifname != "lo" counter\n }\n}\n`;
      await node.run(['nft', '-f', '-'], { stdin: sent });
      await sleep(60_000);
      const { stdout } = await node.run(['nft', 'list', 'table', 'inet', 'sent']);
      assert.match(stdout, /counter packets 0 /);
      await guarded.end();
    });
  });
});

dataplaneSuite('guarded apply, long: the controller dies', NFTABLES, () => {
  it('at any moment of the window, and the confirmed rules are in force at the end', async function () {
    this.timeout(LIMIT);
    let ended = 0;
    const one = async (trial: number): Promise<void> => {
      const guarded = await GuardedNode.create(NFTABLES);
      const plane = await clientControlPlane(guarded.node, CONTROLLER);
      const stateOf = (action: 'Allow' | 'Drop', ...ports: readonly number[]) => {
        const rule = { name: 'out', action, ports: ports.map((port) => tcp(port)) } as const;
        return toState(
          [nodeManifest(guarded.node.topology.plan), policy('cut', { egress: [rule] })],
          NODE_NAME,
        );
      };
      plane.publish(stateOf('Allow', CLOSED));
      await guarded.follow(plane.url, ['--token-file', plane.tokenFile, '--ca-file', plane.caFile], DEFAULTS);
      await guarded.node.untilEnforced(String(CLOSED), guarded.agent);
      plane.publish(stateOf('Drop', 30_000, CONTROLLER));
      await guarded.says('are in force and tried');
      await sleep(Math.random() * 14_000);
      await plane.close();
      const detail = () => guarded.agent.log();
      const back = async () => (await guarded.has(String(CLOSED))) && !(await guarded.has('30000'));
      await until(`trial ${trial} ends`, back, { limit: 60_000, detail });
      assert.match(detail(), /probe controller failed.*rule cut\/out denies it/);
      await guarded.close();
      ended++;
    };
    for (let begun = 0; begun < TRIALS; begun += LANES)
      await Promise.all(Array.from({ length: Math.min(LANES, TRIALS - begun) }, (_, i) => one(begun + i)));
    say(`      ${ended} controllers`);
    assert.equal(ended, TRIALS);
  });
});
