/**
 * Packets that other programs queue for a program of theirs (NFQUEUE), ahead of nodewall's chains
 * and behind them: the verdicts of both hold, and none is lost while nodewall's rules change.
 */
import assert from 'node:assert/strict';
import { createInterface } from 'node:readline';
import type { CheckLine } from '../../lib/process/check-line.ts';
import type { Namespace } from '../netns/namespace.ts';
import { type AddressPair, addressPlan, CLIENT_INTERFACE } from '../netns/topology.ts';
import { probeProgram } from '../probe/probe.ts';
import { forEachDataplane, NFTABLES } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { commandOf } from './iptables.ts';
import { type PolicyOptions, policy, type Rule, tcp, udp } from './manifests.ts';
import { FAMILIES, type Family } from './passed-by.ts';
import { of } from './passed-by-cluster.ts';
import { connects, listen } from './talk.ts';
import { until } from './until.ts';

const [OPEN, CLOSED] = [9001, 9002];
const PUBLISHED = 30_080;
const POD_PORT = 9003;
const QUEUE = 3;
/** Tables of iptables by their priorities: -150 and 50, nodewall's chains have 0. */
const PLACES = { ahead: 'mangle', behind: 'security' } as const;
type Place = keyof typeof PLACES;
type Hook = 'INPUT' | 'OUTPUT' | 'FORWARD';
const HELD: readonly Hook[] = ['INPUT', 'FORWARD'];
/** Datagrams of each family to each port, each of a connection of its own. */
const EACH = 20;

interface Reader {
  /** Packets that it got so far. */
  packets(): number;
  /** Lets go of what it holds; resolves once the kernel has taken these packets up again. */
  release(): Promise<void>;
}

forEachDataplane(
  'packets that others queue',
  (dataplane) => {
    let node: EnforcedNode;
    let outside: Namespace;
    let own: AddressPair;
    let away: AddressPair;
    let pod: AddressPair;
    beforeEach(async () => {
      node = await createEnforcedNode(addressPlan({ clients: 2, groups: [0, 8] }), dataplane);
      const { clients, plan } = node.topology;
      const [client] = clients;
      const [address] = plan.nodeAddresses;
      const [first, second] = [0, 1].map((index) => plan.clientAddresses.find((one) => one.client === index));
      assert.ok(client !== undefined && address !== undefined && first !== undefined && second !== undefined);
      [outside, own, away, pod] = [client, address, first, second];
      await Promise.all([node.topology.node, outside].map((one) => listen(one, [OPEN, CLOSED])));
    });
    afterEach(() => node?.close());

    /** What has been repeated once has mark 1. */
    async function queue(place: Place, hooks: readonly Hook[], flags = ''): Promise<void> {
      const rules = hooks.flatMap((hook) =>
        ['tcp', 'udp'].map(
          (protocol) =>
            `-A ${hook} -p ${protocol} --dport ${OPEN}:${POD_PORT} -m mark ! --mark 1 -j NFQUEUE --queue-num ${QUEUE} ${flags}`,
        ),
      );
      const stdin = [`*${PLACES[place]}`, ...rules, 'COMMIT', ''].join('\n');
      for (const family of FAMILIES)
        await node.topology.node.run([commandOf('nft', family, '-restore'), '--noflush'], { stdin });
    }

    async function read(verdict: 'accept' | 'repeat' | 'hold'): Promise<Reader> {
      const argv = [await probeProgram(), 'queue', '--number', String(QUEUE), '--verdict', verdict];
      const child = node.topology.node.spawn(argv);
      child.stderr.pipe(process.stderr);
      const lines: string[] = [];
      createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
      await until('the queue is read', async () => lines.includes('ready'));
      return {
        packets: () => Number(lines.findLast((line) => /^\d+$/.test(line)) ?? 0),
        async release() {
          child.stdin.write('\n');
          await until('the packets are released', async () => lines.includes('released'));
        },
      };
    }

    /** Whether new connections to a port are possible, to the node and from it, in each family. */
    async function reached(port: number): Promise<readonly boolean[]> {
      const attempts = FAMILIES.flatMap((family) => [
        connects(outside, of(own, family), port),
        connects(node.topology.node, of(away, family), port),
      ]);
      return await Promise.all(attempts);
    }
    const every = (is: boolean) => [is, is, is, is];

    async function enforce(...policies: readonly object[]): Promise<void> {
      await node.write('policies.json', policies);
      await node.again('--strict');
    }

    const decided = (allowed: number, denied: number): object[] => {
      const ports = (port: number) => [tcp(port), udp(port)];
      const rules: readonly Rule[] = [
        { action: 'Allow', ports: ports(allowed) },
        { action: 'Drop', ports: ports(denied) },
      ];
      return [policy('decided', { ingress: rules, egress: rules })];
    };

    it('are dropped without bypass and without a reader, which check says; an Allow changes nothing', async () => {
      await enforce(...decided(OPEN, CLOSED));
      assert.deepEqual(await queuesFound(), { state: 'ok', names: false });
      await queue('ahead', ['INPUT', 'OUTPUT']);
      assert.deepEqual(await reached(OPEN), every(false));
      assert.deepEqual(await queuesFound(), { state: 'warning', names: true });
      await read('accept');
      assert.deepEqual(await reached(OPEN), every(true));
    });

    async function queuesFound(): Promise<{ readonly state: string; readonly names: boolean }> {
      const { stdout } = await node.asked('check', '--machine', '-o', 'json');
      const { lines }: { readonly lines: readonly CheckLine[] } = JSON.parse(stdout);
      const line = lines.find(({ check }) => check === 'queued packets') ?? assert.fail();
      return { state: line.state, names: /ip mangle \(4\), ip6 mangle \(4\)/.test(line.message) };
    }

    it('pass with bypass while nobody reads, as nodewall decides', async () => {
      await enforce(...decided(OPEN, CLOSED));
      for (const place of ['ahead', 'behind'] as const)
        await queue(place, ['INPUT', 'OUTPUT'], '--queue-bypass');
      assert.deepEqual(await reached(OPEN), every(true));
      assert.deepEqual(await reached(CLOSED), every(false));
      assert.deepEqual(await queuesFound(), { state: 'ok', names: false });
    });

    for (const place of ['ahead', 'behind'] as const)
      for (const verdict of ['accept', 'repeat'] as const)
        it(`${place}, by a reader that says ${verdict}: nodewall's verdicts hold`, async () => {
          await queue(place, ['INPUT', 'OUTPUT']);
          const reader = await read(verdict);
          assert.deepEqual(await reached(CLOSED), every(true), 'without rules');
          await enforce(...decided(OPEN, CLOSED));
          const before = reader.packets();
          assert.deepEqual(await reached(OPEN), every(true));
          assert.ok(reader.packets() > before, 'the reader got them');
          // Late packets of connections that were possible have come.
          await node.topology.node.run(['conntrack', '-F']);
          const last = reader.packets();
          assert.deepEqual(await reached(CLOSED), every(false));
          assert.equal(
            reader.packets() > last,
            place === 'ahead',
            'what is denied is asked about ahead only',
          );
        });

    for (const place of ['ahead', 'behind'] as const)
      it(`${place}, while rules change: none is lost, and each is judged once`, async () => {
        // Without NAT, nodewall's rules alone have the kernel track connections.
        const isPublished = place === 'ahead';
        if (isPublished) await publish();
        await count();
        await queue(place, HELD);
        await enforce(...decided(OPEN, CLOSED), ...published('Allow'));
        const reader = await read('hold');
        await send([OPEN, CLOSED, ...(isPublished ? [PUBLISHED] : [])]);
        const held = (place === 'ahead' ? 3 : 1) * EACH * FAMILIES.length;
        await until('all packets wait', async () => reader.packets() === held, {
          detail: () => `${reader.packets()} of ${held}`,
        });
        // Chains and sets of other kinds, none at all, and those of the other verdicts.
        const many = Array.from({ length: 30 }, (_, i) => udp(100 + 3 * i));
        await enforce(policy('many', { ingress: [{ action: 'Reject', ports: many }] }), ...published('Drop'));
        await enforce();
        await node.asked('check', '--machine');
        await enforce(...decided(CLOSED, OPEN));
        assert.equal(reader.packets(), held);
        await reader.release();
        // Ahead, the rules of now judge them; behind, those of when they came have.
        const expected = isPublished
          ? { [OPEN]: 0, [CLOSED]: EACH, [POD_PORT]: EACH }
          : { [OPEN]: EACH, [CLOSED]: 0, [POD_PORT]: 0 };
        for (const family of FAMILIES) assert.deepEqual(await counted(family), expected, `IPv${family}`);
      });

    it('are dropped where cleanup removes a table of nftables, and nowhere else', async () => {
      // Without others that track connections, the kernel drops them in either dataplane.
      await publish();
      await count();
      await queue('ahead', HELD);
      await enforce(...decided(OPEN, CLOSED));
      const reader = await read('hold');
      await send([OPEN]);
      await until('all packets wait', async () => reader.packets() === EACH * FAMILIES.length);
      await node.cleanup();
      await reader.release();
      const passed = dataplane === NFTABLES ? 0 : EACH;
      for (const family of FAMILIES) assert.equal((await counted(family))[OPEN], passed);
    });

    const published = (action: 'Allow' | 'Drop'): object[] => {
      const options: PolicyOptions = { traffic: 'NodePort', ingress: [{ action, ports: [udp(PUBLISHED)] }] };
      return [policy('published', options)];
    };

    /** A port of the node for the pod's. */
    async function publish(): Promise<void> {
      const to = (family: Family) => (family === 4 ? `${pod.v4}:${POD_PORT}` : `[${pod.v6}]:${POD_PORT}`);
      await node.nft(`table inet publish {
        chain pre {
          type nat hook prerouting priority dstnat;
          meta nfproto ipv4 udp dport ${PUBLISHED} dnat ip to ${to(4)}
          meta nfproto ipv6 udp dport ${PUBLISHED} dnat ip6 to ${to(6)}
        }
      }\n`);
    }

    /** Counts what has passed all other chains. */
    async function count(): Promise<void> {
      const rules = FAMILIES.flatMap((family) =>
        [OPEN, CLOSED, POD_PORT].map(
          (port) => `meta nfproto ipv${family} udp dport ${port} counter comment "${family} ${port}"`,
        ),
      ).join('\n');
      const chain = (hook: string) => `chain ${hook} { type filter hook ${hook} priority 200; ${rules}\n }`;
      await node.nft(`table inet passed {\n${chain('input')}\n${chain('forward')}\n}\n`);
    }

    async function counted(family: Family): Promise<Record<number, number>> {
      const { stdout } = await node.topology.node.run(['nft', 'list', 'table', 'inet', 'passed']);
      const sums: Record<number, number> = {};
      for (const [, packets, of, port = ''] of stdout.matchAll(/packets (\d+).*"(\d) (\d+)"/g))
        if (of === String(family)) sums[Number(port)] = (sums[Number(port)] ?? 0) + Number(packets);
      return sums;
    }

    /** The first datagrams of connections from outside. */
    async function send(ports: readonly number[]): Promise<void> {
      const flows = FAMILIES.flatMap((family) =>
        ports.flatMap((dstPort) =>
          Array.from({ length: EACH }, (_, i) => ({
            src: of(away, family),
            dst: of(own, family),
            protocol: 17,
            srcPort: 40_000 + i,
            dstPort,
          })),
        ),
      );
      const stdin = flows.map((flow, i) => `${JSON.stringify({ id: i + 1, ...flow })}\n`).join('');
      const argv = [await probeProgram(), 'send', '--within', '50', '--interface', CLIENT_INTERFACE];
      await outside.run(argv, { stdin });
    }
  },
  [NFTABLES],
);
