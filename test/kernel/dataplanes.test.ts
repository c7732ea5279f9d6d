/**
 * Several dataplanes on one node: moving from one to another, what a crashed run left, and that all
 * judge alike.
 */
import assert from 'node:assert/strict';
import {
  DATAPLANES,
  type Dataplane,
  dataplaneSuite,
  IPTABLES_LEGACY,
  IPTABLES_NFT,
  inForce,
  NFTABLES,
  skipWithout,
} from './dataplane.ts';
import { draw, PLAN } from './drawn.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from './enforced-node.ts';
import { passedDuring } from './flood-tool.ts';
import type { Verdict } from './flow.ts';
import { everything, installForeignRules } from './foreign-rules.ts';
import { addStaleChains } from './iptables.ts';
import { kernelSuite } from './kernel-suite.ts';
import { cidr, policy, type Rule, tcp, udp } from './manifests.ts';
import { pause, until } from './until.ts';
import { withVariations } from './variations.ts';
import { observe } from './verdicts.ts';

const CLOSED = 9;
const OPEN = 10;
const MARKER = 20_000;
/**
 * Scenarios of the comparison, and flows of each. oracle.test.ts holds each dataplane to the
 * oracle, which says more.
 */
const SEEDS = Array.from({ length: Number(process.env.NODEWALL_SEEDS ?? 2) }, (_, i) => i + 1);
const FLOWS = 250;
/** Each is left once and moved to once; the other way round is a variation. */
const ROUNDS = withVariations<readonly Dataplane[]>(
  [[NFTABLES, IPTABLES_NFT, IPTABLES_LEGACY]],
  [[NFTABLES, IPTABLES_LEGACY, IPTABLES_NFT]],
);
const PAIRS = ROUNDS.flatMap((round) =>
  round.map((from, i) => ({ from, to: round[(i + 1) % round.length] ?? from })),
);

kernelSuite('dataplane migration', () => {
  let node: EnforcedNode;
  let agent: RunningAgent;
  /** The dataplane that `agent` enforces by. */
  let running: Dataplane | undefined;
  let generation = 0;
  before(async () => {
    node = await createEnforcedNode();
  });
  after(() => node?.close());

  /** Closed and open ports by rules with sets, and a marker that says which files are in force. */
  async function writeNext(): Promise<string> {
    const word = String(MARKER + ++generation);
    const clients = [cidr('10.100.0.0/14'), cidr('fd90:100::/30')];
    const others = Array.from({ length: 50 }, (_, i) => cidr(`198.51.100.${i}/32`));
    const ingress: Rule[] = [
      { name: 'marker', action: 'Drop', ports: [tcp(Number(word))] },
      { name: 'open', action: 'Allow', from: [...clients, ...others], ports: [udp(OPEN)] },
      { name: 'close', action: 'Drop', from: [...others, ...clients], ports: [udp(CLOSED)] },
    ];
    const forwarded = { traffic: 'NodePort', ingress: [{ action: 'Drop', ports: [tcp(30_000)] }] } as const;
    await node.write('policy.json', [policy('moved', { ingress }), policy('forwarded', forwarded)]);
    return word;
  }

  async function start(dataplane: Dataplane): Promise<void> {
    running = dataplane;
    agent = node.start(...(await node.configure({ ...dataplane.config, masquerade: { enabled: true } })));
  }

  /** Sets may stay for another iptables. */
  async function untilGone(dataplane: Dataplane, next: Dataplane): Promise<void> {
    const isGone = async () => {
      const { rules, text } = await inForce(node.topology.node, dataplane);
      return (next.iptables === null ? text : rules) === '';
    };
    await until(`nothing is left of ${dataplane.name}`, isGone, { detail: () => agent.log().slice(-3000) });
  }

  for (const { from, to } of PAIRS) {
    it(`from ${from.name} to ${to.name}, nothing leaks and nothing is interrupted`, async function () {
      await skipWithout(this, from, to);
      let word = await writeNext();
      if (running !== from) {
        await agent?.end('SIGTERM');
        await start(from);
      }
      await node.untilEnforced(word, agent, from);
      const targets = ([4, 6] as const).flatMap(
        (family) =>
          [
            { protocol: 'udp', port: CLOSED, family },
            { protocol: 'udp', port: OPEN, family, rate: 500, client: 1 },
          ] as const,
      );
      const counts = await passedDuring(node.topology, targets, async () => {
        await agent.end('SIGTERM');
        word = await writeNext();
        await start(to);
        await node.untilEnforced(word, agent, to);
        await untilGone(from, to);
        await pause(100);
      });
      for (const [i, { arrived, passed }] of counts.entries()) {
        const isOpen = targets[i]?.port === OPEN;
        assert(arrived > (isOpen ? 100 : 1_000), JSON.stringify(counts));
        assert.equal(passed, isOpen ? arrived : 0, JSON.stringify(counts));
      }
      assert.match(await node.rules(to), new RegExp(word));
    });
  }

  it('leaks nothing when killed during the migration repeatedly; the last start completes it', async function () {
    await skipWithout(this, ...DATAPLANES);
    let word = await writeNext();
    await agent?.end('SIGTERM');
    await start(NFTABLES);
    await node.untilEnforced(word, agent);
    const target = { protocol: 'udp', port: CLOSED, family: 4 } as const;
    let last: Dataplane = NFTABLES;
    const [count] = await passedDuring(node.topology, [target], async () => {
      for (const [i, after] of [250, 350, 450, 550, 650, 800, 1000].entries()) {
        await agent.end('SIGKILL');
        word = await writeNext();
        last = DATAPLANES[(i + 1) % DATAPLANES.length] ?? NFTABLES;
        await start(last);
        await pause(after);
      }
      await node.untilEnforced(word, agent, last);
      for (const other of DATAPLANES) {
        if (other !== last) await untilGone(other, last);
      }
    });
    assert(count && count.arrived > 2_000, JSON.stringify(count));
    assert.equal(count.passed, 0, JSON.stringify(count));
    await agent.end('SIGKILL');
    const moved = await node.rules(last);
    await node.clear();
    await node.again(...(await node.configure({ ...last.config, masquerade: { enabled: true } })));
    assert.equal(moved, await node.rules(last), 'something of the others is left');
  });
});

for (const dataplane of withVariations([IPTABLES_NFT], [IPTABLES_LEGACY])) {
  dataplaneSuite('what a run left that was killed', dataplane, () => {
    let node: EnforcedNode;
    beforeEach(async () => {
      node = await createEnforcedNode(undefined, dataplane);
    });
    afterEach(() => node?.close());

    it('is removed after the first successful apply, and no foreign rules are', async () => {
      const foreign = await installForeignRules(node.topology.node, [dataplane]);
      const others = await foreign.list();
      for (const [i, after] of withVariations([300, 500, 800], [400, 600]).entries()) {
        await node.write('policy.json', [large(i)]);
        const agent = node.start();
        await pause(after);
        await agent.end('SIGKILL');
      }
      await addStaleChains(node.topology.node, dataplane.iptables ?? 'nft');
      await node.write('policy.json', [large(9)]);
      await node.again();
      const held = await node.rules();
      assert.equal(await foreign.list(), others);
      await node.lose();
      await node.again();
      assert.equal(held, await node.rules());
      await node.clear();
      assert.equal(await node.rules(), '');
      assert.equal(await foreign.list(), others);
    });
  });
}

kernelSuite('every dataplane at once', () => {
  let node: EnforcedNode;
  before(async () => {
    node = await createEnforcedNode(PLAN);
  });
  after(() => node?.close());

  for (const seed of SEEDS) {
    it(`gives the same verdicts, seed ${seed}`, async function () {
      await skipWithout(this, ...DATAPLANES);
      const { scenario, flows } = draw(seed, { flows: FLOWS, names: false });
      await node.write('node.json', scenario.objects);
      const verdicts = new Map<Dataplane, readonly Verdict[]>();
      for (const dataplane of DATAPLANES) {
        const config = await node.configure({ ...scenario.config, ...dataplane.config });
        await node.again('--strict', ...config);
        verdicts.set(dataplane, await observe(node.topology, flows));
      }
      const differing = flows.flatMap((flow, i) => {
        const seen = DATAPLANES.map((one) => verdicts.get(one)?.[i]);
        return new Set(seen).size === 1 ? [] : [`${JSON.stringify(flow)}: ${seen.join(', ')}`];
      });
      assert.deepEqual(differing.slice(0, 10), [], `${differing.length} of ${flows.length} flows differ`);
    });
  }

  it('auto logs its choice and the reason', async () => {
    await node.write('policy.json', [large(1)]);
    const { stdout, stderr } = await node.again(...(await node.configure({ dataplane: 'auto' })));
    assert.match(`${stdout}${stderr}`, /nftables works here/);
    assert.notEqual(await node.rules(NFTABLES), '');
  });

  it('cleanup removes the rules of every dataplane, and no foreign rules', async function () {
    await skipWithout(this, ...DATAPLANES);
    // Last, as foreign rules stay.
    await node.clear();
    const listAll = async () => (await everything(node.topology.node, ['nft', 'legacy'])).join('\n');
    await installForeignRules(node.topology.node, DATAPLANES);
    const before = await listAll();
    await node.write('policy.json', [large(1)]);
    await node.again();
    for (const variant of ['nft', 'legacy'] as const) await addStaleChains(node.topology.node, variant);
    const { stdout, stderr } = await node.cleanup();
    assert.equal(await listAll(), before);
    for (const word of [/table inet nodewall/, /iptables.*nft/, /iptables.*legacy/, /\bsets?\b|ipset/]) {
      assert.match(`${stdout}${stderr}`, word);
    }
    await node.cleanup();
    assert.equal(await listAll(), before);
  });
});

/** So many chains and members that an apply takes a while. */
function large(n: number): object {
  const hosts = (i: number) =>
    Array.from({ length: 300 }, (_, j) => cidr(`10.${n * 20 + i}.${j >> 7}.${j & 127}/32`));
  return policy('large', {
    ingress: Array.from({ length: 20 }, (_, i) => ({
      name: `rule-${i}`,
      action: i % 2 === 0 ? ('Allow' as const) : ('Drop' as const),
      from: hosts(i),
      ports: [tcp(1000 + 10 * i + n)],
    })),
  });
}
