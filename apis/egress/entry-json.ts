import { isDeepStrictEqual } from 'node:util';
import { type Family, parseAddress, parseCidr } from '../../lib/net/address.ts';
import type { Interval } from '../../lib/net/interval.ts';
import { present } from '../../lib/sharing/present.ts';
import {
  checked,
  closed,
  decode,
  either,
  InvalidError,
  integer,
  list,
  type Of,
  object,
  oneOf,
  type Shape,
  text,
  where,
} from '../schema/shape.ts';
import { type EgressPart, type EgressValues, formatRange, readRange } from './entries.ts';
import {
  type Candidacy,
  type DestinationRange,
  EGRESS_DROP_REASONS,
  type EgressArrival,
  type EgressClass,
  type EgressOutcome,
  type EgressPolicyName,
  type EgressTake,
  isWireGuardKey,
  MOST_SLOTS,
  type OwnedSlot,
  type TunnelEnd,
} from './node-egress.ts';

/** The JSON of an entry. */
export function toWrittenEntry<P extends EgressPart>(part: P, key: string, value: EgressValues[P]): unknown {
  return CODECS[part].write(value, key);
}

/** Whether two values of an entry have the same JSON. */
export function isSameEntry<P extends EgressPart>(part: P, a: EgressValues[P], b: EgressValues[P]): boolean {
  if (part !== 'arrivals') return isDeepStrictEqual(a, b);
  const [one, other] = [a, b] as EgressArrival[];
  if (one?.node !== other?.node || one?.class !== other?.class) return false;
  return one?.class !== undefined || isDeepStrictEqual(one?.takes, other?.takes);
}

/**
 * Throws if the key or the value is not one that this version knows. The takes of an arrival with a
 * class are those of `served`, and not filled in.
 */
export function readEgressEntry<P extends EgressPart>(
  part: P,
  key: string,
  written: unknown,
): EgressValues[P] {
  const { key: isKey, read } = CODECS[part];
  if (!isKey(key)) throw new Error(`egress: ${JSON.stringify(key)} is no key of ${part}`);
  try {
    return read(written, key);
  } catch (error) {
    if (!(error instanceof InvalidError)) throw error;
    const { message } = error;
    throw new Error(`egress: ${part} ${key}: ${message}; is the controller newer than this agent?`);
  }
}

interface Codec<T, W> {
  readonly key: (text: string) => boolean;
  write(value: T, key: string): W;
  /** Throws InvalidError. */
  read(written: unknown, key: string): T;
}

/** @param read gets values of the shape */
function codec<T, W>({
  key,
  shape,
  write,
  read,
}: Omit<Codec<T, W>, 'read'> & {
  readonly shape: Shape<W>;
  read(written: W, key: string): T;
}): Codec<T, W> {
  return { key, write, read: (written, of) => read(checked(shape, written), of) };
}

const isText = (one: string): boolean => one !== '';
const isAddress = (one: string): boolean => parseAddress(one) !== null;
const isNumber = (one: string): boolean => /^[1-9]\d?$/.test(one) && Number(one) <= MOST_SLOTS;

const TEXT = text();
const ID = where(TEXT, 'an id', (one) => /^./.test(one));
const NUMBER = integer(1, MOST_SLOTS);
const ADDRESS = where(TEXT, 'an IP address', isAddress);
const IPV4 = where(TEXT, 'an IPv4 address', (one) => familyOf(one) === 4);
const IPV6 = where(TEXT, 'an IPv6 address', (one) => familyOf(one) === 6);
const MAC = where(TEXT, 'a MAC', (one) => /^([0-9a-f]{2}:){5}[0-9a-f]{2}$/.test(one));
const KEY = where(TEXT, "a WireGuard key, or ''", (one) => one === '' || isWireGuardKey(one));
const CIDR = where(TEXT, 'a CIDR', (one) => parseCidr(one) !== null);

const RANGES = list(closed({ range: TEXT, outcome: ID }));
type WrittenRanges = Of<typeof RANGES>;
const TAKES = list(closed({ range: TEXT, take: NUMBER }));
type WrittenTakes = Of<typeof TAKES>;
const POLICY: Shape<EgressPolicyName> = closed({
  // Controllers and states before the removal of egressgateway.spidernet.io have that group, too.
  apiGroup: where(TEXT, 'an API group', (one) => /^[a-z0-9.-]{1,253}$/.test(one)),
  kind: oneOf('EgressPolicy', 'ClusterEgressPolicy'),
  namespace: TEXT,
  name: ID,
});
const ACTION: Shape<EgressOutcome['action']> = either(
  'an action',
  closed({ kind: oneOf('pass') }),
  closed({ kind: oneOf('direct') }),
  closed(
    { kind: oneOf('slots'), slots: list(NUMBER) },
    { reserve: list(NUMBER), otherwise: oneOf('Direct') },
  ),
  closed({ kind: oneOf('take'), take: NUMBER }),
  closed({ kind: oneOf('drop'), reason: oneOf(...EGRESS_DROP_REASONS, 'policy') }),
);
const PROBE = closed(
  { address: TEXT, seconds: integer(1), failures: integer(1) },
  { port: integer(1, 65_535) },
);
const END = { address: ADDRESS, mac: MAC };
const MORE_OF_END = { key: KEY, networks: list(CIDR) };

/** A tunnel's end that was received. Throws InvalidError. */
export function readEnd(value: unknown): TunnelEnd {
  return decode(object({ node: TEXT, ...END }, MORE_OF_END), value, 'egress: an end of the tunnel');
}

/** The id of a class; '': none. */
const classCodec = (key: (text: string) => boolean): Codec<string | null, string> =>
  codec({ key, shape: TEXT, write: (id) => id ?? '', read: (id) => (id === '' ? null : id) });

const CODECS: { readonly [P in EgressPart]: Codec<EgressValues[P], unknown> } = {
  sources: classCodec(isAddress),
  pods: classCodec(isText),
  subnets: codec({
    key: isText,
    shape: ID,
    write: (id: string) => id,
    read(written, range) {
      readRange(range);
      return written;
    },
  }),
  classes: codec({
    key: isText,
    shape: closed({ ipv4: RANGES, ipv6: RANGES }),
    write: ({ ipv4, ipv6 }: EgressClass) => ({
      ipv4: writeDestinations(4, ipv4),
      ipv6: writeDestinations(6, ipv6),
    }),
    read: ({ ipv4, ipv6 }, id) => ({
      id,
      ipv4: readDestinations(4, ipv4),
      ipv6: readDestinations(6, ipv6),
    }),
  }),
  outcomes: codec({
    key: isText,
    shape: closed(
      { audited: list(POLICY), action: ACTION },
      { policy: POLICY, established: oneOf('Recheck') },
    ),
    write: ({ policy, audited, established, action }: EgressOutcome) => ({
      ...(policy === null ? {} : { policy: decode(POLICY, policy) }),
      audited: audited.map((one) => decode(POLICY, one)),
      ...present({ established }),
      action: decode(ACTION, action),
    }),
    read: ({ policy = null, ...written }, id) => ({ id, policy, ...written }),
  }),
  slots: codec({
    key: isNumber,
    shape: closed({ node: ID, take: integer(0, MOST_SLOTS) }, { floating: ID }),
    write: (slot: EgressValues['slots']) => slot,
    read: (written) => written,
  }),
  peers: codec({
    key: isText,
    shape: closed(END, MORE_OF_END),
    write: ({ address, mac, key, networks }: TunnelEnd) => ({ address, mac, ...present({ key, networks }) }),
    read: (written, node) => ({ node, ...written }),
  }),
  arrivals: codec({
    key: isAddress,
    shape: either(
      'node, and class or takes',
      closed({ node: ID, class: ID }),
      closed({ node: ID, takes: TAKES }),
    ),
    write: ({ node, takes, class: id }: EgressArrival, address) =>
      id === undefined ? { node, takes: writeTakes(familyOf(address) ?? 4, takes) } : { node, class: id },
    read(written, address) {
      if ('class' in written) return { ...written, takes: [] };
      return { node: written.node, takes: readTakes(familyOf(address) ?? 4, written.takes) };
    },
  }),
  served: codec({
    key: isText,
    shape: closed({ nodes: list(ID), ipv4: TAKES, ipv6: TAKES }),
    write: ({ nodes, ipv4, ipv6 }: EgressValues['served']) => ({
      nodes,
      ipv4: writeTakes(4, ipv4),
      ipv6: writeTakes(6, ipv6),
    }),
    read: ({ nodes, ipv4, ipv6 }) => ({ nodes, ipv4: readTakes(4, ipv4), ipv6: readTakes(6, ipv6) }),
  }),
  takes: codec({
    key: isNumber,
    shape: either(
      'a take',
      closed({ kind: oneOf('floating') }, { ipv4: list(IPV4), ipv6: list(IPV6) }),
      closed({ kind: oneOf('node') }, { interface: ID }),
    ),
    write(take: EgressTake) {
      if (take.kind === 'floating') return { kind: take.kind, ipv4: take.ipv4, ipv6: take.ipv6 };
      return { kind: take.kind, ...(take.interface === null ? {} : { interface: take.interface }) };
    },
    read(written): EgressTake {
      if (written.kind === 'node') return { kind: written.kind, interface: written.interface ?? null };
      const { kind, ipv4 = [], ipv6 = [] } = written;
      return { kind, ipv4, ipv6 };
    },
  }),
  owned: codec({
    key: (text) => /^\S+ \S+$/.test(text),
    shape: closed({
      epoch: integer(0),
      addresses: list(ADDRESS),
      announce: oneOf('L2', 'None'),
      leaseMilliseconds: integer(1),
    }),
    write: ({ epoch, addresses, announce, leaseMilliseconds }: OwnedSlot) => {
      return { epoch, addresses, announce, leaseMilliseconds };
    },
    read(written, key) {
      const [slot = '', gateway = ''] = key.split(' ');
      return { gateway, slot, ...written };
    },
  }),
  candidacies: codec({
    key: isText,
    shape: closed({
      source: oneOf('Floating', 'Node'),
      heartbeatMilliseconds: integer(1),
      probes: list(PROBE),
    }),
    write: ({ source, heartbeatMilliseconds, probes }: Candidacy) => ({
      source,
      heartbeatMilliseconds,
      probes,
    }),
    read: (written, gateway) => ({ gateway, ...written }),
  }),
};

function familyOf(text: string): Family | null {
  return parseAddress(text)?.family ?? null;
}

/** Reads each range. Throws unless they are of the family, sorted and disjoint. */
function readRanges<W extends { readonly range: string }, T>(
  family: Family,
  written: readonly W[],
  toValue: (range: Interval, of: W) => T,
): T[] {
  let end = -1n;
  return written.map((one) => {
    const { family: found, range } = readRange(one.range);
    if (found !== family || range.first <= end)
      throw new Error(`egress: the range ${one.range} is out of place`);
    end = range.last;
    return toValue(range, one);
  });
}

function writeTakes(family: Family, takes: EgressArrival['takes']): WrittenTakes {
  return takes.map(({ range, take }) => ({ range: formatRange(family, range), take }));
}

function readTakes(family: Family, written: WrittenTakes): EgressArrival['takes'] {
  return readRanges(family, written, (range, { take }) => ({ range, take }));
}

function writeDestinations(family: Family, ranges: readonly DestinationRange[]): WrittenRanges {
  return ranges.map(({ range, outcome }) => ({ range: formatRange(family, range), outcome }));
}

function readDestinations(family: Family, written: WrittenRanges): DestinationRange[] {
  return readRanges(family, written, (range, { outcome }) => ({ range, outcome }));
}
