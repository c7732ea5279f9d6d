/**
 * Speakers into the tunnel of egress gateways: no process of a Node without a capability, and
 * no Node, whatever runs on it, in the name of another one.
 */
import assert from 'node:assert/strict';
import { linkLocal } from '../../agent/egress/render/tunnel.ts';
import type { Namespace } from '../netns/namespace.ts';
import { type EgressAgents, egressAgents, egressPolicy, gateway } from './egress-agents.ts';
import { createEgressLab, type EgressLab, SERVER, SERVER_PORT } from './egress-lab.ts';
import { kernelSuite } from './kernel-suite.ts';
import { talk } from './talk.ts';
import { until } from './until.ts';
import { sendDatagrams, vxlanFrame } from './vxlan-frame.ts';

const FLOWS = ([4, 6] as const).map((family) => ({ family, protocol: 'udp' }) as const);
const [TUNNEL_PORT, CLAIM_PORT, INSIDE_PORT] = [7790, 7791, 7777];
/** Root's name, and nothing of root's rights. */
const NOBODY = ['setpriv', '--bounding-set=-all', '--inh-caps=-all', '--no-new-privs', '--'];
/** A privileged process can give its packets the tunnel's own mark. */
const MARKED = `table inet forged { chain output { type filter hook output priority -310;
  udp dport { ${TUNNEL_PORT}, ${CLAIM_PORT} } meta mark set 0x40000000; }; }`;

kernelSuite('the tunnel of egress gateways', () => {
  let lab: EgressLab;
  let agents: EgressAgents;
  let macs: ReadonlyMap<string, string>;
  before(async () => {
    lab = await createEgressLab({ nodes: ['plain', 'gw-1', 'evil'], podsPerNode: 1 });
    agents = await egressAgents(lab);
    await agents.write('objects.json', [
      gateway('one', ['gw-1']),
      egressPolicy('web', ['plain-0', 'evil-0'], { gateway: 'one' }),
    ]);
    for (const node of lab.nodes.keys()) agents.start(node);
    for (const pod of ['plain-0', 'evil-0'])
      await until(`${pod} leaves by its gateway`, async () => {
        await lab.forget();
        const answers = await lab.ask(pod, FLOWS, 50);
        const { v4, v6 } = lab.node('gw-1');
        const seen = [...(await lab.seen()).keys()];
        return answers.every((one) => one === 'reply') && seen.every((one) => one === v4 || one === v6);
      });
    macs = new Map(
      await Promise.all([...lab.nodes.keys()].map(async (node) => [node, await tunnelMac(node)] as const)),
    );
    await lab.pod('gw-1-0').namespace.run(['nft', '-f', '-'], {
      stdin: `table inet seen { chain input { type filter hook input priority 0;
        udp dport ${INSIDE_PORT} counter; }; }`,
    });
  });
  after(async () => {
    await agents?.close();
    await lab?.close();
  });

  async function tunnelMac(node: string): Promise<string> {
    const argv = ['ip', '-j', 'link', 'show', 'nodewall-egress'];
    const [link] = JSON.parse((await lab.node(node).namespace.run(argv)).stdout) as { address: string }[];
    return link?.address ?? '';
  }

  /** A datagram to the tunnel's port of gw-1, with a frame as a node's from a pod. */
  function frame(from: string, pod: string, to: string, port: number): Buffer {
    const [own = '', other = ''] = ['gw-1', from].map((node) => macs.get(node));
    return vxlanFrame({ macs: [own, other], src: lab.pod(pod).v4, dst: to, port });
  }

  /** Sends it from a node: `argv` decides with which rights. */
  const send = (node: string, argv: readonly string[], to: string, bytes: Buffer): Promise<void> =>
    sendDatagrams(lab.node(node).namespace, argv, to, bytes);

  /** Packets that the rules of a node with this comment have counted. */
  async function counted(node: string, comment: string): Promise<number> {
    const { stdout } = await lab.node(node).namespace.run(['nft', 'list', 'table', 'inet', 'nodewall']);
    const lines = stdout.split('\n').filter((line) => line.includes(comment));
    return lines.reduce((sum, line) => sum + Number(/packets (\d+)/.exec(line)?.[1] ?? 0), 0);
  }

  async function seenInside(): Promise<number> {
    const { stdout } = await lab.pod('gw-1-0').namespace.run(['nft', 'list', 'table', 'inet', 'seen']);
    return Number(/packets (\d+)/.exec(stdout)?.[1]);
  }

  async function asPrivileged<T>(node: string, work: () => Promise<T>): Promise<T> {
    const { namespace } = lab.node(node);
    const nft = (ns: Namespace, text: string) => ns.run(['nft', '-f', '-'], { stdin: text });
    await nft(namespace, MARKED);
    try {
      return await work();
    } finally {
      await nft(namespace, 'delete table inet forged');
    }
  }

  it('takes nothing from a process without capabilities, as whatever node it speaks', async () => {
    for (const [node, from, pod] of [
      ['evil', 'plain', 'plain-0'],
      ['evil', 'evil', 'evil-0'],
      ['gw-1', 'plain', 'plain-0'],
    ] as const) {
      await lab.forget();
      const before = await counted(node, 'only the tunnel sends');
      const bytes = frame(from, pod, SERVER.v4, SERVER_PORT);
      await send(node, NOBODY, `${lab.node('gw-1').v4}/${TUNNEL_PORT}`, bytes);
      assert.equal(await counted(node, 'only the tunnel sends'), before + 3);
      assert.deepEqual([...(await lab.seen())], []);
    }
  });

  it('takes no claim from a process without capabilities', async () => {
    const to = `${linkLocal(macs.get('gw-1') ?? '')}%nodewall-egress`;
    const before = await counted('evil', 'only the tunnel sends');
    const claim = { kind: 'claims', claims: [{ address: lab.pod('evil-0').v4, pod: 'x', class: null }] };
    await send('evil', NOBODY, `${to}/${CLAIM_PORT}`, Buffer.from(JSON.stringify(claim)));
    assert.equal(await counted('evil', 'only the tunnel sends'), before + 3);
  });

  it('believes a MAC only with the address of its own Node', async () => {
    const sendAs = async (from: string, pod: string): Promise<boolean> => {
      await lab.forget();
      const before = await counted('gw-1', 'the tunnel is for Nodes only');
      const bytes = frame(from, pod, SERVER.v4, SERVER_PORT);
      await send('evil', [], `${lab.node('gw-1').v4}/${TUNNEL_PORT}`, bytes);
      const dropped = (await counted('gw-1', 'the tunnel is for Nodes only')) - before;
      assert.equal((await lab.seen()).size > 0, dropped === 0, `${dropped} dropped`);
      return dropped === 0;
    };
    await asPrivileged('evil', async () => {
      assert.equal(await sendAs('plain', 'plain-0'), false);
      // So the frame is one that counts.
      assert.equal(await sendAs('evil', 'evil-0'), true);
    });
  });

  it('delivers nothing inside the cluster, whoever sends it', async () => {
    await asPrivileged('evil', async () => {
      for (const to of [lab.pod('gw-1-0').v4, lab.pod('plain-0').v4]) {
        const before = await dropped('gw-1');
        await send(
          'evil',
          [],
          `${lab.node('gw-1').v4}/${TUNNEL_PORT}`,
          frame('evil', 'evil-0', to, INSIDE_PORT),
        );
        assert.equal(await dropped('gw-1'), before + 3, to);
      }
    });
    assert.equal(await seenInside(), 0);
  });

  async function dropped(node: string): Promise<number> {
    const argv = ['nft', 'list', 'chain', 'inet', 'nodewall', 'egress-drop-unknown-pod'];
    const { stdout } = await lab.node(node).namespace.run(argv);
    return [...stdout.matchAll(/packets (\d+)/g)].reduce((sum, [, packets]) => sum + Number(packets), 0);
  }

  it('works beside a reverse path filter by the mark, at both ends, as firewalld has it', async () => {
    const filter = `table inet firewalld { chain filter_PREROUTING { type filter hook prerouting priority -140;
      icmpv6 type { nd-router-advert, nd-neighbor-solicit } accept
      meta nfproto ipv6 fib saddr . mark . iif oif missing drop
    }\n}`;
    const nodes = ['plain', 'gw-1'].map((name) => lab.node(name).namespace);
    for (const node of nodes) await node.run(['nft', '-f', '-'], { stdin: filter });
    assert.deepEqual(await lab.ask('plain-0', FLOWS), ['reply', 'reply']);
    for (const node of nodes) await node.run(['nft', 'delete', 'table', 'inet', 'firewalld']);
  });

  it('keeps connections where others save the mark of each packet, whole', async () => {
    const { namespace } = lab.node('plain');
    const save = `table inet others { chain save { type filter hook postrouting priority -150;
      ct mark set meta mark\n}\n}`;
    await namespace.run(['nft', '-f', '-'], { stdin: save });
    const calls = [SERVER.v4, SERVER.v6].map((host) => ({
      name: host,
      host,
      port: SERVER_PORT,
      protocol: 'udp' as const,
    }));
    await lab.forget();
    const answering = await talk(lab.pod('plain-0').namespace, calls);
    for (let i = 0; i < 5; i++) assert.equal((await answering()).length, calls.length);
    const { v4, v6 } = lab.node('gw-1');
    assert.deepEqual([...(await lab.seen()).keys()].sort(), [v4, v6].sort());
    await namespace.run(['nft', 'delete', 'table', 'inet', 'others']);
  });

  it('still carries what pods and agents send', async () => {
    for (const pod of ['plain-0', 'evil-0'])
      assert.deepEqual(await lab.ask(pod, FLOWS), ['reply', 'reply'], pod);
    const { stdout } = await lab.node('plain').namespace.run(['conntrack', '-L', '-p', 'udp']);
    assert.doesNotMatch(stdout, /dport=779[01]/);
  });
});
