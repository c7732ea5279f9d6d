/**
 * Floating addresses in the kernel, with leases given by hand: who answers for an address, what
 * leaves with it, and what becomes of connections when it moves.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AskedProcess } from '../netns/asked-process.ts';
import type { Namespace } from '../netns/namespace.ts';
import { probeProgram } from '../probe/probe.ts';
import { NODEWALL } from '../program.ts';
import { clusterObjects, EGRESS_CONFIG, egressPolicy, gateway } from './egress-agents.ts';
import { createEgressLab, type EgressLab, type LabFlow, SERVER } from './egress-lab.ts';
import { kernelSuite } from './kernel-suite.ts';
import { listen, talk } from './talk.ts';
import { until } from './until.ts';
import { type Answer, type NeighbourWatch, watchNeighbours } from './watch-neighbours.ts';

interface Said {
  readonly result?: unknown;
  readonly error?: string;
  readonly enforced?: readonly string[];
  readonly failed?: string;
  readonly drifted?: readonly string[];
}

/** One node: a process of floating-child.ts. */
class FloatingNode {
  readonly #child;
  readonly #asked: AskedProcess<object, Said>;
  readonly drifts: string[] = [];
  #enforced = Promise.withResolvers<void>();

  constructor(lab: EgressLab, node: string, manifests: string, config: string) {
    const program = join(import.meta.dirname, 'floating-child.ts');
    this.#child = lab.node(node).namespace.spawn([process.execPath, program, node, manifests, config]);
    this.#asked = new AskedProcess(this.#child, ({ enforced, failed, drifted }) => {
      if (drifted !== undefined) this.drifts.push(...drifted);
      if (failed !== undefined) this.#enforced.reject(new Error(failed));
      if (enforced !== undefined) this.#enforced.resolve();
    });
  }

  log(): string {
    return this.#asked.log;
  }

  /** Reads the manifests; resolves once they are in force. */
  async load(): Promise<void> {
    this.#enforced = Promise.withResolvers();
    await this.#call('load');
    await this.#enforced.promise;
  }

  async read(): Promise<readonly string[]> {
    return ((await this.#call('read')) as { address: string }[]).map(({ address }) => address).sort();
  }

  /** @param lease milliseconds; returns the MACs of conflicts, or 'late' */
  async take(addresses: readonly string[], lease: number): Promise<readonly string[] | 'late'> {
    const found = (await this.#call('take', addresses, lease)) as 'late' | { mac: string }[];
    return found === 'late' ? found : found.map(({ mac }) => mac);
  }

  /** Returns those that have ended. */
  async renew(addresses: readonly string[], lease: number): Promise<readonly string[]> {
    return (await this.#call('renew', addresses, lease)) as string[];
  }

  async drop(addresses: readonly string[]): Promise<void> {
    await this.#call('drop', addresses);
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.#child.kill('SIGKILL');
    await once(this.#child, 'exit');
  }

  async #call(call: string, addresses: readonly string[] = [], lease = 0): Promise<unknown> {
    const { result, error } = await this.#asked.ask({ call, addresses, lease });
    if (error !== undefined) throw new Error(`${error}\n${this.log().slice(-2000)}`);
    return result;
  }
}

interface FloatingNodes {
  node(name: string): FloatingNode;
  /** Starts a node's process, again if it was killed. */
  start(name: string): FloatingNode;
  write(name: string, objects: readonly object[]): Promise<void>;
  close(): Promise<void>;
}

async function floatingNodes(lab: EgressLab): Promise<FloatingNodes> {
  const folder = await mkdtemp(join(tmpdir(), 'nodewall-floating-'));
  const [manifests, config] = [join(folder, 'manifests'), join(folder, 'config.yaml')];
  await mkdir(manifests);
  await writeFile(config, JSON.stringify(EGRESS_CONFIG)); // JSON is YAML
  const nodes = new Map<string, FloatingNode>();
  const write = async (name: string, items: readonly object[]): Promise<void> => {
    const fresh = join(folder, name);
    await writeFile(fresh, JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
    await rename(fresh, join(manifests, name));
  };
  await write('cluster.json', clusterObjects(lab));
  return {
    write,
    node(name) {
      const node = nodes.get(name);
      if (node === undefined) throw new Error(`no node ${name}`);
      return node;
    },
    start(name) {
      const node = new FloatingNode(lab, name, manifests, config);
      nodes.set(name, node);
      return node;
    },
    async close() {
      await Promise.all([...nodes.values()].map((node) => node.kill()));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

const EIP = ['192.0.2.50', '2001:db8:a::50'] as const;
const TALK_PORT = 7100;
/** Long enough for a loaded machine. */
const LEASE = 30_000;
/** New connections a second of each pod and family. */
const RATE = 1_000;
/** floating.long.ts: more moves, under as many packets. */
const MOVES = process.env.NODEWALL_LONG_FLOODS === '1' ? 60 : 3;
const FLOWS: readonly LabFlow[] = ([4, 6] as const).flatMap((family) =>
  (['tcp', 'udp', 'icmp'] as const).map((protocol) => ({ family, protocol })),
);
const ANSWERED = FLOWS.map(() => 'reply');
const SILENT = FLOWS.map(() => 'nothing');

kernelSuite('floating addresses', () => {
  let lab: EgressLab;
  let nodes: FloatingNodes;
  before(async () => {
    lab = await createEgressLab({ nodes: ['plain', 'gw-1', 'gw-2'], podsPerNode: 1 });
    nodes = await floatingNodes(lab);
    await nodes.write('policies.json', [
      egressPolicy('first', ['plain-0', 'gw-1-0', 'gw-2-0'], { gateway: 'pool' }),
    ]);
    await owner('gw-1');
    await Promise.all([...lab.nodes.keys()].map((name) => nodes.start(name).load()));
    await listen(lab.server, [TALK_PORT]);
  });
  after(async () => {
    await nodes?.close();
    await lab?.close();
  });

  /** What the statuses say; nodes hear of it with their next load. */
  async function owner(node: string): Promise<void> {
    const slots = [{ name: '0', node, epoch: 1, addresses: [...EIP] }];
    const spec = { addresses: { pools: [{ ranges: [...EIP] }] } };
    const pool = { ...gateway('pool', ['gw-1', 'gw-2'], spec), status: { slots } };
    await nodes.write('gateways.json', [pool]);
  }

  /** The status names another owner, the old one gives up, the new one begins. */
  async function move(from: string, to: string): Promise<number> {
    await owner(to);
    const began = performance.now();
    await Promise.all([nodes.node(from).drop(EIP), ...loads()]);
    assert.deepEqual(await nodes.node(to).take(EIP, LEASE), []);
    return performance.now() - began;
  }

  function loads(): Promise<void>[] {
    return [...lab.nodes.keys()].map((name) => nodes.node(name).load());
  }

  /** The pods' connections leave with the floating addresses. */
  async function assertLeaves(...pods: readonly string[]): Promise<void> {
    for (const pod of pods) {
      await lab.forget();
      assert.deepEqual(await lab.ask(pod, FLOWS), ANSWERED, pod);
      assert.deepEqual([...(await lab.seen()).keys()].sort(), [...EIP], pod);
    }
  }

  /** What comes back to the server for the first packet of a connection to the addresses. */
  async function knock(): Promise<readonly string[]> {
    const flows = [
      { src: '192.0.2.100', dst: EIP[0], protocol: 6 },
      { src: '192.0.2.100', dst: EIP[0], protocol: 17 },
      { src: '192.0.2.100', dst: EIP[0], protocol: 1, icmpType: 8 },
      { src: '2001:db8:a::100', dst: EIP[1], protocol: 6 },
      { src: '2001:db8:a::100', dst: EIP[1], protocol: 58, icmpType: 128 },
    ].map((flow, i) => JSON.stringify({ id: i + 1, ...flow, srcPort: 40_000 + i, dstPort: 22 }));
    const argv = [await probeProgram(), 'send', '--wait', '100', '--interface', 'eth0'];
    const { stdout } = await lab.server.run(argv, { stdin: `${flows.join('\n')}\n` });
    return stdout
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { saw: string }).saw);
  }

  it('nothing leaves before a lease, and nobody answers', async () => {
    await lab.forget();
    assert.deepEqual(await lab.ask('plain-0', FLOWS, 150), SILENT);
    assert.deepEqual([...(await lab.seen()).keys()], []);
    assert.deepEqual(await knock(), knocked('nothing'));
  });

  it('with a lease, pods of every node leave with the addresses; packets without a connection get no answer', async () => {
    assert.deepEqual(await nodes.node('gw-1').take(EIP, LEASE), []);
    await assertLeaves('plain-0', 'gw-1-0', 'gw-2-0');
    assert.deepEqual(await knock(), knocked('nothing'));
    assert.deepEqual(await nodes.node('gw-1').read(), [...EIP]);
    const { stdout } = await lab.node('gw-1').namespace.run(['ip', '-o', 'addr', 'show', 'dev', 'eth0']);
    for (const text of [
      /192\.0\.2\.50\/32 .*noprefixroute/,
      /2001:db8:a::50\/128 .*nodad .*preferred_lft 0sec/s,
    ])
      assert.match(stdout, text);
  });

  it('a move keeps connections, and two nodes never answer at one time', async () => {
    const calls = [SERVER.v4, SERVER.v6].map((host) => ({ name: host, host, port: TALK_PORT }));
    const pods = ['plain-0', 'gw-1-0', 'gw-2-0'];
    const talks = await Promise.all(pods.map((pod) => talk(lab.pod(pod).namespace, calls)));
    const allTalk = async (when: string): Promise<void> => {
      const found = await Promise.all(talks.map((still) => still()));
      assert.deepEqual(
        found,
        talks.map(() => calls.map(({ name }) => name)),
        when,
      );
    };
    await allTalk('before');
    const watch = await watchNeighbours(lab.server, namespaces(), EIP);
    try {
      await untilAnswers(watch, 'gw-1');
      await move('gw-1', 'gw-2');
      await untilAnswers(watch, 'gw-2');
      await allTalk('after the move');
      await assertLeaves(...pods);
      await move('gw-2', 'gw-1');
      await allTalk('after the move back');
    } finally {
      watch.close();
    }
  });

  function namespaces(): ReadonlyMap<string, Namespace> {
    return new Map([...lab.nodes].map(([name, { namespace }]) => [name, namespace]));
  }

  /**
   * Until both addresses are answered for by this node; the owner changes once at most till then.
   */
  async function untilAnswers(watch: NeighbourWatch, node: string): Promise<void> {
    const all: Answer[] = [];
    await until(`${node} answers`, async () => {
      all.push(...(await watch.answers()));
      return EIP.every((address) => all.findLast((one) => one.address === address)?.node === node);
    });
    for (const address of EIP) {
      const owners = all.filter((one) => one.address === address).map((one) => one.node);
      const changes = owners.filter((one, i) => i > 0 && one !== owners[i - 1]);
      assert.ok(changes.length <= 1, `${address}: ${changes}`);
    }
  }

  it('an owner that is stopped falls silent when its lease ends, and stays so when it goes on', async () => {
    const watch = await watchNeighbours(lab.server, namespaces(), EIP);
    const [first, second] = [nodes.node('gw-1'), nodes.node('gw-2')];
    try {
      await untilAnswers(watch, 'gw-1');
      const began = performance.now();
      assert.deepEqual(await first.renew(EIP, 700), []);
      first.signal('SIGSTOP');
      await until('silence', async () => {
        await lab.ask('plain-0', [{ family: 4, protocol: 'udp' }], 100);
        return (await watch.answers()).length === 0;
      });
      assert.ok(performance.now() - began >= 650, 'the lease was kept');
      await lab.forget();
      assert.deepEqual(await lab.ask('plain-0', FLOWS, 150), SILENT);
      assert.deepEqual(await knock(), knocked('nothing'));
      assert.deepEqual([...(await lab.seen()).keys()], []);
      await owner('gw-2');
      await Promise.all([second.load(), nodes.node('plain').load()]);
      assert.deepEqual(await second.take(EIP, LEASE), []);
      await untilAnswers(watch, 'gw-2');
      first.signal('SIGCONT');
      // A renewal that was under way when the process was stopped.
      assert.deepEqual((await first.renew(EIP, LEASE)).toSorted(), [...EIP]);
      await first.load();
      assert.deepEqual(await first.read(), []);
      await untilAnswers(watch, 'gw-2');
      await assertLeaves('plain-0', 'gw-1-0', 'gw-2-0');
    } finally {
      first.signal('SIGCONT');
      watch.close();
    }
  });

  it('an address that another host has is not taken', async () => {
    const { namespace } = lab.node('gw-1');
    await lab.server.run(['ip', 'addr', 'add', '192.0.2.51/32', 'dev', 'eth0']);
    await lab.server.run(['ip', 'addr', 'add', '2001:db8:a::51/128', 'dev', 'eth0', 'nodad']);
    const { stdout } = await lab.server.run(['ip', '-br', 'link', 'show', 'dev', 'eth0']);
    const mac = /([0-9a-f]{2}:){5}[0-9a-f]{2}/.exec(stdout)?.[0];
    for (const address of ['192.0.2.51', '2001:db8:a::51'])
      assert.deepEqual(await nodes.node('gw-1').take([address], LEASE), [mac]);
    assert.deepEqual(await nodes.node('gw-1').read(), []);
    assert.doesNotMatch((await namespace.run(['ip', 'addr'])).stdout, /192\.0\.2\.51|db8:a::51/);
  });

  it('a new process of the agent goes on, and what is replaced keeps what is alive', async () => {
    assert.deepEqual(await nodes.node('gw-2').renew(EIP, LEASE), []);
    await nodes.node('gw-2').kill();
    const agent = nodes.start('gw-2');
    await agent.load();
    assert.deepEqual(await agent.read(), [...EIP]);
    assert.deepEqual(await agent.renew(EIP, 20_000), []);
    await assertLeaves('plain-0');
    const nft = (text: string) => lab.node('gw-2').namespace.run(['nft', '-f', '-'], { stdin: text });
    // The hook of a chain cannot be changed in place.
    await nft(`flush chain inet nodewall egress-seal
      delete chain inet nodewall egress-seal
      add chain inet nodewall egress-seal { type filter hook postrouting priority 111; }`);
    await until('repaired', async () => agent.drifts.length > 0 && (await sealPriority()) === '110');
    assert.deepEqual(await agent.renew(EIP, LEASE), []);
    await assertLeaves('plain-0');
    assert.deepEqual(await agent.read(), [...EIP]);
    // Renewals are no changes by others.
    agent.drifts.length = 0;
    for (let i = 0; i < 20; i++) assert.deepEqual(await agent.renew(EIP, LEASE), []);
    assert.doesNotMatch(agent.log(), /third party/);
    await lab.node('gw-2').namespace.run(['ip', 'addr', 'flush', 'dev', 'eth0', 'to', '192.0.2.50/32']);
    await until('put back', async () =>
      (await lab.ask('plain-0', FLOWS, 50)).every((one) => one === 'reply'),
    );
    assert.deepEqual(agent.drifts, []);
  });

  async function sealPriority(): Promise<string | undefined> {
    const { stdout } = await lab
      .node('gw-2')
      .namespace.run(['nft', '-nn', 'list', 'chain', 'inet', 'nodewall', 'egress-seal']);
    return /priority (\d+)/.exec(stdout)?.[1];
  }

  it('under floods, while the owner changes and agents are killed, the server sees no other address', async () => {
    await nodes.node('gw-2').renew(EIP, LEASE);
    await lab.forget();
    const flows = ['plain-0', 'gw-1-0'].flatMap((pod) =>
      ([4, 6] as const).map((family) => lab.flood(pod, { family, protocol: 'udp' }, RATE)),
    );
    const floods = await Promise.all(flows);
    try {
      for (let i = 0; i < MOVES; i++) {
        const [from, to] = i % 2 === 0 ? (['gw-2', 'gw-1'] as const) : (['gw-1', 'gw-2'] as const);
        if (i % 3 === 2) await killAndExpire(from, to);
        else await move(from, to);
        await untilSeen();
        await removeAnswerRoutes(to);
      }
    } finally {
      const sent = (await Promise.all(floods.map((stop) => stop()))).reduce((sum, count) => sum + count, 0);
      const seen = [...(await lab.seen())];
      const count = seen.reduce((sum, [, packets]) => sum + packets, 0);
      process.stdout.write(`      ${sent} packets sent, ${count} seen, ${MOVES} moves\n`);
      assert.deepEqual(seen.map(([address]) => address).sort(), [...EIP]);
    }
  });

  /** The owner dies; its lease ends, then the next one begins. */
  async function killAndExpire(from: string, to: string): Promise<void> {
    assert.deepEqual(await nodes.node(from).renew(EIP, 300), []);
    await nodes.node(from).kill();
    await owner(to);
    const again = nodes.start(from);
    const loaded = Promise.all([again.load(), ...['plain', to].map((name) => nodes.node(name).load())]);
    await until('the end of the lease', async () => (await again.read()).length === 0);
    assert.deepEqual(await nodes.node(to).take(EIP, LEASE), []);
    await loaded;
  }

  /** The owner's routes to pods on other nodes, which the agent puts back. */
  async function removeAnswerRoutes(node: string): Promise<void> {
    const { namespace } = lab.node(node);
    for (const ip of ['ip', 'ip -6'])
      await namespace.run(['sh', '-c', `${ip} route flush table 1853292800`], { anyStatus: true });
    await untilSeen();
  }

  /** More packets with both addresses. */
  async function untilSeen(): Promise<void> {
    const before = await lab.seen();
    await until('packets with both addresses', async () => {
      const now = await lab.seen();
      return EIP.every((address) => (now.get(address) ?? 0) > (before.get(address) ?? 0));
    });
  }

  it('cleanup leaves nothing', async () => {
    await nodes.node('gw-2').kill();
    const { namespace } = lab.node('gw-2');
    await namespace.run([NODEWALL, 'cleanup', '--state-dir', '/nonexistent']);
    assert.equal((await namespace.run(['nft', 'list', 'tables'])).stdout, 'table inet cni\n');
    assert.doesNotMatch((await namespace.run(['ip', 'addr'])).stdout, /192\.0\.2\.50|db8:a::50/);
  });
});

function knocked(what: string): string[] {
  return Array.from({ length: 5 }, () => what);
}
