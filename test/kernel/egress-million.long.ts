/**
 * A million packets with an egress gateway's address, each the first of a connection, counted by
 * the server; none with another address, whatever changes, dies, boots or is removed meanwhile.
 */
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { type EgressAgents, egressAgents, egressPolicy, gateway } from './egress-agents.ts';
import { createEgressLab, type EgressLab } from './egress-lab.ts';
import { kernelSuite } from './kernel-suite.ts';
import { type Incarnation, StartingPod } from './starting-pod.ts';
import { until } from './until.ts';

const NODES = ['plain', 'gw-1', 'gw-2'];
const PACKETS = Number(process.env.NODEWALL_PACKETS ?? 1_000_000);
/** Of each family: packets a second, as far as the machine can. */
const RATE = 4_000;
const CHANGES = 50;
const KILLS = 10;
const REBOOTS = 5;
const INCARNATIONS = 21;
/** What is on the way when a flood ends. */
const DRAIN = 300;
const LIMIT = 600_000;
/** By label of a pod: the node whose address the server sees. */
const LEAVES_BY = { one: 'gw-1', two: 'gw-2', none: 'plain' } as const;
const LABELS = ['one', 'two', 'none'] as const;

const GATEWAYS = [gateway('one', ['gw-1']), gateway('two', ['gw-2'])];
const BY_LABEL = LABELS.slice(0, 2).map((label) => egressPolicy(label, [label], { gateway: label }));

kernelSuite('egress gateways: a million packets', function () {
  this.timeout(LIMIT);
  let lab: EgressLab;
  let agents: EgressAgents;
  let total = 0;
  before(async () => {
    lab = await createEgressLab({ nodes: NODES, podsPerNode: 2 });
    agents = await egressAgents(lab, {}, (name) => name === 'plain-1');
    await agents.write('gateways.json', GATEWAYS);
    await policies('first', 'one');
    for (const node of NODES) agents.start(node);
    for (const node of NODES) await agents.untilInForce(node, /chain egress-guard/);
    await untilOut();
  });
  after(async () => {
    await agents?.close();
    await lab?.close();
  });

  /** The policy of plain-0, beside those of pods that start. */
  async function policies(name: string, to: string): Promise<void> {
    await agents.write('policies.json', [egressPolicy(name, ['plain-0'], { gateway: to }), ...BY_LABEL]);
  }

  async function untilOut(): Promise<void> {
    const flows = ([4, 6] as const).map((family) => ({ family, protocol: 'udp' }) as const);
    await until('plain-0 is answered', async () =>
      (await lab.ask('plain-0', flows, 50)).every((one) => one === 'reply'),
    );
  }

  async function count(): Promise<number> {
    return [...(await lab.seen()).values()].reduce((sum, one) => sum + one, 0);
  }

  async function untilSeen(packets: number): Promise<void> {
    const enough = (await count()) + packets;
    await until(`${packets} packets more`, async () => (await count()) >= enough, { limit: 60_000 });
  }

  /** Floods while something happens: the server sees these nodes' addresses alone. */
  async function flooded(
    what: string,
    { pod = 'plain-0', by }: { readonly pod?: string; readonly by: readonly string[] },
    action: () => Promise<void>,
  ): Promise<void> {
    // The ports of a flood may be those of connections that got another way; CNI's DEL ends a
    // pod's.
    if (pod === 'plain-0') await lab.node('plain').namespace.run(['conntrack', '-F']);
    await lab.forget();
    const floods = ([4, 6] as const).map((family) => lab.flood(pod, { family, protocol: 'udp' }, RATE));
    const stops = await Promise.all(floods);
    let sent = 0;
    try {
      await action();
    } finally {
      sent = (await Promise.all(stops.map((stop) => stop()))).reduce((sum, one) => sum + one, 0);
    }
    await pause(DRAIN);
    const right = by.flatMap((name) => [lab.node(name).v4, lab.node(name).v6]);
    const wrong = [...(await lab.seen())].filter(([address]) => !right.includes(address));
    assert.deepEqual(wrong, [], what);
    const seen = await count();
    total += seen;
    if (what !== '') process.stdout.write(`      ${what}: ${sent} sent, ${seen} seen, 0 wrong\n`);
  }

  it(`${CHANGES} changes of policies`, () =>
    flooded('changes of policies', { by: ['gw-1', 'gw-2'] }, async () => {
      for (let i = 0; i < CHANGES; i++) {
        await policies(`change-${i}`, i % 2 === 0 ? 'two' : 'one');
        await agents.untilInForce('plain', new RegExp(`default/change-${i}\\b`));
        await untilSeen(1_000);
      }
    }));

  it(`kill -9 of the agents, ${KILLS} times each`, () =>
    flooded('kill -9', { by: ['gw-1'] }, async () => {
      for (let i = 0; i < KILLS; i++) {
        for (const node of ['plain', 'gw-1']) {
          await agents.agent(node).end('SIGKILL');
          await untilSeen(1_000);
          agents.start(node);
        }
        await policies(`killed-${i}`, 'one');
        await agents.untilInForce('plain', new RegExp(`default/killed-${i}\\b`));
      }
    }));

  it('rules, routes, neighbours and the device removed by hand, on both sides', () =>
    flooded('removed by hand', { by: ['gw-1'] }, async () => {
      const removals = [
        'ip rule del pref 71; ip -6 rule del pref 71',
        'ip rule del pref 70; ip -6 rule del pref 70',
        'ip nexthop flush proto 119',
        'for t in $(seq 1853292545 1853292610); do ip route flush table $t; ip -6 route flush table $t; done',
        'ip route flush table 1853292800; ip -6 route flush table 1853292800',
        'ip neigh flush nud permanent dev nodewall-egress',
        'ip link set nodewall-egress down',
        'ip link del nodewall-egress',
      ];
      for (const removal of removals) {
        for (const node of ['plain', 'gw-1']) {
          await lab.node(node).namespace.run(['sh', '-c', removal], { anyStatus: true });
          await untilOut();
        }
      }
    }));

  it('all gateways gone', async () => {
    await agents.write('gateways.json', [gateway('one', ['nobody']), gateway('two', ['nobody'])]);
    await agents.untilInForce('plain', /goto egress-drop-not-ready comment "EgressPolicy default\/killed/);
    await flooded('all gateways gone', { by: [] }, () => pause(3_000));
    await agents.write('gateways.json', GATEWAYS);
    await agents.untilInForce('plain', /goto egress-slot-\d+ comment "EgressPolicy default\/killed/);
    await untilOut();
  });

  it(`${REBOOTS} boots of the pod's node; the pod talks from its first millisecond`, async () => {
    const pod = new StartingPod(lab, agents, 'plain-1');
    const one = { name: 'boot', uid: 'boot', label: 'one' };
    await agents.write('pods.json', [pod.object(one, true)]);
    await agents.untilInForce('plain', /EgressPolicy default\/one/);
    for (let i = 0; i < REBOOTS; i++) {
      await agents.agent('plain').end('SIGKILL');
      await loseKernel('plain');
      // As kubelet does it, before the agent is there.
      const added = pod.plugin('ADD', one);
      await pause(300);
      agents.start('plain');
      const result = await added;
      assert.equal(JSON.parse(result).ips?.length, 2, result);
      await flooded(`boot ${i + 1}`, { pod: 'plain-1', by: ['gw-1'] }, () => untilSeen(5_000));
      assert.equal(await pod.plugin('DEL', one), '');
    }
    await agents.write('pods.json', []);
    await untilOut();
  });

  it('boots of the gateway while pods of another node talk', () =>
    flooded('boots of the gateway', { by: ['gw-1'] }, async () => {
      for (let i = 0; i < REBOOTS; i++) {
        await agents.agent('gw-1').end('SIGKILL');
        await loseKernel('gw-1');
        await pause(300);
        agents.start('gw-1');
        await untilSeen(5_000);
      }
    }));

  /** What a boot leaves of nodewall in the kernel: nothing. */
  async function loseKernel(node: string): Promise<void> {
    const lose = `nft delete table inet nodewall; nft delete table arp nodewall; ip link del nodewall-egress
      for f in -4 -6; do for p in 70 71 71 71 71 79; do ip $f rule del pref $p; done; done
      ip nexthop flush proto 119; conntrack -F`;
    await lab.node(node).namespace.run(['sh', '-c', lose], { anyStatus: true });
  }

  it(`${INCARNATIONS} pods that have one address after another`, async () => {
    const pod = new StartingPod(lab, agents, 'plain-1');
    let last: Incarnation | null = null;
    const seen = total;
    for (let i = 0; i < INCARNATIONS; i++) {
      const label = LABELS[i % LABELS.length] ?? 'none';
      const now = { name: `churn-${i}`, uid: `churn-${i}`, label };
      // The API server says for a while that the earlier pod has the address.
      const before = last === null ? [] : [pod.object(last, true)];
      await agents.write('pods.json', [pod.object(now, false), ...before]);
      if (last !== null) await untilReleased(pod, last);
      // Talks before CNI has written its result.
      const flood = flooded('', { pod: 'plain-1', by: [LEAVES_BY[label]] }, () => untilSeen(3_000));
      await pod.addResult(now);
      await flood;
      last = now;
    }
    process.stdout.write(`      ${INCARNATIONS} pods with one address: ${total - seen} seen, 0 wrong\n`);
  });

  async function untilReleased(pod: StartingPod, last: Incarnation): Promise<void> {
    const { place } = pod;
    const { namespace } = lab.node('plain');
    await until('the earlier pod is known with its address', async () =>
      (await namespace.run(['nft', 'list', 'table', 'inet', 'nodewall'])).stdout.includes(place.v4),
    );
    await pod.removeResult(last);
    await until('its connections are gone', async () => {
      const left = await Promise.all(
        [place.v4, place.v6].map((address) => namespace.run(['conntrack', '-L', '-s', address])),
      );
      return left.every(({ stdout }) => stdout === '');
    });
  }

  it(`${PACKETS} in all`, async () => {
    if (total < PACKETS) await flooded('nothing happens', { by: ['gw-1'] }, () => untilSeen(PACKETS - total));
    process.stdout.write(`      ${total} packets seen, 0 with a wrong address\n`);
    assert.ok(total >= PACKETS);
  });
});
