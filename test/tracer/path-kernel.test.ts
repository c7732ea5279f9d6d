import assert from 'node:assert/strict';
import { rulesetText } from '../../agent/render/nft-text.ts';
import { formatAddress, parseAddress } from '../../lib/net/address.ts';
import { packAddress } from '../../lib/net/member-set.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { until } from '../kernel/until.ts';
import { createNamespace, type Namespace } from '../netns/namespace.ts';
import { egressTable, MASK, PODS, TAKEN, TUNNEL } from './egress-table.ts';
import { bucketOf } from './match.ts';
import type { Packet } from './packet.ts';
import { pathTracer } from './path.ts';

const UPLINK = '198.51.100.1';
const GOOD_MAC = '0e:00:00:00:00:02';
const OTHER_MAC = '0e:00:00:00:00:03';
/** The port of the last packet, which always passes. */
const LAST_PORT = 7;

/**
 * A node with pods at one side and the tunnel at the other: whatever it forwards is in conntrack,
 * with its mark and the address that it was translated to. Nothing answers behind the outgoing
 * devices.
 */
const NODE = `
link set uplink arp off up
address add ${UPLINK}/24 dev uplink
link set out arp off group ${TUNNEL} up
link set pods address ${GOOD_MAC} group ${PODS} up
link set tunnel group ${TUNNEL} up
route add default via 198.51.100.254
route add 10.1.0.0/24 dev pods
route add 10.2.0.0/24 dev tunnel
rule add pref 71 fwmark 0x07000000/${MASK} lookup 7
rule add pref 71 fwmark 0x09000000/${MASK} lookup 7
route add default dev out table 7
`;
const PEERS = `
link set lo up
link set pods arp off address ${GOOD_MAC} up
link set tunnel arp off up
link set uplink up
link set out up
route add default dev pods
route add default dev tunnel table 10
rule add from 10.2.0.0/24 lookup 10
`;

/** Sends one UDP packet for each line "source destination port". */
const SEND = `
import socket, sys
for line in sys.stdin:
    source, destination, port = line.split()
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.setsockopt(socket.SOL_IP, 19, 1)  # IP_TRANSPARENT
    out.bind((source, 40000))
    out.sendto(b'x', (destination, int(port)))
    out.close()
`;

const SEND_IPV6 = `
import socket, sys
out = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
for line in sys.stdin: out.sendto(b'x', (line.strip(), 53))
`;

interface Sent {
  readonly src: string;
  readonly dst: string;
  readonly port: number;
}

const value = (text: string): bigint => parseAddress(text)?.value ?? assert.fail(text);
const walk = pathTracer(egressTable(), ({ mark = 0 }) =>
  (mark & MASK) !== 0 && (mark & TAKEN) === 0
    ? { name: 'eth0', group: TUNNEL }
    : { name: 'eth0', group: 0, address: value(UPLINK) },
);

/** What conntrack says of a packet that the tracer walks; null: it is dropped. */
function expected({ src, dst, port }: Sent, sourceMac: string): string | null {
  const isPod = src.startsWith('10.1.') || src.startsWith('10.7.');
  const packet: Packet = {
    direction: 'ingress',
    family: 4,
    src: value(src),
    dst: value(dst),
    protocol: 17,
    srcPort: 40000,
    dstPort: port,
    established: false,
    original: null,
    isForwarded: true,
    interface: { name: 'eth0', group: isPod ? PODS : TUNNEL },
    sourceMac,
    lacksRouteBack: src.startsWith('10.7.'),
  };
  const { verdict, packet: left } = walk(packet);
  return verdict === 'Allow' ? entry(src, dst, port, left.src, left.ctMark ?? 0) : null;
}

function entry(src: string, dst: string, port: number, translated: bigint, mark: number): string {
  return `${src} ${dst} ${port} ${formatAddress({ family: 4, value: translated })} ${mark.toString(16)}`;
}

const TRACKED = /src=(\S+) dst=(\S+) sport=\d+ dport=(\d+) .*src=\S+ dst=(\S+) .*mark=(\d+)/;

kernelSuite('the tracer and the kernel', () => {
  let node: Namespace;
  let peers: Namespace;
  before(async () => {
    [node, peers] = await Promise.all([createNamespace('node'), createNamespace('peers')]);
    const ends = ['pods', 'tunnel', 'uplink', 'out'].map(
      (name) => `link add ${name} type veth peer name ${name} netns ${peers.pid}`,
    );
    await node.run(['ip', '-batch', '-'], { stdin: `${ends.join('\n')}\n${NODE}` });
    await peers.run(['ip', '-batch', '-'], { stdin: PEERS });
    await node.run(['sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv4.conf.all.rp_filter=0']);
    await node.run(['nft', '-f', '-'], { stdin: rulesetText(egressTable()) });
  });
  after(() => Promise.all([node?.close(), peers?.close()]));

  /** The connections that the node forwarded, once the last packet is among them. */
  async function forwarded(sent: readonly Sent[]): Promise<string[]> {
    await node.run(['conntrack', '-F']);
    const stdin = sent.map(({ src, dst, port }) => `${src} ${dst} ${port}\n`).join('');
    await peers.run(['python3', '-c', SEND], { stdin });
    let found: string[] = [];
    await until('the last packet is forwarded', async () => {
      const { stdout } = await node.run(['conntrack', '-L', '-p', 'udp']);
      found = stdout.split('\n').flatMap((line) => {
        const [, src = '', dst = '', port, translated = '', mark] = TRACKED.exec(line) ?? [];
        return src === '' ? [] : [entry(src, dst, Number(port), value(translated), Number(mark))];
      });
      return found.some((one) => one.includes(` ${LAST_PORT} `));
    });
    return found.sort();
  }

  it('hash IPv6 addresses alike', async () => {
    const source = '2001:db8::1';
    const rule = 'ct mark set jhash ip6 saddr . ip6 daddr mod 1000000 seed 0x0';
    await node.run(['nft', '-f', '-'], {
      stdin: `table ip6 hashing { chain out { type filter hook output priority 0; ${rule}; }; }`,
    });
    await node.run(['ip', '-batch', '-'], {
      stdin: `address add ${source}/64 dev uplink nodad\nroute add 2001:db8:1::/64 dev uplink\n`,
    });
    const wanted = Array.from({ length: 20 }, (_, i) => {
      const dst = `2001:db8:1::${(i + 1).toString(16)}:${(3001 * i + 7).toString(16)}`;
      const key = Buffer.concat(
        [source, dst].map((text) => packAddress(parseAddress(text) ?? assert.fail(text))),
      );
      return { dst, mark: bucketOf(key, 1_000_000, 0) };
    });
    const stdin = wanted.map(({ dst }) => `${dst}\n`).join('');
    await node.run(['python3', '-c', SEND_IPV6], { stdin });
    const { stdout } = await node.run(['conntrack', '-L', '-f', 'ipv6', '-p', 'udp']);
    for (const { dst, mark } of wanted) {
      const line = stdout.split('\n').find((one) => one.includes(` dst=${dst} `));
      assert.match(line ?? '', new RegExp(` mark=${mark} `), dst);
    }
  });

  for (const sourceMac of [GOOD_MAC, OTHER_MAC]) {
    it(`forward the same packets, with the same marks and sources, from ${sourceMac}`, async () => {
      // Without ARP, a packet goes to the MAC that its sender has too.
      for (const one of [node, peers]) await one.run(['ip', 'link', 'set', 'tunnel', 'address', sourceMac]);
      const sources = ['10.1.0.6', '10.1.0.7', '10.1.0.8', '10.1.0.9', '10.2.0.5', '10.2.0.6', '10.7.0.1'];
      const fixed = ['192.0.2.1', '10.9.9.9', '192.168.7.7', '203.0.114.0', '203.0.115.1'];
      const spread = Array.from({ length: 64 }, (_, i) => `203.0.113.${3 * i}`);
      const sent = sources.flatMap((src) =>
        [...fixed, ...spread].map((dst, i): Sent => ({ src, dst, port: 1000 + i })),
      );
      sent.push({ src: '10.1.0.8', dst: '192.0.2.1', port: LAST_PORT });
      const wanted = sent.flatMap((one) => expected(one, sourceMac) ?? []).sort();
      assert.deepEqual(await forwarded(sent), wanted);
      const marks = new Set(wanted.map((one) => one.split(' ')[4]));
      const served = sourceMac === GOOD_MAC ? ['41000000'] : [];
      assert.deepEqual(marks, new Set(['0', '7000000', '9000000', '42000000', ...served]));
    });
  }
});
