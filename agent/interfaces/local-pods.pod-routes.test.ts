import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type Cidr, covers, formatAddress, parseCidr } from '../../lib/net/address.ts';
import { formatMembers, hasMember } from '../../lib/net/member-set.ts';
import { check } from '../../test/properties/runs.ts';
import { routedOutBy } from './local-pods.ts';

const UP = 0x1;
const REJECT = 0x200;
const LOCAL = 0x8000_0000;

interface Line {
  readonly flags?: number;
  readonly metric?: number;
}
type Route = readonly [prefix: string, device: string, more?: Line];

const toCidr = (text: string): Cidr => parseCidr(text)?.cidr ?? assert.fail(text);

/** A line of /proc/net/route on a little-endian machine. */
function line4([prefix, device, { flags = UP, metric = 0 } = {}]: Route): string {
  const { value, length } = toCidr(prefix);
  const mask = length === 0 ? 0n : (0xffff_ffffn << BigInt(32 - length)) & 0xffff_ffffn;
  const [address, bits] = [value, mask].map((number) => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(Number(number));
    return bytes.toString('hex').toUpperCase();
  });
  const flagText = flags.toString(16).toUpperCase().padStart(4, '0');
  return `${device}\t${address}\t00000000\t${flagText}\t0\t0\t${metric}\t${bits}\t0\t0\t0`.padEnd(127);
}

/** A line of /proc/net/ipv6_route. */
function line6([prefix, device, { flags = UP, metric = 1024 } = {}]: Route): string {
  const { value, length } = toCidr(prefix);
  const hex = (number: number | bigint, digits: number) => number.toString(16).padStart(digits, '0');
  const zero = hex(0, 32);
  const numbers = [metric, 1, 0, flags].map((number) => hex(number, 8)).join(' ');
  return `${hex(value, 32)} ${hex(length, 2)} ${zero} 00 ${zero} ${numbers} ${device.padStart(8)}`;
}

const HEADINGS = 'Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT'.padEnd(
  127,
);

function texts(routes: readonly Route[]) {
  const [v4, v6] = [4, 6].map((family) => routes.filter(([prefix]) => toCidr(prefix).family === family));
  return {
    ipv4: [HEADINGS, ...(v4 ?? []).map(line4), ''].join('\n'),
    ipv6: [...(v6 ?? []).map(line6), ''].join('\n'),
  };
}

const routed = (...routes: readonly Route[]): string[] =>
  formatMembers(routedOutBy(texts(routes), new Set(['cni0', 'cali1', 'cali2'])));

describe('destinations routed out by interfaces', () => {
  it("reads the kernel's route files", () => {
    const ipv4 = [
      HEADINGS,
      'eth0\t00000000\t01005A0A\t0003\t0\t0\t0\t00000000\t0\t0\t0'.padEnd(127),
      'cali1\t0200F40A\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0'.padEnd(127),
      'cni0\t0001F40A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0'.padEnd(127),
      '',
    ].join('\n');
    const ipv6 = [
      'fd000244000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     cni0',
      'fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000002 00000000 00000001     cni0',
      '00000000000000000000000000000000 00 00000000000000000000000000000000 00 fd000000000000000000000000000001 00000400 00000002 00000000 00000003     eth0',
      '00000000000000000000000000000001 80 00000000000000000000000000000000 00 00000000000000000000000000000000 00000000 00000003 00000000 80200001       lo',
      'fd000244000000000000000000000001 80 00000000000000000000000000000000 00 00000000000000000000000000000000 00000000 00000002 00000000 80200001     cni0',
      'ff000000000000000000000000000000 08 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000002 00000000 00000001     cni0',
      '00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo',
      '',
    ].join('\n');
    assert.deepEqual(formatMembers(routedOutBy({ ipv4, ipv6 }, new Set(['cni0', 'cali1']))), [
      '10.244.0.2',
      '10.244.1.0/24',
      'fd00:244::/64',
    ]);
    assert.deepEqual(routedOutBy({ ipv4, ipv6 }, new Set()), routedOutBy({ ipv4: '', ipv6: '' }, new Set()));
  });

  it('are the network of a bridge', () => {
    assert.deepEqual(
      routed(['10.244.1.0/24', 'cni0'], ['10.244.2.0/24', 'flannel.1'], ['fd00:1::/64', 'cni0']),
      ['10.244.1.0/24', 'fd00:1::/64'],
    );
  });

  it('are one address for each pod where each has a route, neighbours too', () => {
    assert.deepEqual(
      routed(
        ['10.244.1.64/26', '*', { flags: UP | REJECT }],
        ['10.244.1.66/32', 'cali1'],
        ['10.244.1.67/32', 'cali2'],
        ['fd00::2/128', 'cali1'],
        ['fd00::3/128', 'cali2'],
      ),
      ['10.244.1.66', '10.244.1.67', 'fd00::2', 'fd00::3'],
    );
  });

  it('exclude longer prefixes that lead elsewhere, and include those that lead back', () => {
    assert.deepEqual(
      routed(
        ['10.244.0.0/16', 'cni0'],
        ['10.244.128.0/17', 'eth0'],
        ['10.244.192.0/30', 'cali1'],
        ['10.244.192.1/32', 'eth0'],
        ['10.244.255.1/32', 'cali2'],
      ),
      ['10.244.0.0/17', '10.244.192.0', '10.244.192.2/31', '10.244.255.1'],
    );
    assert.deepEqual(routed(['fd00::/126', 'cni0'], ['fd00::1/128', 'eth0']), ['fd00::', 'fd00::2/127']);
  });

  it('follow the lowest metric of equal prefixes; at equal metrics they lead elsewhere', () => {
    const both = (cni: number, eth: number): string[] =>
      routed(['10.1.0.0/24', 'cni0', { metric: cni }], ['10.1.0.0/24', 'eth0', { metric: eth }]);
    assert.deepEqual([both(1, 2), both(2, 1), both(1, 1)], [['10.1.0.0/24'], [], []]);
  });

  it('exclude the default route, the node itself, unreachable, down, multicast and link-local routes', () => {
    assert.deepEqual(
      routed(
        ['0.0.0.0/0', 'cni0'],
        ['::/0', 'cni0'],
        ['10.1.0.0/24', 'cni0', { flags: UP | REJECT }],
        ['10.2.0.0/24', 'cni0', { flags: 0 }],
        ['224.0.0.0/4', 'cni0'],
        ['fd00::1/128', 'cni0', { flags: UP | LOCAL }],
        ['fd01::/64', 'cni0', { flags: REJECT }],
        ['fe80::/64', 'cni0'],
        ['ff00::/8', 'cni0'],
      ),
      [],
    );
  });

  it('follow the longest prefix for every address', function () {
    const route = fc.tuple(
      fc.nat({ max: 63 }),
      fc.integer({ min: 26, max: 32 }),
      fc.constantFrom('cni0', 'eth0'),
    );
    const drawn = fc.uniqueArray(route, {
      selector: ([last, length]) => `${last >> (32 - length)}/${length}`,
    });
    check(this, 200, drawn, (of) => {
      const routes = of.map(([last, length, device]): Route => {
        const value = 0x0a00_0000n + BigInt((last >> (32 - length)) << (32 - length));
        return [`${formatAddress({ family: 4, value })}/${length}`, device];
      });
      const found = routedOutBy(texts(routes), new Set(['cni0']));
      for (let last = 0; last < 64; last++) {
        const address: Cidr = { family: 4, value: 0x0a00_0000n + BigInt(last), length: 32 };
        const [longest] = routes
          .filter(([prefix]) => covers(toCidr(prefix), address))
          .sort(([a], [b]) => toCidr(b).length - toCidr(a).length);
        assert.equal(hasMember(found, address), longest?.[1] === 'cni0', `10.0.0.${last}`);
      }
    });
  });
});
