import assert from 'node:assert/strict';
import fc from 'fast-check';
import { parsePacket } from './record.ts';

const V4 = { src: '10.0.0.7', dst: '192.168.10.11' };
const V6 = { src: '2001:db8::9', dst: 'fd00:10::11' };

interface Packet4 {
  readonly protocol: number;
  readonly options?: number;
  readonly fragment?: number;
  readonly length?: number;
}

function ipv4(
  { protocol, options = 0, fragment = 0, length = 60 }: Packet4,
  rest: readonly number[],
): Uint8Array {
  const head = [
    0x45 + options,
    0,
    length >> 8,
    length & 255,
    0,
    7,
    fragment >> 8,
    fragment & 255,
    64,
    protocol,
    0,
    0,
  ];
  return Uint8Array.from([...head, 10, 0, 0, 7, 192, 168, 10, 11, ...Array(4 * options).fill(1), ...rest]);
}

function ipv6(next: number, rest: readonly number[], payloadLength = rest.length): Uint8Array {
  const src = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
  const dst = [0xfd, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11];
  return Uint8Array.from([
    0x60,
    0,
    0,
    0,
    payloadLength >> 8,
    payloadLength & 255,
    next,
    64,
    ...src,
    ...dst,
    ...rest,
  ]);
}

/** Source port 40000, destination port 6443. */
const PORTS = [0x9c, 0x40, 0x19, 0x2b];
const ports = { srcPort: 40_000, dstPort: 6443, type: null, code: null };
const none = { srcPort: null, dstPort: null, type: null, code: null };
const extension = (next: number, units = 0) => [next, units, ...Array(6 + 8 * units).fill(0)];
const fragment = (next: number, offset: number) => [next, 0, offset >> 8, offset & 255, 0, 0, 0, 7];

const TABLE: readonly [what: string, bytes: Uint8Array, expected: object][] = [
  ['TCP', ipv4({ protocol: 6 }, PORTS), { ...V4, protocol: 'tcp', ...ports, length: 60 }],
  ['UDP', ipv4({ protocol: 17 }, PORTS), { ...V4, protocol: 'udp', ...ports, length: 60 }],
  ['SCTP', ipv4({ protocol: 132 }, PORTS), { ...V4, protocol: 'sctp', ...ports, length: 60 }],
  ['options', ipv4({ protocol: 6, options: 10 }, PORTS), { ...V4, protocol: 'tcp', ...ports, length: 60 }],
  [
    'a first fragment',
    ipv4({ protocol: 17, fragment: 0x2000 }, PORTS),
    { ...V4, protocol: 'udp', ...ports, length: 60 },
  ],
  [
    'a later fragment',
    ipv4({ protocol: 17, fragment: 0x2005 }, PORTS),
    { ...V4, protocol: 'udp', ...none, length: 60 },
  ],
  ['ICMP', ipv4({ protocol: 1 }, [8, 3]), { ...V4, protocol: 'icmp', ...none, type: 8, code: 3, length: 60 }],
  ['IGMP', ipv4({ protocol: 2 }, [0x16, 0]), { ...V4, protocol: 'igmp', ...none, type: 0x16, length: 60 }],
  ['another protocol', ipv4({ protocol: 47 }, PORTS), { ...V4, protocol: 47, ...none, length: 60 }],
  ['cut off before the ports', ipv4({ protocol: 6 }, [1]), { ...V4, protocol: 'tcp', ...none, length: 60 }],
  [
    'a length of 0 (BIG TCP)',
    ipv4({ protocol: 6, length: 0 }, PORTS),
    { ...V4, protocol: 'tcp', ...ports, length: 24 },
  ],
  ['IPv6 TCP', ipv6(6, PORTS), { ...V6, protocol: 'tcp', ...ports, length: 44 }],
  ['IPv6 UDP', ipv6(17, PORTS), { ...V6, protocol: 'udp', ...ports, length: 44 }],
  ['IPv6 SCTP', ipv6(132, PORTS), { ...V6, protocol: 'sctp', ...ports, length: 44 }],
  ['ICMPv6', ipv6(58, [128, 0]), { ...V6, protocol: 'icmpv6', ...none, type: 128, code: 0, length: 42 }],
  ['a jumbogram', ipv6(6, PORTS, 0), { ...V6, protocol: 'tcp', ...ports, length: 44 }],
  ...[0, 43, 60, 135, 139, 140].map((number): [string, Uint8Array, object] => [
    `extension header ${number}`,
    ipv6(number, [...extension(6), ...PORTS]),
    { ...V6, protocol: 'tcp', ...ports, length: 52 },
  ]),
  ['a long one', ipv6(60, [...extension(17, 2), ...PORTS]), { ...V6, protocol: 'udp', ...ports, length: 68 }],
  [
    'an authentication header',
    ipv6(51, [...[6, 1, ...Array(10).fill(0)], ...PORTS]),
    { ...V6, protocol: 'tcp', ...ports, length: 56 },
  ],
  [
    'a first IPv6 fragment',
    ipv6(44, [...fragment(17, 1), ...PORTS]),
    { ...V6, protocol: 'udp', ...ports, length: 52 },
  ],
  [
    'a later IPv6 fragment',
    ipv6(44, [...fragment(17, 0x10), ...PORTS]),
    { ...V6, protocol: 'udp', ...none, length: 52 },
  ],
  [
    'extension headers beyond what was copied',
    ipv6(0, [6, 9, 0, 0]),
    { ...V6, protocol: 0, ...none, length: 44 },
  ],
  [
    'more extension headers than any packet has',
    ipv6(60, [...Array(20).fill(extension(60)).flat(), ...PORTS]),
    { ...V6, protocol: 60, ...none, length: 204 },
  ],
  ['no next header', ipv6(59, []), { ...V6, protocol: 59, ...none, length: 40 }],
];

describe('parsePacket', () => {
  for (const [what, bytes, expected] of TABLE) {
    it(`reads ${what}`, () => assert.deepEqual(parsePacket(bytes), expected));
  }

  it('rejects packets that are not IP', () => {
    const bad = [
      [],
      [0x45],
      [0x44, ...Array(30).fill(0)],
      [0x60, ...Array(38).fill(0)],
      [0x15, ...Array(60).fill(0)],
    ];
    for (const bytes of bad) assert.equal(parsePacket(Uint8Array.from(bytes)), null, bytes.join());
  });

  it('never throws, and returns only fields that the packet has', () => {
    const version = fc.constantFrom(0x45, 0x4f, 0x60, 0x46);
    const bytes = fc
      .tuple(version, fc.uint8Array({ maxLength: 160 }))
      .map(([first, rest]) => Uint8Array.of(first, ...rest));
    fc.assert(
      fc.property(bytes, (packet) => {
        const found = parsePacket(packet);
        if (found === null) return;
        for (const port of [found.srcPort, found.dstPort])
          assert(port === null || (port >= 0 && port <= 65_535));
        assert(found.length >= 0);
      }),
      { numRuns: 2000 },
    );
  });

  it('reads every prefix of a packet without inventing ports', () => {
    for (const [what, bytes, expected] of TABLE) {
      for (let end = 0; end < bytes.length; end++) {
        const found = parsePacket(bytes.subarray(0, end));
        const whole = expected as { dstPort: number | null };
        assert(
          found === null || found.dstPort === null || found.dstPort === whole.dstPort,
          `${what}, ${end} bytes`,
        );
      }
    }
  });
});
