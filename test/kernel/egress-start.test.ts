/**
 * Pods with egress policies that talk from their first millisecond: what the server sees, and how
 * often they must send again, with CNI's results and with the CNI plugin.
 */
import assert from 'node:assert/strict';
import { type EgressAgents, egressAgents, egressPolicy, gateway } from './egress-agents.ts';
import { createEgressLab, type EgressLab } from './egress-lab.ts';
import { kernelSuite } from './kernel-suite.ts';
import { type Incarnation, StartingPod } from './starting-pod.ts';
import { until } from './until.ts';

const NODES = ['plain', 'gw-1', 'gw-2'];
/** By label of a pod: the node whose address the server sees. */
const LEAVES_BY = { one: 'gw-1', two: 'gw-2', none: 'plain' } as const;
const LABELS = ['one', 'two', 'none', 'two', 'one', 'none', 'one'] as const;

kernelSuite('egress gateways: the start of pods', () => {
  let lab: EgressLab;
  let agents: EgressAgents;
  let pod: StartingPod;
  before(async () => {
    lab = await createEgressLab({ nodes: NODES, podsPerNode: 1 });
    agents = await egressAgents(lab, {}, (name) => name === 'plain-0');
    await agents.write('gateways.json', [gateway('one', ['gw-1']), gateway('two', ['gw-2'])]);
    await agents.write('policies.json', [
      egressPolicy('one', ['one'], { gateway: 'one' }),
      egressPolicy('two', ['two'], { gateway: 'two' }),
    ]);
    pod = new StartingPod(lab, agents, 'plain-0');
    await pod.prepare();
    for (const node of NODES) agents.start(node);
    for (const node of NODES) await agents.untilInForce(node, /chain egress-guard/);
  });
  after(async () => {
    await pod?.close();
    await agents?.close();
    await lab?.close();
  });

  /** As the scheduler does, some time before CNI begins. */
  async function schedule(label: string): Promise<Incarnation> {
    const one = { name: `pod-${label}`, uid: `${label}-${performance.now()}`, label };
    await agents.write('pods.json', [pod.object(one, false)]);
    await agents.untilInForce('plain', new RegExp(`EgressPolicy default/${label}`));
    return one;
  }

  async function seenOnly(node: string, message = node): Promise<void> {
    const { v4, v6 } = lab.node(node);
    const seen = [...(await lab.seen()).keys()];
    assert.deepEqual(
      seen.filter((address) => address !== v4 && address !== v6),
      [],
      message,
    );
  }

  it('by CNI’s results: at most one SYN is sent again, before the API server knows the address', async () => {
    const tried: string[] = [];
    await lab.forget();
    // Where agents get no processor for a second, a pod sends again: another one tries.
    await until('a pod sends at most one SYN again', async () => {
      assert.ok(tried.length < 3, tried.join());
      const one = await schedule('one');
      const [connected] = await Promise.all([pod.connect(4), pod.addResult(one)]);
      const later = await pod.connect(6);
      await seenOnly('gw-1');
      await pod.removeResult(one);
      tried.push(`${connected.syns} SYNs in ${connected.milliseconds} ms, then ${later.syns}`);
      return connected.syns <= 2 && later.syns === 1;
    });
  });

  it('by the plugin: none is sent again, and the result is the one before', async () => {
    const two = await schedule('two');
    await lab.forget();
    assert.equal(JSON.parse(await pod.plugin('ADD', two)).ips.length, 2);
    for (const family of [4, 6] as const) assert.equal((await pod.connect(family)).syns, 1);
    await seenOnly('gw-2');
    assert.equal(await pod.plugin('CHECK', two), '');
    assert.equal(await pod.plugin('DEL', two), '');
    assert.equal(JSON.parse(await pod.plugin('CHECK', two)).code, 11);
  });

  it('the next pod with an address inherits no connection, where the API server alone says so', async () => {
    const [v4, v6] = [{ family: 4, protocol: 'udp', srcPort: 30_100 } as const, { family: 6 } as const];
    for (const [i, label] of LABELS.entries()) {
      await agents.write('pods.json', [pod.object({ name: `api-${i}`, uid: `api-${i}`, label }, true)]);
      // UDP of the pod before, with the same port.
      await until(`${label} leaves by ${LEAVES_BY[label]}`, async () => {
        await lab.forget();
        const answers = await lab.ask('plain-0', [v4, { ...v4, ...v6 }], 50);
        const own = lab.node(LEAVES_BY[label]);
        const seen = [...(await lab.seen()).keys()];
        return (
          answers.every((one) => one === 'reply') && seen.every((one) => one === own.v4 || one === own.v6)
        );
      });
    }
  });

  it('an address that pods have one after another is never taken for that of an earlier one', async () => {
    let before: Incarnation | null = null;
    for (const [i, label] of LABELS.entries()) {
      const now: Incarnation = { name: `churn-${i}`, uid: `churn-${i}`, label };
      // The API server still says that the earlier pod has the address.
      const objects = [pod.object(now, false), ...(before === null ? [] : [pod.object(before, true)])];
      await agents.write('pods.json', objects);
      if (before !== null) {
        await until('the earlier pod is known with its address', async () => isSourceOf('plain'));
        await pod.removeResult(before);
        // CNI and the container runtime need longer until the next pod runs.
        await until('connections of the earlier pod are gone', async () => !(await hasConnections('plain')));
      }
      await lab.forget();
      const flow = { family: 4, protocol: 'udp', srcPort: 30_000 } as const;
      const start = Promise.all([lab.ask('plain-0', [flow, { ...flow, family: 6 }], 20), pod.addResult(now)]);
      await start;
      await until(`${label} leaves`, async () => {
        const answers = await lab.ask('plain-0', [flow, { ...flow, family: 6 }], 20);
        return answers.every((one) => one === 'reply');
      });
      await seenOnly(LEAVES_BY[label], `${i}: ${label}`);
      before = now;
    }
  });

  async function hasConnections(node: string): Promise<boolean> {
    const argv = ['conntrack', '-L', '-s', lab.pod('plain-0').v4];
    return (await lab.node(node).namespace.run(argv)).stdout !== '';
  }

  async function isSourceOf(node: string): Promise<boolean> {
    const { stdout } = await lab.node(node).namespace.run(['nft', 'list', 'table', 'inet', 'nodewall']);
    return stdout.includes(lab.pod('plain-0').v4);
  }
});
