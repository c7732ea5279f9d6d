import fc from 'fast-check';
import type { Address, Family } from '../oracle/address.ts';
import { bitsOf, formatAddress, inRange, parseAddress, parseCidr } from '../oracle/address.ts';
import { oneOf, weighted } from './choice.ts';

/** One host's address in each family. */
export interface AddressPair {
  v4: string;
  v6: string;
}

/**
 * A host that packets can come from; `group` is the link group of the node's interface towards it,
 * where known.
 */
export interface ClientAddress extends AddressPair {
  group?: number;
}

/**
 * The addresses of a kernel test: those of the node under test, and those that packets can come
 * from.
 */
export interface AddressPlan {
  nodeAddresses: AddressPair[];
  clientAddresses: ClientAddress[];
}

/** The addresses that everything in a scenario is drawn from, or close to. */
export interface AddressPool {
  v4: string[];
  v6: string[];
}

/**
 * Few addresses in few networks, so that objects and flows meet often; network edges and several
 * spellings are among them.
 */
const defaultPool: AddressPool = {
  v4: [
    ...[0, 1, 2, 3, 4, 127, 128, 255].map((host) => `10.1.0.${host}`),
    ...[1, 2, 3, 4, 5].map((host) => `10.2.3.${host}`),
    ...['172.16.255.254', '192.168.7.250', '203.0.113.9', '8.8.8.8', '1.0.0.1', '223.255.255.254'],
  ],
  v6: [
    ...[
      'fd00:1::',
      'fd00:1::1',
      'fd00:1::2',
      'fd00:1:0:0:0:0:0:3',
      'FD00:1::00FF',
      'fd00:1::100',
      'fd00:1::ffff',
    ],
    ...['1', '2', '3', '4'].map((host) => `fd00:2::a:b:c:${host}`),
    ...['2001:db8::1', '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff', 'fe80::5'],
  ],
};

/** The plan's client addresses, or the default pool without a plan. */
export function toPool(plan?: AddressPlan): AddressPool {
  if (plan === undefined) return defaultPool;
  return {
    v4: plan.clientAddresses.map(({ v4 }) => v4),
    v6: plan.clientAddresses.map(({ v6 }) => v6),
  };
}

/** An address of the pool as a rule; a close neighbour or a random one now and then. */
export function addressNear(pool: AddressPool, family: Family): fc.Arbitrary<string> {
  const known = oneOf(family === 4 ? pool.v4 : pool.v6);
  const neighbour = fc.tuple(known, fc.constantFrom(-2, -1, 1, 2)).map(([text, step]) => shift(text, step));
  return weighted<string>([16, known], [3, neighbour], [1, randomAddress(family)]);
}

/** Any unicast-looking address: not loopback, not multicast, not IPv4-mapped. */
export function randomAddress(family: Family): fc.Arbitrary<string> {
  if (family === 6) {
    return fc.bigInt({ min: 0x2000n << 112n, max: (0x4000n << 112n) - 1n }).map((value) => format(6, value));
  }
  return fc.bigInt({ min: 0x80000000n, max: 0xdfffffffn }).map((value) => format(4, value));
}

/** A CIDR of any length around the pool, host bits clear, with 0 to 2 exceptions inside it. */
export function ipBlock(pool: AddressPool): fc.Arbitrary<{ cidr: string; except?: string[] }> {
  return fc.constantFrom<Family>(4, 6).chain((family) =>
    fc.tuple(addressNear(pool, family), prefixLength(family)).chain(([address, length]) => {
      const cidr = toCidr(address, length);
      const plain = fc.constant<{ cidr: string; except?: string[] }>({ cidr });
      if (length === bitsOf(family)) return plain;
      const except = fc.array(exception(pool, family, cidr), { minLength: 0, maxLength: 2 });
      return weighted<{ cidr: string; except?: string[] }>(
        [2, plain],
        [1, except.map((list) => ({ cidr, except: list }))],
      );
    }),
  );
}

/** The address moved by so many; stays inside its family. */
export function shift(text: string, step: number): string {
  const { family, value } = read(text);
  const last = (1n << BigInt(bitsOf(family))) - 1n;
  const moved = value + BigInt(step);
  return moved < 0n || moved > last ? text : format(family, moved);
}

/** The one spelling of an address, to compare by. */
export function canonical(text: string): string {
  return formatAddress(read(text));
}

/** The family of an address text. */
export function familyOf(text: string): Family {
  return text.includes(':') ? 6 : 4;
}

/** The CIDR of that length that holds the address, host bits clear. */
export function toCidr(address: string, length: number): string {
  const { family, first } = parseCidr(`${address}/${length}`);
  return `${format(family, first)}/${length}`;
}

function exception(pool: AddressPool, family: Family, cidr: string): fc.Arbitrary<string> {
  const block = parseCidr(cidr);
  const outer = Number(cidr.slice(cidr.indexOf('/') + 1));
  const inside = (family === 4 ? pool.v4 : pool.v6).filter((text) => inRange(block, read(text)));
  const edges = [format(family, block.first), format(family, block.last)];
  const length = weighted(
    [3, fc.integer({ min: outer + 1, max: bitsOf(family) })],
    [1, fc.constant(bitsOf(family))],
  );
  return fc.tuple(oneOf([...inside, ...edges]), length).map(([address, bits]) => toCidr(address, bits));
}

function prefixLength(family: Family): fc.Arbitrary<number> {
  const bits = bitsOf(family);
  return weighted(
    [4, fc.constant(bits)],
    [4, fc.integer({ min: bits - 8, max: bits - 1 })],
    [3, fc.constantFrom(bits / 4, bits / 2, (bits * 3) / 4)],
    [2, fc.integer({ min: 1, max: bits })],
    [1, fc.constant(0)],
  );
}

function read(text: string): Address {
  const address = parseAddress(text);
  if (address === undefined) throw new Error(`not an address: ${text}`);
  return address;
}

function format(family: Family, value: bigint): string {
  return formatAddress({ family, value });
}
