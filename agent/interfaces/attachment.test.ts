import assert from 'node:assert/strict';
import type { LinkRoute, RouteAddress } from 'nftables-napi';
import { parseAddress, parseCidr, WIDTH } from '../../lib/net/address.ts';
import { attachments } from './attachment.ts';

const LINK = 7;

function bytesOf(text: string): Uint8Array {
  const address = parseAddress(text);
  assert.ok(address !== null, text);
  const hex = address.value.toString(16).padStart(2 * WIDTH[address.family], '0');
  return Uint8Array.from(Buffer.from(hex, 'hex'));
}

function address(text: string): RouteAddress {
  const [plain = '', length] = text.split('/');
  return {
    link: LINK,
    address: bytesOf(plain),
    prefixLength: Number(length),
    protocol: 0,
    metric: 0,
    noPrefixRoute: false,
    noDad: false,
    deprecated: false,
  };
}

function route(to: string, more: Partial<LinkRoute> & { readonly gateway?: boolean } = {}): LinkRoute {
  const { gateway = false, ...fields } = more;
  const cidr = parseCidr(to)?.cidr;
  assert.ok(cidr !== undefined, to);
  return {
    family: cidr.family,
    table: 254,
    destination: bytesOf(to.split('/')[0] ?? ''),
    prefixLength: cidr.length,
    scope: cidr.family === 4 ? 253 : 0,
    protocol: 3,
    type: 1,
    ways: [{ link: LINK, hasGateway: gateway }],
    ...fields,
  };
}

interface Given {
  readonly addresses?: readonly string[];
  readonly routes?: readonly LinkRoute[];
  readonly declared?: readonly string[] | null;
}

function found({ addresses = [], routes = [], declared = null }: Given): string {
  const one = attachments({ addresses: addresses.map(address), routes }, declared).get(LINK);
  if (one === undefined) return 'nothing';
  return [one.by ?? 'nothing', ...one.gateways].join(' ');
}

describe('attachments', () => {
  for (const [what, given, wanted] of [
    ['no address', {}, 'nothing'],
    ['link-local addresses', { addresses: ['fe80::1/64', '169.254.1.1/16', '169.254.77.1/32'] }, 'nothing'],
    ['a multicast address', { addresses: ['224.0.0.5/32', 'ff05::2/128'] }, 'nothing'],
    ['an IPv4 network', { addresses: ['10.2.0.1/24'] }, 'address 10.2.0.1'],
    ['an IPv6 network', { addresses: ['fd00:2::1/64'] }, 'address fd00:2::1'],
    ['an address of the Node', { addresses: ['10.1.0.1/32'], declared: ['10.1.0.1'] }, 'node 10.1.0.1'],
    ['a single address', { addresses: ['10.2.0.1/32', 'fd00::1/128'] }, 'nothing 10.2.0.1 fd00::1'],
    ["a pod's route", { routes: [route('10.244.0.5/32'), route('fd00:244::5/128')] }, 'nothing'],
    ["a pod's route in another table", { routes: [route('10.244.0.5/32', { table: 100 })] }, 'nothing'],
    ['an IPv4 default route', { routes: [route('0.0.0.0/0')] }, 'default'],
    ['an IPv6 default route', { routes: [route('::/0', { gateway: true })] }, 'default'],
    ['a default route of another table', { routes: [route('0.0.0.0/0', { table: 2005 })] }, 'route'],
    ['a network', { routes: [route('10.2.0.0/16', { table: 100 })] }, 'route'],
    ['an IPv6 network', { routes: [route('fd00:2::/64')] }, 'route'],
    ['a gateway', { routes: [route('10.3.0.1/32', { gateway: true })] }, 'route'],
    ['a link-local network', { routes: [route('fe80::/64'), route('169.254.0.0/16')] }, 'nothing'],
    ['multicast', { routes: [route('224.0.0.0/4'), route('ff00::/8')] }, 'nothing'],
    ['a blackhole', { routes: [route('10.2.0.0/16', { type: 6 })] }, 'nothing'],
    [
      'the other end of a point-to-point address',
      { addresses: ['10.2.0.1/32'], routes: [route('10.2.0.2/32', { protocol: 2 })] },
      'route 10.2.0.1',
    ],
    [
      "the kernel's own route to an IPv6 address",
      { addresses: ['fd00::1/128'], routes: [route('fd00::1/128', { protocol: 2 })] },
      'nothing fd00::1',
    ],
    [
      'ptp: the gateway address, and a route of scope host',
      { addresses: ['10.244.0.1/32', 'fd00::1/128'], routes: [route('10.244.0.5/32', { scope: 254 })] },
      'nothing',
    ],
    [
      'an address in a network and a default route',
      { addresses: ['10.2.0.1/24'], routes: [route('10.2.0.0/24'), route('0.0.0.0/0', { gateway: true })] },
      'default 10.2.0.1',
    ],
  ] as const satisfies readonly (readonly [string, Given, string])[]) {
    it(`${what}: ${wanted}`, () => assert.equal(found(given), wanted));
  }

  it('counts each way of a route', () => {
    const ways = [
      { link: 3, hasGateway: true },
      { link: 4, hasGateway: true },
    ];
    const all = attachments({ addresses: [], routes: [route('10.9.0.0/16', { ways })] }, null);
    assert.deepEqual([...all.keys()], [3, 4]);
  });
});
