/**
 * Open connections of pods while egress gateways are removed, and what others' source NAT does at a
 * gateway: which addresses the server sees.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type EgressAgents, egressAgents, egressPolicy, gateway } from './egress-agents.ts';
import { createEgressLab, type EgressLab, type LabFlow, SERVER, SERVER_PORT } from './egress-lab.ts';
import { kernelSuite } from './kernel-suite.ts';
import { until } from './until.ts';

const FLOWS: readonly LabFlow[] = ([4, 6] as const).map((family) => ({ family, protocol: 'udp' }));
const ANSWERED = FLOWS.map(() => 'reply');

const LATE_PORT = SERVER_PORT + 1;

/** Answers as a server far away: some answers are on their way at any moment. */
const LATE_SERVER = `
const { createSocket } = require('node:dgram');
for (const [type, host] of [['udp4', '${SERVER.v4}'], ['udp6', '${SERVER.v6}']]) {
  const socket = createSocket(type);
  socket.on('error', () => {});
  socket.on('message', (bytes, { port, address }) => setTimeout(() => socket.send(bytes, port, address), 100));
  socket.bind(${LATE_PORT}, host, () => console.log(type));
}`;

/** Sends by sockets that stay open, of both families, as fast as it may. */
const SENDER = `
const { createSocket } = require('node:dgram');
for (const [type, host] of [['udp4', '${SERVER.v4}'], ['udp6', '${SERVER.v6}']])
  for (let i = 0; i < 32; i++) {
    const socket = createSocket(type);
    socket.on('error', () => {});
    socket.connect(${LATE_PORT}, host, () => setInterval(() => socket.send('x', () => {}), 1));
  }
console.log('sends');`;

const TAKES_MARKS = `table inet marks {
  chain postrouting {
    type filter hook postrouting priority 350
    ct mark set 1
  }
}
`;

kernelSuite('the end of egress gateways', () => {
  let lab: EgressLab;
  let agents: EgressAgents;
  before(async () => {
    lab = await createEgressLab({ nodes: ['plain', 'gw'], podsPerNode: 2 });
    const rules = addressesOf(lab.pod('plain-0')).map(
      (address) => `${address.includes(':') ? 'ip6' : 'ip'} saddr ${address} counter`,
    );
    await lab.server.run(['nft', '-f', '-'], {
      stdin: `table inet raw {\n chain prerouting {\n type filter hook prerouting priority -300;\n ${rules.join('\n')}\n }\n}\n`,
    });
    agents = await egressAgents(lab);
    await agents.write('gateways.json', [gateway('out', ['gw'])]);
    await agents.write('policies.json', [
      egressPolicy('p', ['plain-0', 'plain-1', 'gw-0'], { gateway: 'out' }),
    ]);
    for (const node of lab.nodes.keys()) agents.start(node);
    await untilSteered();
  });
  after(async () => {
    await agents?.close();
    await lab?.close();
  });

  const addressesOf = ({ v4, v6 }: { readonly v4: string; readonly v6: string }): string[] => [v4, v6];

  async function untilSteered(): Promise<void> {
    for (const pod of ['plain-0', 'gw-0']) {
      await until(
        `${pod} leaves by the gateway`,
        async () => {
          await lab.forget();
          const answers = await lab.ask(pod, FLOWS, 100);
          const seen = [...(await lab.seen()).keys()].sort().join();
          return answers.join() === ANSWERED.join() && seen === addressesOf(lab.node('gw')).sort().join();
        },
        { detail: () => agents.agent('plain').log().slice(-2000) },
      );
    }
  }

  /** Runs `work` while a pod sends, until the server sees its packets as its node's. */
  async function sending(pod: string, work: () => Promise<unknown>): Promise<void> {
    const { namespace, node } = lab.pod(pod);
    const child = namespace.spawn([process.execPath, '-e', SENDER]);
    await once(child.stdout, 'data');
    await until('all are answered', async () => (await lab.seen()).size > 0);
    await work();
    await lab.forget();
    await until('the server sees the node', async () => {
      const seen = await lab.seen();
      return addressesOf(lab.node(node)).every((address) => seen.has(address));
    });
    child.kill('SIGKILL');
    await once(child, 'close');
  }

  /** Packets that left with the pod's own address. */
  async function raw(pod: string): Promise<number> {
    const { stdout } = await lab.server.run(['nft', 'list', 'table', 'inet', 'raw']);
    const counts = addressesOf(lab.pod(pod)).map((address) => {
      const [, packets = '0'] =
        new RegExp(`saddr ${address.replaceAll('.', '\\.')} counter packets (\\d+)`).exec(stdout) ?? [];
      return Number(packets);
    });
    return counts.reduce((sum, count) => sum + count, 0);
  }

  const REMOVALS: readonly (readonly [string, () => Promise<unknown>, () => Promise<unknown>])[] = [
    ['nodewall off', () => agents.run('plain', 'off', '--reason', 'test'), () => agents.run('plain', 'on')],
    [
      'cleanup',
      async () => {
        await agents.agent('plain').end('SIGTERM');
        await agents.run('plain', 'cleanup');
      },
      async () => agents.start('plain'),
    ],
    [
      'the feature gate',
      async () => {
        await agents.agent('plain').end('SIGTERM');
        agents.start('plain', '--feature-gates', 'EgressGateway=false');
        await agents.untilInForce('plain', /egress-class/, false);
      },
      async () => {
        await agents.agent('plain').end('SIGTERM');
        agents.start('plain');
      },
    ],
  ];

  it('no packet of an open connection leaves with the address of its pod', async () => {
    const late = lab.server.spawn([process.execPath, '-e', LATE_SERVER]);
    await once(late.stdout, 'data');
    const { namespace } = lab.node('plain');
    for (const [title, remove, restore] of REMOVALS) {
      for (let i = 0; i < 3; i++) {
        // Before one of them, another program takes the marks of all connections away.
        const takesMarks = i === 1;
        await sending('plain-0', async () => {
          if (takesMarks) await namespace.run(['nft', '-f', '-'], { stdin: TAKES_MARKS });
          await remove();
        });
        assert.equal(await raw('plain-0'), 0, `${title}, ${takesMarks ? 'without marks' : 'with marks'}`);
        if (takesMarks) await namespace.run(['nft', 'delete', 'table', 'inet', 'marks']);
        await restore();
        await untilSteered();
      }
    }
    late.kill('SIGKILL');
    await once(late, 'close');
  });

  /** Many CNIs translate the pods of their own node alone. They track connections. */
  async function withoutMasquerade(): Promise<void> {
    const chain = 'inet cni postrouting';
    const stdin = `flush chain ${chain}\nadd rule ${chain} ct state new counter\n`;
    await lab.node('gw').namespace.run(['nft', '-f', '-'], { stdin });
  }

  it('a gateway that is turned off and on forwards nothing with the address of a pod', async () => {
    await withoutMasquerade();
    const before = await raw('plain-0');
    const sender = lab.pod('plain-0').namespace.spawn([process.execPath, '-e', SENDER]);
    await once(sender.stdout, 'data');
    for (let i = 0; i < 3; i++) {
      await agents.run('gw', 'off', '--reason', 'test');
      await agents.run('gw', 'on');
      await lab.forget();
      await until('the server sees the gateway', async () => {
        const seen = await lab.seen();
        return addressesOf(lab.node('gw')).every((address) => seen.has(address));
      });
    }
    sender.kill('SIGKILL');
    await once(sender, 'close');
    assert.equal((await raw('plain-0')) - before, 0);
  });

  it('a connection that began while the rules of its gateway were away goes on by it', async () => {
    const { namespace } = lab.node('gw');
    await withoutMasquerade();
    await untilSteered();
    const flows = FLOWS.map((flow) => ({ ...flow, srcPort: 40_000 }));
    await agents.agent('gw').signal('SIGSTOP');
    await namespace.run(['nft', 'delete', 'table', 'inet', 'nodewall']);
    await lab.ask('plain-0', flows, 200);
    await agents.agent('gw').signal('SIGCONT');
    await agents.untilInForce('gw', /egress-steer/);
    await until(
      'it is answered',
      async () => {
        const answers = await lab.ask('plain-0', flows, 200);
        return answers.join() === ANSWERED.join();
      },
      { limit: 15_000 },
    );
  });

  it('nothing leaves with the address that another source NAT at the gateway gives', async () => {
    const { namespace } = lab.node('gw');
    await namespace.run(['nft', '-f', '-'], {
      stdin: `table inet others {
  chain postrouting { type nat hook postrouting priority 80;
    oifname eth0 ip daddr ${SERVER.v4} snat ip to 192.0.2.77
    oifname eth0 ip6 daddr ${SERVER.v6} snat ip6 to 2001:db8:a::77
  }
}
`.replaceAll('{ type', '{\n type'),
    });
    const dropped = async (): Promise<number> => {
      const argv = ['nft', 'list', 'chain', 'inet', 'nodewall', 'egress-drop-no-address'];
      const [, packets = ''] = /packets (\d+)/.exec((await namespace.run(argv)).stdout) ?? [];
      return Number(packets);
    };
    const before = await dropped();
    await lab.forget();
    for (const pod of ['plain-0', 'gw-0'])
      assert.deepEqual(
        await lab.ask(pod, FLOWS, 200),
        FLOWS.map(() => 'nothing'),
        pod,
      );
    assert.deepEqual([...(await lab.seen()).keys()], []);
    assert.equal(await dropped(), before + 2 * FLOWS.length);
    await namespace.run(['nft', 'delete', 'table', 'inet', 'others']);
    await untilSteered();
  });
});
