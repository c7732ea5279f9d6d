/**
 * Gateways that die, seen by the nodes of pods: new connections go by another one, old ones end,
 * and nothing leaves with an address that no gateway has.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type EgressAgents, egressAgents, egressPolicy, gateway } from './egress-agents.ts';
import { createEgressLab, type EgressLab, type LabFlow, SERVER, SERVER_PORT } from './egress-lab.ts';
import { idleClients } from './idle-clients.ts';
import { kernelSuite } from './kernel-suite.ts';
import { listen, talk } from './talk.ts';
import { until } from './until.ts';

const FLOWS: readonly LabFlow[] = ([4, 6] as const).flatMap((family) =>
  (['tcp', 'udp'] as const).map((protocol) => ({ family, protocol })),
);
const NODES = ['gw-1', 'gw-2', 'gw-3'];
/** Of a flood: connections a second. */
const RATE = 1_000;
/** egress-health.long.ts: what takes longer. */
const IS_LONG = process.env.NODEWALL_LONG_FLOODS === '1';
/** Longer than a gateway may be silent. */
const PATIENCE = 1_000;

const SERVICE_ADDRESS = '203.0.113.80';
const SERVICE = `table ip service {
  chain prerouting { type nat hook prerouting priority -100;
    ip daddr ${SERVICE_ADDRESS} tcp dport ${SERVER_PORT} dnat to ${SERVER.v4}
  }
}
`;

kernelSuite('lost gateways', () => {
  let lab: EgressLab;
  let agents: EgressAgents;
  before(async () => {
    lab = await createEgressLab({ nodes: ['plain', ...NODES], podsPerNode: 1 });
    agents = await egressAgents(lab);
    await write({});
    // The gateways first: one that does not answer yet would be taken for lost, and what it is to
    // have would be another's for a second.
    for (const node of NODES) agents.start(node);
    for (const node of NODES) await agents.untilInForce(node, /chain egress-guard/);
    agents.start('plain');
    await agents.untilInForce('plain', /EgressPolicy default\/all/);
    await untilLeavesBy(NODES);
  });
  after(async () => {
    await agents?.close();
    await lab?.close();
  });

  async function write(spec: object, policy: object = {}, nodes = NODES): Promise<void> {
    await agents.write('gateways.json', [gateway('one', nodes, spec)]);
    await agents.write('policies.json', [egressPolicy('all', ['plain-0'], { gateway: 'one', ...policy })]);
  }

  const addressesOf = (nodes: readonly string[]): string[] =>
    nodes.flatMap((name) => [lab.node(name).v4, lab.node(name).v6]);
  const logOf = (node: string): string => agents.agent(node).log();

  /** The nodes by which connections left since the last look. */
  async function seenNodes(): Promise<string[]> {
    const seen = [...(await lab.seen()).keys()];
    const nodes = [...lab.nodes.keys()].filter((name) =>
      addressesOf([name]).some((address) => seen.includes(address)),
    );
    const known = addressesOf(nodes);
    assert.deepEqual(
      seen.filter((address) => !known.includes(address)),
      [],
    );
    return nodes;
  }

  /** Waits until new connections are all answered, and leave by these nodes only. */
  async function untilLeavesBy(nodes: readonly string[]): Promise<readonly string[]> {
    let found: readonly string[] = [];
    let answers: readonly string[] = [];
    const leavesBy = async (): Promise<boolean> => {
      await lab.forget();
      answers = await lab.ask('plain-0', FLOWS, 50);
      found = await seenNodes();
      return (
        found.length > 0 &&
        answers.every((one) => one === 'reply') &&
        found.every((one) => nodes.includes(one))
      );
    };
    const detail = () => `${found} seen; ${answers}\n${logOf('plain').slice(-4_000)}`;
    await until(`new connections leave by ${nodes}`, leavesBy, { detail });
    return found;
  }

  async function owner(): Promise<string> {
    let found: readonly string[] = [];
    // An edit may come into force meanwhile.
    await until('one gateway has all', async () => {
      found = await untilLeavesBy(NODES);
      return found.length === 1;
    });
    return found[0] ?? '';
  }

  /**
   * The switch no longer forwards what comes from the node or goes there, as if its power was lost.
   */
  async function cut(node: string, isCut = true): Promise<void> {
    await lab.port(node, isCut ? 'down' : 'up');
  }

  /** Floods while something happens: the server sees these nodes' addresses alone. */
  async function flooded(nodes: readonly string[], action: () => Promise<void>): Promise<void> {
    await lab.forget();
    const stops = await Promise.all(
      ([4, 6] as const).map((family) => lab.flood('plain-0', { family, protocol: 'udp' }, RATE)),
    );
    try {
      await action();
    } finally {
      for (const stop of stops) assert.ok((await stop()) > 0);
    }
    const seen = await seenNodes();
    assert.deepEqual(
      seen.filter((name) => !nodes.includes(name)),
      [],
    );
  }

  it('new connections go by the next gateway, old ones end, and nothing has a foreign address', async () => {
    const first = await owner();
    const calls = (['tcp', 'udp'] as const).flatMap((protocol) =>
      [SERVER.v4, SERVER.v6].map((host) => ({
        name: `${protocol} ${host}`,
        host,
        port: SERVER_PORT,
        protocol,
      })),
    );
    const answering = await talk(lab.pod('plain-0').namespace, calls);
    assert.equal((await answering()).length, calls.length);
    await cut(first);
    const [next = ''] = await untilLeavesBy(NODES.filter((name) => name !== first));
    // What is not TCP goes on by the next gateway, once the agent has deleted the connections. TCP
    // has been reset: the client knows at once.
    const udp = [SERVER.v4, SERVER.v6].map((host) => `udp ${host}`);
    let now = '';
    const goesOn = async (): Promise<boolean> => {
      const answered = await answering();
      now = `${answered.join(', ') || 'nothing'} answers\n${await connections()}`;
      return answered.join() === udp.join();
    };
    await until('UDP goes on', goesOn, { detail: () => `${now}\n${logOf('plain').slice(-4_000)}` });
    assert.equal(await openTcp(), 0);
    assert.match(logOf('plain'), new RegExp(`"gatewayNode":"${first}".*a gateway does not answer`));
    await cut(first, false);
    await untilLeavesBy([first]);
    assert.notEqual(next, first);
    // Those that went by the other one stay there.
    await lab.forget();
    assert.equal((await answering()).length, 2);
    assert.deepEqual(await seenNodes(), [next]);
  });

  it('clients that wait for an answer are reset at once, those of a Service too', async () => {
    const first = await owner();
    const { namespace } = lab.node('plain');
    // As kube-proxy, whose Service has an endpoint outside of the cluster.
    await namespace.run(['nft', '-f', '-'], { stdin: SERVICE });
    const hosts = [SERVER.v4, SERVER.v6, SERVICE_ADDRESS].sort();
    const clients = idleClients(lab.pod('plain-0').namespace, hosts, SERVER_PORT);
    try {
      await until('all connections are open', async () => clients.open().length === hosts.length);
      await cut(first);
      await until('all are reset', async () => clients.reset().length === hosts.length);
    } finally {
      clients.stop();
      await namespace.run(['nft', 'delete', 'table', 'ip', 'service']);
      await cut(first, false);
    }
    await untilLeavesBy([first]);
  });

  /** What the kernel of the pod's node knows. */
  async function connections(): Promise<string> {
    const listed = await Promise.all(
      ['ipv4', 'ipv6'].map((family) => lab.node('plain').namespace.run(['conntrack', '-L', '-f', family])),
    );
    return listed.map(({ stdout }) => stdout).join('');
  }

  /** Connections of TCP of the pod that the kernel of its node takes for open. */
  async function openTcp(): Promise<number> {
    const { stdout } = await lab.node('plain').namespace.run(['conntrack', '-L', '-p', 'tcp']);
    return stdout.split('\n').filter((line) => line.includes('ESTABLISHED')).length;
  }

  it('the agent of a gateway is killed, and starts again: nobody takes the gateway for lost', async () => {
    const first = await owner();
    const before = logOf('plain').length;
    await flooded([first], async () => {
      await agents.agent(first).end('SIGKILL');
      await sleep(PATIENCE);
      agents.start(first);
      await agents.untilInForce(first, /chain egress-guard/);
    });
    assert.doesNotMatch(logOf('plain').slice(before), /does not answer/);
  });

  it('the tunnel brings echoes of known ends to the node itself, and nothing else', async () => {
    const first = await owner();
    const { namespace } = lab.node(first);
    await listen(namespace, [SERVER_PORT]);
    const shown = await namespace.run(['ip', '-6', '-o', 'addr', 'show', 'dev', 'nodewall-egress']);
    const [, end = ''] = /inet6 (fe80:[0-9a-f:]+)/.exec(shown.stdout) ?? [];
    const child = [process.execPath, join(import.meta.dirname, 'tunnel-child.ts')];
    const { stdout } = await lab.node('plain').namespace.run([...child, end, `${SERVER_PORT}`]);
    assert.deepEqual(JSON.parse(stdout), { echo: true, tcp: false });
  });

  it('without any gateway that answers: dropped as not-ready, or directly; and back', async () => {
    const first = await owner();
    for (const name of NODES) await cut(name);
    await agents.untilInForce('plain', /goto egress-drop-not-ready comment "EgressPolicy default\/all"/);
    await lab.forget();
    assert.deepEqual(
      await lab.ask('plain-0', FLOWS, 50),
      FLOWS.map(() => 'nothing'),
    );
    assert.deepEqual(await seenNodes(), []);
    await write({}, { whenUnavailable: 'Direct' });
    await untilLeavesBy(['plain']);
    for (const name of NODES) await cut(name, false);
    await write({});
    await untilLeavesBy([first]);
  });

  if (!IS_LONG) return;

  it('Spread: the others take what a lost gateway had, and it takes its part again', async () => {
    await write({ choice: 'Spread' });
    await agents.untilInForce('plain', /jhash/);
    const three = async (nodes: readonly string[]) => {
      await until(`connections leave by ${nodes}`, async () => {
        await lab.forget();
        const many = Array.from({ length: 8 }, () => FLOWS).flat();
        await lab.ask('plain-0', many, 100);
        return (await seenNodes()).join() === nodes.join();
      });
    };
    // The hash is of source and destination: one pod and one server have one gateway each family.
    const used = await untilLeavesBy(NODES);
    for (const name of used) {
      await cut(name);
      const others = NODES.filter((one) => one !== name);
      await untilLeavesBy(others);
      await cut(name, false);
    }
    await three([...used]);
    await write({});
    await owner();
  });

  it('gateways lost and back, one after another, under a flood', async () => {
    const first = await owner();
    await flooded(NODES, async () => {
      for (const name of [first, ...NODES.filter((one) => one !== first)]) {
        await cut(name);
        await untilLeavesBy(NODES.filter((one) => one !== name));
        await cut(name, false);
        await sleep(2 * PATIENCE);
      }
    });
    await untilLeavesBy([first]);
  });

  it('the agent of the pod starts again while a gateway is lost: it knows that still', async () => {
    const first = await owner();
    await cut(first);
    const others = NODES.filter((name) => name !== first);
    await untilLeavesBy(others);
    const file = join(agents.stateDir('plain'), 'egress.json');
    const isSaved = async () => (await readFile(file, 'utf8')).includes(`"lost":["${first}"]`);
    await until('it is saved', isSaved);
    await flooded(others, async () => {
      await agents.agent('plain').end('SIGKILL');
      agents.start('plain');
      await until('it enforces', async () => logOf('plain').includes('"enforced"'));
      await untilLeavesBy(others);
    });
    assert.doesNotMatch(logOf('plain'), /a gateway does not answer/);
    await cut(first, false);
    await untilLeavesBy([first]);
  });

  it('the agent of the pod is stopped for longer than a gateway may be silent: none is lost', async () => {
    await owner();
    const before = logOf('plain').length;
    const agent = agents.agent('plain');
    await agent.signal('SIGSTOP');
    await sleep(2 * PATIENCE);
    await agent.signal('SIGCONT');
    await sleep(PATIENCE);
    assert.doesNotMatch(logOf('plain').slice(before), /does not answer/);
  });

  it('the device of the tunnel is removed: repaired, and no gateway is lost', async () => {
    const first = await owner();
    const before = logOf('plain').length;
    await lab.node('plain').namespace.run(['ip', 'link', 'del', 'nodewall-egress']);
    await untilLeavesBy([first]);
    await sleep(2 * PATIENCE);
    assert.doesNotMatch(logOf('plain').slice(before), /a gateway does not answer/);
    await untilLeavesBy([first]);
  });

  it('probes: a gateway that fails them all leaves its pods and those of others to the next', async () => {
    const first = await owner();
    const { namespace } = lab.node(first);
    const probes = [
      { tcp: { address: SERVER.v4, port: SERVER_PORT }, seconds: 1, failures: 2 },
      { icmp: { address: SERVER.v6 }, seconds: 1, failures: 2 },
    ];
    await write({ probes });
    const deny = (port: string) => `table inet deny { chain out { type filter hook output priority 0
      ip daddr ${SERVER.v4} tcp dport ${port} drop; ip6 daddr ${SERVER.v6} drop; }\n}`;
    // One of them alone is enough to stay.
    await namespace.run(['nft', '-f', '-'], { stdin: deny('9') });
    await sleep(4 * PATIENCE);
    await untilLeavesBy([first]);
    await namespace.run(['nft', '-f', '-'], { stdin: `delete table inet deny\n${deny(`${SERVER_PORT}`)}` });
    await untilLeavesBy(NODES.filter((name) => name !== first));
    assert.match(logOf(first), /all probes of an egress gateway fail/);
    await namespace.run(['nft', 'delete', 'table', 'inet', 'deny']);
    await untilLeavesBy([first]);
    await write({});
  });

  it('interface: the address of the interface, which may change', async () => {
    const first = await owner();
    const { namespace } = lab.node(first);
    // Another address of the node's network: the server answers to it.
    await namespace.run(['ip', 'link', 'add', 'out0', 'type', 'veth', 'peer', 'name', 'out1']);
    await namespace.run(['ip', 'link', 'set', 'out0', 'up']);
    await namespace.run(['ip', 'addr', 'add', '192.0.2.201/32', 'dev', 'out0']);
    await write({ interface: 'out0' }, {}, [first]);
    const leavesWith = (address: string) =>
      until(`connections leave with ${address}`, async () => {
        await lab.forget();
        await lab.ask('plain-0', [{ family: 4, protocol: 'udp' }], 50);
        return [...(await lab.seen()).keys()].join() === address;
      });
    await leavesWith('192.0.2.201');
    await namespace.run(['ip', 'addr', 'add', '192.0.2.202/32', 'dev', 'out0']);
    await namespace.run(['ip', 'addr', 'del', '192.0.2.201/32', 'dev', 'out0']);
    await leavesWith('192.0.2.202');
    await namespace.run(['ip', 'addr', 'del', '192.0.2.202/32', 'dev', 'out0']);
    await until('dropped without an address', async () => {
      await lab.forget();
      const answers = await lab.ask('plain-0', [{ family: 4, protocol: 'udp' }], 50);
      return answers.join() === 'nothing' && (await lab.seen()).size === 0;
    });
    await write({});
    await untilLeavesBy([first]);
  });
});
