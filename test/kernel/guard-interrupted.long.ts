/**
 * Changes of a cluster under the default configuration, each interrupted once at a random moment:
 * those that cut the node off never survive, the others are confirmed in the end.
 * NODEWALL_INTERRUPTIONS is the number of each, of which the other dataplane and the other family
 * have a part; NODEWALL_LANES that of nodes at a time.
 */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Family } from '../../lib/net/address.ts';
import { type Dataplane, dataplaneSuite, IPTABLES_NFT, NFTABLES } from './dataplane.ts';
import { CLOSED, type ClusterLane, CONTROLLER, clusterLane, DNS } from './guard-lanes.ts';
import { PORT } from './guarded-node.ts';
import { type PolicyOptions, tcp, udp } from './manifests.ts';
import { until } from './until.ts';

const { NODEWALL_INTERRUPTIONS = '500', NODEWALL_LANES = '10' } = process.env;
const EACH = Number(NODEWALL_INTERRUPTIONS);
const LANES = Number(NODEWALL_LANES);
/** By which family a node reaches all that it needs, with how many of each. */
const VARIANTS: readonly (readonly [Dataplane, Family, number])[] = [
  [NFTABLES, 4, EACH],
  [NFTABLES, 6, Math.ceil(EACH / 5)],
  [IPTABLES_NFT, 4, Math.ceil(EACH / 5)],
  [IPTABLES_NFT, 6, Math.ceil(EACH / 5)],
];
/** A trial's time, which a busy machine may need (milliseconds). */
const TRIAL = 240_000;

const ALL = [tcp(1, 65_535), udp(1, 65_535)];
const outward = (action: 'Drop' | 'Reject', ...ports: readonly object[]) => {
  return { egress: [{ name: 'cut', action, ports }] } as const;
};
const inward = (action: 'Drop' | 'Reject', marker: number) => {
  return { ingress: [{ name: 'cut', action, ports: [tcp(1, 65_535), tcp(marker)] }] } as const;
};

/** Changes that cut the node off; each names the marker's port. */
const CUTS: Readonly<Record<string, (marker: number) => PolicyOptions>> = {
  'reject all outward': (marker) => ({ ...closed(marker), ...outward('Reject', ...ALL) }),
  'drop all outward': (marker) => ({ ...closed(marker), ...outward('Drop', ...ALL) }),
  'close a probe’s port': (marker) => ({ ...closed(marker), ...outward('Drop', tcp(PORT)) }),
  'reject the controller': (marker) => ({ ...closed(marker), ...outward('Reject', tcp(CONTROLLER)) }),
  'drop name servers': (marker) => ({ ...closed(marker), ...outward('Drop', udp(DNS), tcp(DNS)) }),
  'drop all inward': (marker) => inward('Drop', marker),
  'reject all inward': (marker) => inward('Reject', marker),
};

const GOOD: Readonly<Record<string, (marker: number) => PolicyOptions>> = {
  'good inward': (marker) => closed(marker),
  'good both ways': (marker) => ({ ...closed(marker), ...outward('Reject', tcp(marker)) }),
};

function closed(...ports: readonly number[]): PolicyOptions {
  return { ingress: [{ name: 'closed', action: 'Drop', ports: ports.map((port) => tcp(port)) }] };
}

/** Without the table in the kernel; an agent may be about to remove a part of it. */
async function emptied({ guarded }: ClusterLane): Promise<void> {
  for (let left = 5; ; left--) {
    try {
      // An agent that was started a moment ago may have no rules in the kernel yet.
      if ((await guarded.node.rules()) !== '') await guarded.node.lose();
      return;
    } catch (error) {
      if (left === 0) throw error;
    }
  }
}

const INTERRUPTIONS: Readonly<Record<string, (lane: ClusterLane) => Promise<void>>> = {
  async 'agent killed'({ guarded, start }) {
    await guarded.end();
    await sleep(Math.random() * 500);
    await start();
  },
  async 'power cut'(lane) {
    await lane.guarded.end();
    await emptied(lane);
    await lane.start();
  },
  /** As a kubelet does that has been restarted too. */
  async 'agent killed, and started only when the API server answers'({ guarded, start, apiServerAnswers }) {
    await guarded.end();
    await until('the API server answers', apiServerAnswers, { limit: 60_000 });
    await start();
  },
  'kernel emptied': emptied,
  'controller away': (lane) => lane.withoutController(Math.random() * 8_000),
  async 'agent killed, controller away'({ guarded, start, withoutController }) {
    await guarded.end();
    const away = withoutController(Math.random() * 8_000);
    await start();
    await away;
  },
};

const at = <T>(table: Readonly<Record<string, T>>, index: number): [string, T] => {
  const all = Object.entries(table);
  return all[index % all.length] ?? assert.fail();
};

/** What the change was. */
async function interruptedChange(lane: ClusterLane, trial: number): Promise<string> {
  const { guarded } = lane;
  const isGood = trial % 2 === 1;
  const pair = Math.floor(trial / 2);
  const [kind, change] = at(isGood ? GOOD : CUTS, pair);
  const [how, interrupt] = at(INTERRUPTIONS, pair);
  const marker = lane.marker();
  const isConfirmed = async () => (await guarded.file('node-state.jsonl')).includes(String(marker));
  const start = guarded.agent.log().length;
  lane.publish(change(marker));
  // Half of them soon after the change, the others at any moment of the window.
  await sleep(Math.random() * (Math.random() < 0.5 ? 3_000 : 14_000));
  const old = guarded.agent.log().slice(start);
  await interrupt(lane);
  const detail = () => `${old.slice(-6_000)}\nafterwards:\n${guarded.agent.log().slice(-8_000)}`;
  const isHeld = async () => {
    const { trial: pending, holds } = await guarded.remembered();
    return pending === null && holds.some(({ isBrief }) => !isBrief) && !(await guarded.has(String(marker)));
  };
  const isOver = async () => {
    const survives = await isConfirmed();
    if (isGood) return survives;
    assert.ok(!survives, `${kind} is confirmed (trial ${trial}, ${how})\n${detail()}`);
    return await isHeld();
  };
  await until(`trial ${trial} ends (${kind}, ${how})`, isOver, { limit: TRIAL, detail });
  return kind;
}

for (const [dataplane, family, each] of VARIANTS)
  dataplaneSuite(`any change of a cluster by IPv${family}, interrupted`, dataplane, () => {
    let lanes: readonly ClusterLane[];
    before(async function () {
      this.timeout(600_000);
      const made: ClusterLane[] = [];
      lanes = made;
      // One after the other: namespaces are made by many programs.
      for (let i = 0; i < LANES; i++) made.push(await clusterLane(dataplane, family));
    });
    after(async function () {
      this.timeout(600_000);
      await Promise.all(lanes.map((lane) => lane.close()));
    });

    it('never survives if it cuts the node off, and does in the end if it does not', async function () {
      this.timeout((Math.ceil((2 * each) / LANES) + 2) * TRIAL);
      const ended: string[] = [];
      let next = 0;
      const run = async (lane: ClusterLane): Promise<void> => {
        lane.publish(closed(CLOSED));
        await lane.start();
        const isSaved = async () => (await lane.guarded.file('node-state.jsonl')).includes(String(CLOSED));
        const detail = lane.guarded.agent.log;
        await until('the first rules are confirmed', isSaved, { limit: TRIAL, detail });
        try {
          while (next < 2 * each) ended.push(await interruptedChange(lane, next++));
        } finally {
          // After a failure no lane begins another.
          next = 2 * each;
        }
      };
      const say = (): void => {
        const kinds = [...Object.keys(CUTS), ...Object.keys(GOOD)];
        const counts = kinds.map((kind) => `${kind} ${ended.filter((one) => one === kind).length}`);
        process.stdout.write(`      ${ended.length} interruptions: ${counts.join(', ')}\n`);
      };
      const saying = setInterval(say, 60_000);
      const all = await Promise.allSettled(lanes.map(run));
      clearInterval(saying);
      say();
      for (const one of all) if (one.status === 'rejected') throw one.reason;
      assert.equal(ended.length, 2 * each);
    });
  });
