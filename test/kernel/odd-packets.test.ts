/**
 * Packets that a plain port match could miss: IPv6 extension headers, fragments, packets that
 * conntrack calls invalid or does not track, packets of a VRF. docs/semantics.md section 5 says
 * what becomes of each.
 */

import assert from 'node:assert/strict';
import { parseAddress, WIDTH } from '../../lib/net/address.ts';
import type { Namespace } from '../netns/namespace.ts';
import { addressPlan } from '../netns/topology.ts';
import { probeProgram } from '../probe/probe.ts';
import { EITHER_IPTABLES, forEachDataplane } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { policy, tcp, udp } from './manifests.ts';

const PLAN = addressPlan({ clients: 1, addressesPerClient: 1, nodeAddresses: 1 });
const [NODE = { v4: '', v6: '' }] = PLAN.nodeAddresses;
const [CLIENT = { v4: '', v6: '' }] = PLAN.clientAddresses;
const CLOSED = 4001;
const OPEN = 4002;
/** The client's. */
const REMOTE = 50_000;
const SYN = 0x02;
const ACK = 0x10;

type Family = 4 | 6;
interface Ends {
  readonly src: string;
  readonly dst: string;
}
const UDP = 17;
const TCP = 6;
const HOP_BY_HOP = 0;
const FRAGMENT = 44;
const DESTINATION = 60;

function bytesOf(text: string): Buffer {
  const address = parseAddress(text) ?? assert.fail(text);
  const width = WIDTH[address.family];
  return Buffer.from(address.value.toString(16).padStart(2 * width, '0'), 'hex');
}

function ipv4({ src, dst }: Ends, protocol: number, payload: Buffer, { id = 1, fragment = 0 } = {}): Buffer {
  const header = Buffer.alloc(12);
  header[0] = 0x45;
  header.writeUInt16BE(20 + payload.length, 2);
  header.writeUInt16BE(id, 4);
  header.writeUInt16BE(fragment, 6);
  header[8] = 64;
  header[9] = protocol;
  return Buffer.concat([header, bytesOf(src), bytesOf(dst), payload]);
}

function ipv6({ src, dst }: Ends, next: number, payload: Buffer): Buffer {
  const header = Buffer.alloc(8);
  header[0] = 0x60;
  header.writeUInt16BE(payload.length, 4);
  header[6] = next;
  header[7] = 64;
  return Buffer.concat([header, bytesOf(src), bytesOf(dst), payload]);
}

/** Without a checksum, which conntrack does not ask for. */
function udpTo(port: number, length = 32): Buffer {
  const datagram = Buffer.alloc(length);
  datagram.writeUInt16BE(REMOTE, 0);
  datagram.writeUInt16BE(port, 2);
  datagram.writeUInt16BE(length, 4);
  return datagram;
}

function tcpTo(port: number, flags: number, from = REMOTE): Buffer {
  const segment = Buffer.alloc(20);
  segment.writeUInt16BE(from, 0);
  segment.writeUInt16BE(port, 2);
  segment[12] = 0x50;
  segment[13] = flags;
  return segment;
}

/** An extension header of 8 bytes, filled with PadN. */
const padded = (next: number): Buffer => Buffer.from([next, 0, 1, 4, 0, 0, 0, 0]);
function fragmentHeader(next: number, offset: number, more: boolean, id: number): Buffer {
  const header = Buffer.alloc(8);
  header[0] = next;
  header.writeUInt16BE(offset | (more ? 1 : 0), 2);
  header.writeUInt32BE(id, 4);
  return header;
}

/** Each gives the packets that carry one datagram or segment to a port. */
const KINDS: Readonly<Record<string, (ends: Ends, port: number) => readonly Buffer[]>> = {
  'UDP over IPv4': (ends, port) => [ipv4(ends, UDP, udpTo(port))],
  'UDP over IPv4 in fragments': (ends, port) => {
    const datagram = udpTo(port, 64);
    return [
      ipv4(ends, UDP, datagram.subarray(0, 8), { id: port, fragment: 0x2000 }),
      ipv4(ends, UDP, datagram.subarray(8), { id: port, fragment: 1 }),
    ];
  },
  'UDP over IPv4 in fragments, the last one first': (ends, port) => {
    const datagram = udpTo(port, 64);
    return [
      ipv4(ends, UDP, datagram.subarray(8), { id: port + 100, fragment: 1 }),
      ipv4(ends, UDP, datagram.subarray(0, 8), { id: port + 100, fragment: 0x2000 }),
    ];
  },
  'UDP behind IPv6 extension headers': (ends, port) => [
    ipv6(ends, HOP_BY_HOP, Buffer.concat([padded(DESTINATION), padded(UDP), udpTo(port)])),
  ],
  'UDP over IPv6 in fragments': (ends, port) => {
    const datagram = udpTo(port, 64);
    return [
      ipv6(ends, FRAGMENT, Buffer.concat([fragmentHeader(UDP, 0, true, port), datagram.subarray(0, 8)])),
      ipv6(ends, FRAGMENT, Buffer.concat([fragmentHeader(UDP, 8, false, port), datagram.subarray(8)])),
    ];
  },
  'UDP in one atomic IPv6 fragment, behind destination options': (ends, port) => [
    ipv6(
      ends,
      FRAGMENT,
      Buffer.concat([fragmentHeader(DESTINATION, 0, false, port), padded(UDP), udpTo(port)]),
    ),
  ],
};

/** The UDP header is only in the second fragment: the kernel drops such packets (RFC 8200). */
function headerless(ends: Ends, port: number): readonly Buffer[] {
  return [
    ipv6(ends, FRAGMENT, Buffer.concat([fragmentHeader(DESTINATION, 0, true, port + 9), padded(UDP)])),
    ipv6(ends, FRAGMENT, Buffer.concat([fragmentHeader(DESTINATION, 8, false, port + 9), udpTo(port)])),
  ];
}

/** No connection begins with SYN and FIN, nor with RST. */
const INVALID: typeof KINDS = {
  'TCP with SYN and FIN': (ends, port) => [ipv4(ends, TCP, tcpTo(port, 0x03))],
  'TCP with RST': (ends, port) => [ipv4(ends, TCP, tcpTo(port, 0x04))],
};

/** Packets of connections that nobody began: the kernel takes up one that it has not seen begin. */
const MIDST: typeof KINDS = {
  'TCP over IPv4 in the middle of nothing': (ends, port) => [ipv4(ends, TCP, tcpTo(port, ACK))],
  'TCP over IPv6 in the middle of nothing': (ends, port) => [ipv6(ends, TCP, tcpTo(port, ACK))],
};

/** Counts what reaches the hook before and after the firewall. */
const COUNTERS = `table inet nwcount {
  counter arrived { }
  counter invalid { }
  counter passed { }
  chain before { type filter hook HOOK priority -150; th dport { ${CLOSED}, ${OPEN} } counter name arrived
    ct state invalid th dport { ${CLOSED}, ${OPEN} } counter name invalid; }
  chain after { type filter hook HOOK priority 200; th dport { ${CLOSED}, ${OPEN} } counter name passed; }
}
`;

forEachDataplane(
  'odd packets',
  (dataplane) => {
    let node: EnforcedNode;
    let client: Namespace;
    let probe: string;

    before(async () => {
      probe = await probeProgram();
      node = await createEnforcedNode(PLAN, dataplane);
      [client] = node.topology.clients as [Namespace];
      const close = (name: string) => [{ name, action: 'Drop', ports: [tcp(CLOSED), udp(CLOSED)] }] as const;
      await node.write('policy.json', [policy('p', { ingress: close('in'), egress: close('out') })]);
      const config = await node.configure({ exemptions: { localPods: false } });
      await node.again('--strict', ...config);
    });
    after(() => node?.close());
    // No counters, and no connections, of an earlier test.
    beforeEach(async () => {
      const tables = ['nwcount', 'nwnotrack'].map(
        (name) => `table inet ${name}\ndelete table inet ${name}\n`,
      );
      await node.nft(tables.join(''));
      await node.topology.node.run(['conntrack', '-F']);
    });

    async function counted(name: string): Promise<number> {
      const { stdout } = await node.topology.node.run(['nft', 'reset', 'counter', 'inet', 'nwcount', name]);
      return Number(/packets (\d+)/.exec(stdout)?.[1] ?? assert.fail(stdout));
    }
    async function send(from: Namespace, packets: readonly Buffer[]): Promise<void> {
      await from.run([probe, 'bytes', ...packets.map((packet) => packet.toString('hex'))]);
    }
    function endsOf(kind: string, direction: 'ingress' | 'egress'): Ends {
      const family: Family = kind.includes('IPv6') ? 6 : 4;
      const [here, there] = [NODE, CLIENT].map((one) => (family === 4 ? one.v4 : one.v6)) as [string, string];
      return direction === 'ingress' ? { src: there, dst: here } : { src: here, dst: there };
    }
    /** A closed port drops the packets of this kind, an open one does not. */
    async function assertJudged(
      [kind, make]: readonly [string, (typeof KINDS)[string]],
      direction: 'ingress' | 'egress',
      isInvalid = false,
    ): Promise<void> {
      const from = direction === 'ingress' ? client : node.topology.node;
      const results = [];
      for (const port of [CLOSED, OPEN]) {
        await send(from, make(endsOf(kind, direction), port));
        results.push(await counted('arrived'), await counted('invalid'), await counted('passed'));
      }
      const invalid = isInvalid ? 1 : 0;
      assert.deepEqual(results, [1, invalid, 0, 1, invalid, 1], `${direction}: ${kind}`);
    }

    it('by extension headers and in fragments reach the rules whole, in both directions', async () => {
      for (const direction of ['ingress', 'egress'] as const) {
        await node.nft(COUNTERS.replaceAll('HOOK', direction === 'ingress' ? 'input' : 'output'));
        for (const kind of Object.entries(KINDS)) await assertJudged(kind, direction);
        if (direction === 'ingress') {
          await send(client, headerless(endsOf('IPv6', direction), OPEN));
          assert.equal(await counted('passed'), 0);
        }
        await node.nft('delete table inet nwcount\n');
      }
    });

    it('that conntrack calls invalid are judged like new ones', async () => {
      await node.nft(COUNTERS.replaceAll('HOOK', 'input'));
      for (const kind of Object.entries(INVALID)) await assertJudged(kind, 'ingress', true);
    });

    it('in the middle of nothing are judged like new ones', async () => {
      await node.nft(COUNTERS.replaceAll('HOOK', 'input'));
      // The segments have no checksum.
      const checksum = 'net.netfilter.nf_conntrack_checksum';
      await node.topology.node.run(['sysctl', '-q', '-w', `${checksum}=0`]);
      for (const kind of Object.entries(MIDST)) await assertJudged(kind, 'ingress');
      await node.topology.node.run(['sysctl', '-q', '-w', `${checksum}=1`]);
    });

    it('that are not tracked are judged like new ones', async () => {
      await node.nft(`${COUNTERS.replaceAll('HOOK', 'input')}table inet nwnotrack {
  chain before { type filter hook prerouting priority raw; notrack; }
}
`);
      for (const kind of Object.entries(KINDS)) await assertJudged(kind, 'ingress');
    });

    // What a drop before connection tracking could not know: ADR 18.
    it('of a simultaneous open pass the rules that deny a new connection to the same port', async () => {
      const { node: host } = node.topology;
      await node.nft(COUNTERS.replaceAll('HOOK', 'input'));
      // The segments have no checksum, and the client must not answer with a reset.
      await host.run(['sysctl', '-q', '-w', 'net.netfilter.nf_conntrack_checksum=0']);
      await client.run(['nft', '-f', '-'], {
        stdin: 'table inet silent {\n chain in { type filter hook input priority 0; policy drop; }\n}\n',
      });
      const fromClient = [ipv4(endsOf('IPv4', 'ingress'), TCP, tcpTo(CLOSED, SYN))];
      await send(client, fromClient);
      assert.deepEqual([await counted('arrived'), await counted('passed')], [1, 0]);
      await send(host, [ipv4(endsOf('IPv4', 'egress'), TCP, tcpTo(REMOTE, SYN, CLOSED))]);
      await send(client, fromClient);
      assert.deepEqual([await counted('arrived'), await counted('passed')], [1, 1]);
    });

    it('of a VRF are judged by the same rules', async function () {
      const { node: host } = node.topology;
      const made = await host.run(['ip', 'link', 'add', 'vrf0', 'type', 'vrf', 'table', '77'], {
        anyStatus: true,
      });
      if (made.status !== 0) {
        process.stderr.write(`skipped: packets of a VRF: this kernel has none (${made.stderr.trim()})\n`);
        return this.skip();
      }
      await host.run([
        'sh',
        '-c',
        `ip link set vrf0 up && ip link set ${node.topology.nodeInterface(0)} master vrf0`,
      ]);
      await node.nft(COUNTERS.replaceAll('HOOK', 'input'));
      for (const kind of Object.entries(KINDS).filter(([name]) => name === 'UDP over IPv4')) {
        await assertJudged(kind, 'ingress');
      }
    });
  },
  EITHER_IPTABLES,
);
