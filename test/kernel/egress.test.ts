/**
 * Egress gateways by agents, from manifests to packets: which address the server sees, that nothing
 * leaves with another one while parts are missing or change, and what becomes of connections.
 */
import assert from 'node:assert/strict';
import type { Namespace } from '../netns/namespace.ts';
import { type EgressAgents, egressAgents, egressPolicy, gateway } from './egress-agents.ts';
import { createEgressLab, type EgressLab, type LabFlow, SERVER, SERVER_PORT } from './egress-lab.ts';
import { idleClients } from './idle-clients.ts';
import { kernelSuite } from './kernel-suite.ts';
import { talk } from './talk.ts';
import { until } from './until.ts';

const PROTOCOLS = ['tcp', 'udp', 'icmp'] as const;
const MATRIX: readonly LabFlow[] = ([4, 6] as const).flatMap((family) =>
  PROTOCOLS.map((protocol) => ({ family, protocol })),
);
const ANSWERED = MATRIX.map(() => 'reply');
const SILENT = MATRIX.map(() => 'nothing');
/** Of a flood; the server sees fewer while something is missing. */
const RATE = 3_000;
/** egress.long.ts: more changes, under as many packets. */
const IS_LONG = process.env.NODEWALL_LONG_FLOODS === '1';
const SWAPS = IS_LONG ? 50 : 8;

const GATEWAYS = [gateway('one', ['gw-1']), gateway('both', ['gw-1', 'gw-2'], { choice: 'Spread' })];

/** Of both families, to stay open. */
const CALLS = (['tcp', 'udp'] as const).flatMap((protocol) =>
  [SERVER.v4, SERVER.v6].map((host) => ({
    name: `${protocol} ${host}`,
    host,
    port: SERVER_PORT,
    protocol,
  })),
);
const NAMES = CALLS.map(({ name }) => name);
const UDP_NAMES = NAMES.filter((name) => name.startsWith('udp'));

kernelSuite('egress gateways', () => {
  let lab: EgressLab;
  let agents: EgressAgents;
  before(async () => {
    lab = await createEgressLab();
    agents = await egressAgents(lab, { log: { egressConnections: true } });
    await agents.write('gateways.json', GATEWAYS);
    await agents.write('policies.json', policies('first'));
    for (const node of lab.nodes.keys()) agents.start(node);
    for (const node of lab.nodes.keys()) await agents.untilInForce(node, /chain egress-guard/);
    await agents.untilInForce('plain', /EgressPolicy default\/first/);
    // Rules, routes and the tunnel of each node, and of its gateway.
    for (const pod of ['plain-0', 'other-0', 'gw-1-0', 'gw-1-1', 'gw-2-0'])
      await until(`${pod} has answers`, async () =>
        (await lab.ask(pod, MATRIX, 50)).every((one) => one === 'reply'),
      );
  });
  after(async () => {
    await agents?.close();
    await lab?.close();
  });

  const addressesOf = (...nodes: readonly string[]): string[] =>
    nodes.flatMap((name) => [lab.node(name).v4, lab.node(name).v6]);

  /** What the server sees of a pod, by node; the pod's flows are answered. */
  async function leavesBy(pod: string, nodes: readonly string[]): Promise<void> {
    await lab.forget();
    assert.deepEqual(await lab.ask(pod, MATRIX), ANSWERED, pod);
    const seen = [...(await lab.seen()).keys()];
    assert.ok(seen.length > 0, pod);
    assert.deepEqual(
      seen.filter((address) => !addressesOf(...nodes).includes(address)),
      [],
      pod,
    );
  }

  /** New connections of plain-0. */
  async function untilLeavesBy(node: string): Promise<void> {
    await until(`new connections leave by ${node}`, async () => {
      await lab.forget();
      const answers = await lab.ask('plain-0', MATRIX, 50);
      const seen = [...(await lab.seen()).keys()];
      return answers.every((one) => one === 'reply') && seen.every((one) => addressesOf(node).includes(one));
    });
  }

  /** As it was at the start. */
  async function restore(): Promise<void> {
    await agents.write('gateways.json', GATEWAYS);
    await agents.write('policies.json', policies('first'));
    await agents.untilInForce('plain', /EgressPolicy default\/first/);
    await untilLeavesBy('gw-1');
  }

  it('the server sees the gateway, for pods on a plain node, on the gateway and on another one', async () => {
    for (const pod of ['plain-0', 'gw-1-0', 'gw-2-0']) await leavesBy(pod, ['gw-1']);
  });

  it('Spread: one of the gateways, each connection by one', async () => {
    for (const pod of ['other-0', 'gw-1-1']) await leavesBy(pod, ['gw-1', 'gw-2']);
  });

  it('other pods leave by their node, and the masquerade of the CNI sees only them', async () => {
    const before = await masqueraded('plain');
    await leavesBy('plain-0', ['gw-1']);
    assert.equal(await masqueraded('plain'), before);
    await leavesBy('plain-1', ['plain']);
    assert.equal(await masqueraded('plain'), before + MATRIX.length);
  });

  async function masqueraded(node: string): Promise<number> {
    const { stdout } = await lab.node(node).namespace.run(['nft', 'list', 'table', 'inet', 'cni']);
    return [...stdout.matchAll(/packets (\d+)/g)].reduce((sum, [, packets]) => sum + Number(packets), 0);
  }

  it('holds a pod that no manifest names, also one with a foreign source', async () => {
    const { namespace } = lab.pod('plain-1');
    await namespace.run(['ip', 'addr', 'add', '10.244.1.99/32', 'dev', 'eth0']);
    await lab.node('plain').namespace.run(['ip', 'route', 'add', '10.244.1.99/32', 'dev', 'pod1']);
    await lab.forget();
    const flow = { family: 4, protocol: 'udp' } as const;
    const answers = await lab.ask(
      'plain-1',
      [
        { ...flow, src: '10.244.1.99', srcPort: 30_001 },
        // The address of a pod that is steered, by another pod's interface.
        { ...flow, src: lab.pod('plain-0').v4, srcPort: 30_002 },
      ],
      150,
    );
    assert.deepEqual(answers, ['nothing', 'nothing']);
    assert.deepEqual([...(await lab.seen())], []);
    assert.ok((await dropped('plain', 'unknown-pod')) >= 2);
  });

  async function dropped(node: string, reason: string): Promise<number> {
    const { stdout } = await lab
      .node(node)
      .namespace.run(['nft', 'list', 'chain', 'inet', 'nodewall', `egress-drop-${reason}`]);
    return [...stdout.matchAll(/packets (\d+)/g)].reduce((sum, [, packets]) => sum + Number(packets), 0);
  }

  it('answers reach pods of the gateway that have an address of another node, of policies of before too', async () => {
    const [v4, v6] = ['10.244.1.98', 'fd00:10:244:1::98'];
    await agents.write('borrowed.json', [
      {
        apiVersion: 'v1',
        kind: 'Pod',
        spec: { nodeName: 'gw-1' },
        metadata: { name: 'borrowed', namespace: 'default', labels: { pod: 'gw-1-0' } },
        status: { phase: 'Running', podIPs: [{ ip: v4 }, { ip: v6 }] },
      },
    ]);
    const batch = (of: Namespace, lines: readonly string[]) =>
      of.run(['ip', '-batch', '-'], { stdin: `${lines.join('\n')}\n` });
    const node = lab.node('gw-1').namespace;
    const pod = lab.pod('gw-1-1').namespace;
    // The routes come after it and go before it: the set of local pods has their addresses too.
    await agents.untilInForce('gw-1', /10\.244\.1\.98/);
    await batch(pod, [`addr add ${v4}/32 dev eth0`, `addr add ${v6}/128 dev eth0 nodad`]);
    await batch(node, [`route add ${v4}/32 dev pod1`, `route add ${v6}/128 dev pod1`]);
    const borrowed = MATRIX.map((flow) => ({ ...flow, src: flow.family === 4 ? v4 : v6 }));
    assert.deepEqual(await lab.ask('gw-1-1', borrowed), ANSWERED);
    // The ways back to plain-0 stay, for its connections.
    await agents.write('policies.json', [egressPolicy('first', ['gw-1-0'], { gateway: 'one' })]);
    await agents.untilInForce('plain', /EgressPolicy default\/first/, false);
    assert.deepEqual(await lab.ask('gw-1-1', borrowed), ANSWERED);
    await batch(node, [`route del ${v4}/32 dev pod1`, `route del ${v6}/128 dev pod1`]);
    await batch(pod, [`addr del ${v4}/32 dev eth0`, `addr del ${v6}/128 dev eth0`]);
    await agents.write('borrowed.json', []);
    await agents.untilInForce('gw-1', /10\.244\.1\.98/, false);
    await restore();
  });

  it('a pod cannot send into the tunnel, with the address that the CNI gives it', async () => {
    const [mac, gateway] = await Promise.all(['plain', 'gw-1'].map(tunnelMac));
    const { namespace } = lab.pod('plain-1');
    const { v4 } = lab.pod('plain-0');
    const lines = [
      `link add forged address ${mac} up type vxlan id 7412 dstport 7790 remote ${lab.node('gw-1').v4}`,
      `addr add ${v4}/32 dev forged`,
      'addr add 192.0.2.200/32 dev forged',
      `neigh add 192.0.2.201 lladdr ${gateway} dev forged`,
      `route add ${SERVER.v4}/32 via 192.0.2.201 dev forged onlink src ${v4}`,
    ];
    await namespace.run(['ip', '-batch', '-'], { stdin: `${lines.join('\n')}\n` });
    await lab.forget();
    const send = `echo forged > /dev/udp/${SERVER.v4}/${SERVER_PORT}`;
    for (let i = 0; i < 3; i++) await namespace.run(['bash', '--norc', '-c', send]);
    const guard = ['nft', 'list', 'chain', 'inet', 'nodewall', 'egress-foreign'];
    await until('the packets are dropped, or seen', async () => {
      const { stdout } = await lab.node('plain').namespace.run(guard);
      // What the device itself says to neighbours counts, too.
      const [, packets = '0'] = / packets (\d+) .*Nodes only/.exec(stdout) ?? [];
      return Number(packets) >= 3 || (await lab.seen()).size > 0;
    });
    assert.deepEqual([...(await lab.seen())], []);
    await namespace.run(['ip', 'link', 'del', 'forged']);
  });

  async function tunnelMac(node: string): Promise<string> {
    const argv = ['ip', '-j', 'link', 'show', 'nodewall-egress'];
    const [link] = JSON.parse((await lab.node(node).namespace.run(argv)).stdout) as { address: string }[];
    return link?.address ?? '';
  }

  it('a policy that drops everything at the Nodes does not cut the tunnel', async () => {
    await agents.write('deny.json', [
      {
        apiVersion: 'nodewall.io/v1alpha1',
        kind: 'ClusterNetworkPolicy',
        metadata: { name: 'deny' },
        spec: {
          priority: 5,
          appliedTo: [{ nodeSelector: {} }],
          ingress: [{ name: 'in', action: 'Drop' }],
          egress: [{ name: 'out', action: 'Drop' }],
        },
      },
    ]);
    for (const node of ['plain', 'gw-1']) await agents.untilInForce(node, /deny/);
    await leavesBy('plain-0', ['gw-1']);
    await agents.write('deny.json', []);
    for (const node of ['plain', 'gw-1']) await agents.untilInForce(node, /deny/, false);
  });

  it('segments of TCP fit into the tunnel, both ways', async () => {
    const count = `table inet mss { chain prerouting { type filter hook prerouting priority -300
      tcp flags syn tcp option maxseg size 1410 meta nfproto ipv4 counter
      tcp flags syn tcp option maxseg size 1390 meta nfproto ipv6 counter
    }\n}`;
    const [namespace, pod] = [lab.server, lab.pod('plain-0').namespace];
    for (const one of [namespace, pod]) await one.run(['nft', '-f', '-'], { stdin: count });
    const calls = [SERVER.v4, SERVER.v6].map((host) => ({ name: host, host, port: SERVER_PORT }));
    const answering = await talk(pod, calls);
    assert.deepEqual(await answering(), [SERVER.v4, SERVER.v6]);
    for (const one of [namespace, pod]) {
      const { stdout } = await one.run(['nft', 'list', 'table', 'inet', 'mss']);
      const counts = [...stdout.matchAll(/packets (\d+)/g)].map(([, packets]) => Number(packets));
      assert.ok(counts.length === 2 && counts.every((packets) => packets >= 1), stdout);
    }
  });

  it('connections keep their way when policies change, and end with it', async () => {
    const answering = await talk(lab.pod('plain-0').namespace, CALLS);
    assert.equal((await answering()).length, CALLS.length);
    await agents.write('policies.json', policies('second'));
    await agents.write('gateways.json', [
      gateway('one', ['gw-2']),
      gateway('both', ['gw-1', 'gw-2'], { choice: 'Spread' }),
    ]);
    await agents.untilInForce('plain', /EgressPolicy default\/second/);
    await untilLeavesBy('gw-2');
    await lab.forget();
    assert.equal((await answering()).length, CALLS.length, 'connections of before go on');
    const seen = [...(await lab.seen()).keys()].sort();
    assert.deepEqual(seen, addressesOf('gw-1').sort(), 'with the address that they had');
    await agents.write('policies.json', []);
    for (const node of ['plain', 'gw-1', 'gw-2']) await agents.untilInForce(node, /EgressPolicy/, false);
    await lab.forget();
    assert.equal((await answering()).length, CALLS.length, 'without any policy as well');
    assert.deepEqual([...(await lab.seen()).keys()].sort(), addressesOf('gw-1').sort());
    await leavesBy('plain-0', ['plain']);
    if (IS_LONG) await goOnThroughRestarts(answering, CALLS.length);
    await restore();
  });

  async function goOnThroughRestarts(answering: () => Promise<string[]>, count: number): Promise<void> {
    for (const node of ['plain', 'gw-1', 'plain']) {
      await agents.agent(node).end('SIGKILL');
      const agent = agents.start(node);
      await until(`${node} enforces`, async () => agent.log().includes('"enforced"'));
      assert.equal((await answering()).length, count, `after a restart of ${node}`);
    }
  }

  it('egress reset ends the connections of a policy, also those that began before an edit', async () => {
    const other = await talk(lab.pod('other-0').namespace, CALLS);
    const answering = await talk(lab.pod('plain-0').namespace, CALLS);
    await agents.write('policies.json', policies('edited'));
    await agents.untilInForce('plain', /EgressPolicy default\/edited/);
    assert.deepEqual(await answering(), NAMES);
    const reset = async (policy: string, ...options: readonly string[]) =>
      JSON.parse(
        await agents.run('plain', 'egress', 'reset', '--policy', policy, '-o', 'json', ...options),
      ).connections.map(({ protocol, src }: Record<string, string>) => `${protocol} ${src}`);
    const { v4, v6 } = lab.pod('plain-0');
    const own = [v4, v6].flatMap((source) => ['tcp', 'udp'].map((protocol) => `${protocol} ${source}`));
    const isOwn = (found: readonly string[]) => own.every((one) => found.includes(one));
    assert.ok(isOwn(await reset('default/first', '--dry-run')));
    assert.deepEqual(await answering(), NAMES);
    assert.ok(isOwn(await reset('default/first')));
    // UDP is a new connection, by the policy in force.
    assert.deepEqual(await answering(), UDP_NAMES);
    assert.deepEqual(await other(), NAMES);
    await restore();
  });

  it('ends what began before a policy: egress reset of it, flush of all', async () => {
    for (const command of [['egress', 'reset', '--policy', 'default/first'], ['flush']]) {
      await agents.write('policies.json', []);
      await agents.untilInForce('plain', /EgressPolicy/, false);
      await forgetConnections('plain');
      const answering = await talk(lab.pod('plain-0').namespace, CALLS);
      await agents.write('policies.json', policies('first'));
      await agents.untilInForce('plain', /EgressPolicy default\/first/);
      await untilLeavesBy('gw-1');
      await lab.forget();
      assert.equal((await answering()).length, CALLS.length);
      assert.deepEqual([...(await lab.seen()).keys()].sort(), addressesOf('plain').sort(), 'as they began');
      const said = await agents.run('plain', ...command);
      const [, count = '0'] = /(\d+) of them without/.exec(said) ?? [];
      assert.ok(Number(count) >= CALLS.length, said);
      await lab.forget();
      // UDP is a new connection, by the policy in force.
      assert.deepEqual(await answering(), UDP_NAMES);
      const seen = [...(await lab.seen()).keys()].sort();
      assert.deepEqual(seen, addressesOf('gw-1').sort(), command.join(' '));
    }
    await restore();
  });

  it('ends what began before a policy that asks for it, when it comes and when it changes', async () => {
    const agent = agents.agent('plain');
    const recheck = (name: string, to: string) => [
      egressPolicy(name, ['plain-0'], { gateway: to, established: 'Recheck' }),
    ];
    await agents.write('gateways.json', [...GATEWAYS, gateway('two', ['gw-2'])]);
    await agents.write('policies.json', []);
    await agents.untilInForce('plain', /EgressPolicy/, false);
    await forgetConnections('plain');
    const answering = await talk(lab.pod('plain-0').namespace, CALLS);
    for (const [times, name, to, node] of [
      [1, 'a', 'one', 'gw-1'],
      [2, 'b', 'two', 'gw-2'],
    ] as const) {
      await agents.write('policies.json', recheck(name, to));
      await until(
        'the agent says how many it ended',
        async () => agent.log().split('began before their egress policies').length === times + 1,
        { detail: () => agent.log().slice(-2000) },
      );
      await untilLeavesBy(node);
      await lab.forget();
      // TCP was reset at the first one.
      assert.deepEqual(await answering(), UDP_NAMES);
      assert.deepEqual([...(await lab.seen()).keys()].sort(), addressesOf(node).sort());
    }
    await restore();
  });

  for (const removal of ['delete table inet nodewall', 'flush ruleset'])
    it(`ends what pods began while somebody had removed the rules: ${removal}`, async () => {
      const agent = agents.agent('plain');
      const { namespace } = lab.node('plain');
      const said = () => agent.log().split('while rules were away","node":"plain"').length;
      const before = said();
      // The rules of others come back at once, as at a reload of Debian's nftables.service.
      const { stdout: others } = await namespace.run(['nft', 'list', 'table', 'inet', 'cni']);
      await agent.signal('SIGSTOP');
      const stdin = `${removal}\n${removal.startsWith('flush') ? others : ''}`;
      await namespace.run(['nft', '-f', '-'], { stdin });
      const answering = await talk(lab.pod('plain-0').namespace, CALLS);
      await agent.signal('SIGCONT');
      await until('the agent says how many it ended', async () => said() > before, {
        detail: () => agent.log().slice(-2000),
      });
      await lab.forget();
      assert.deepEqual(await answering(), UDP_NAMES);
      assert.deepEqual([...(await lab.seen()).keys()].sort(), addressesOf('gw-1').sort());
    });

  it('egress reset reaches clients that send nothing, also on the gateway itself', async () => {
    for (const pod of ['plain-0', 'gw-1-0']) {
      const { namespace, node } = lab.pod(pod);
      const hosts = [SERVER.v4, SERVER.v6].sort();
      const clients = idleClients(namespace, hosts, SERVER_PORT);
      try {
        await until('the connections are open', async () => clients.open().length === hosts.length);
        await agents.run(node, 'egress', 'reset', '--policy', 'default/first');
        await until('the clients are reset', async () => clients.reset().length === hosts.length);
      } finally {
        clients.stop();
      }
    }
  });

  it('a gateway records who had an address and port', async () => {
    const pod = lab.pod('plain-0');
    assert.deepEqual(await lab.ask('plain-0', [{ family: 4, protocol: 'udp', srcPort: 31_000 }]), ['reply']);
    await lab.node('gw-1').namespace.run(['conntrack', '-D', '-p', 'udp', '--orig-port-src', '31000']);
    const who = async (): Promise<Record<string, unknown>[]> => {
      const target = `${lab.node('gw-1').v4}:31000`;
      return JSON.parse(await agents.run('gw-1', 'egress', 'who', target, '-o', 'json')).bindings;
    };
    await until('the end is recorded', async () => typeof (await who())[0]?.ended === 'string');
    const { src, srcPort, podNode, port, dst, dstPort } = (await who())[0] ?? {};
    assert.deepEqual(
      { src, srcPort, podNode, port, dst, dstPort },
      {
        src: pod.v4,
        srcPort: 31_000,
        podNode: 'plain',
        port: 31_000,
        dst: SERVER.v4,
        dstPort: SERVER_PORT,
      },
    );
    const { policies: counted } = JSON.parse(await agents.run('plain', 'egress', 'status', '-o', 'json'));
    assert.ok(
      counted.find(({ policy }: { policy: string }) => policy === 'EgressPolicy default/first')?.packets > 0,
    );
  });

  it('nothing leaves with another address while a rule, route, neighbour or device is missing', async () => {
    const { namespace } = lab.node('plain');
    const removals = [
      ['ip', 'rule', 'del', 'pref', '71'],
      ['ip', '-6', 'rule', 'del', 'pref', '71'],
      ['ip', 'rule', 'del', 'pref', '70'],
      ['ip', 'nexthop', 'flush'],
      ['ip', 'neigh', 'flush', 'nud', 'permanent', 'dev', 'nodewall-egress'],
      ['ip', 'link', 'set', 'nodewall-egress', 'down'],
      ['ip', 'link', 'del', 'nodewall-egress'],
    ];
    await flooded('plain-0', ['gw-1'], async () => {
      for (const removal of removals) {
        await namespace.run(removal, { anyStatus: true });
        await until(`repaired after ${removal.join(' ')}`, async () => {
          const answers = await lab.ask('plain-0', MATRIX, 50);
          return answers.every((answer) => answer === 'reply');
        });
      }
    });
  });

  /** A later test may meet the ports of connections that got another way. */
  async function forgetConnections(node: string): Promise<void> {
    await lab.node(node).namespace.run(['conntrack', '-F']);
  }

  /**
   * Floods in both families while something happens: the server sees these nodes' addresses alone.
   */
  async function flooded(
    pod: string,
    nodes: readonly string[],
    action: () => Promise<void>,
  ): Promise<number> {
    await lab.forget();
    await forgetConnections(lab.pod(pod).node);
    const stops = await Promise.all(
      ([4, 6] as const).map((family) => lab.flood(pod, { family, protocol: 'udp' }, RATE)),
    );
    let sent = 0;
    try {
      await action();
    } finally {
      sent = (await Promise.all(stops.map((stop) => stop()))).reduce((sum, one) => sum + one, 0);
    }
    const seen = await lab.seen();
    const wrong = [...seen].filter(([address]) => !addressesOf(...nodes).includes(address));
    assert.deepEqual(wrong, [], `of ${sent} sent`);
    const right = [...seen.values()].reduce((sum, one) => sum + one, 0);
    assert.ok(right > 0, `${right} of ${sent}`);
    return sent;
  }

  it('nothing leaves with another address while policies change and agents are killed', async () => {
    await flooded('plain-0', ['gw-1', 'gw-2'], async () => {
      for (let i = 0; i < SWAPS; i++) {
        await agents.write('policies.json', policies(`swap-${i}`, i % 2 === 0 ? 'both' : 'one'));
        await agents.untilInForce('plain', new RegExp(`default/swap-${i}\\b`));
        if (i % 4 !== 3) continue;
        await agents.agent('plain').end('SIGKILL');
        agents.start('plain');
      }
    });
    await restore();
    await leavesBy('plain-0', ['gw-1']);
  });

  it('drops while no gateway is there, with the reason', async () => {
    await agents.write('gateways.json', [gateway('one', ['nobody']), gateway('both', ['gw-2'])]);
    await agents.untilInForce('plain', /goto egress-drop-(not-ready|no-gateway) comment/);
    await forgetConnections('plain');
    await lab.forget();
    assert.deepEqual(await lab.ask('plain-0', MATRIX, 150), SILENT);
    assert.deepEqual([...(await lab.seen())], []);
  });

  it('turning the gate off removes everything of it', async () => {
    await agents.agent('gw-2').end('SIGTERM');
    agents.start('gw-2', '--feature-gates', 'EgressGateway=false');
    await agents.untilInForce('gw-2', /egress-steer|egress-class/, false);
    await until('the device is gone', async () => !(await networkOf('gw-2')).includes('nodewall'));
    await leavesBy('gw-2-0', ['gw-2']);
  });

  /** All that agents make outside of their table. */
  async function networkOf(node: string): Promise<string> {
    const { namespace } = lab.node(node);
    const commands = [['rule'], ['-6', 'rule'], ['link'], ['nexthop']];
    const printed = await Promise.all(commands.map((command) => namespace.run(['ip', ...command])));
    return printed.map(({ stdout }) => stdout.replaceAll(/^7\d:.*$/gm, 'rule of nodewall')).join('');
  }

  it('cleanup removes everything', async () => {
    await agents.agent('plain').end('SIGTERM');
    await agents.run('plain', 'cleanup');
    const { namespace } = lab.node('plain');
    assert.doesNotMatch((await namespace.run(['nft', 'list', 'tables'])).stdout, /nodewall/);
    assert.doesNotMatch(await networkOf('plain'), /nodewall/);
    // Nor connections that go on without a translation.
    const { stdout } = await namespace.run(['conntrack', '-L']);
    assert.doesNotMatch(stdout, /mark=[1-9]/);
    await leavesBy('plain-1', ['plain']);
  });
});

/** Pods of all kinds of nodes leave by `one`, some by both. */
function policies(name: string, steered = 'one'): object[] {
  return [
    egressPolicy(name, ['plain-0', 'gw-1-0', 'gw-2-0'], { gateway: steered }),
    egressPolicy('spread', ['other-0', 'gw-1-1'], { gateway: 'both' }),
  ];
}
