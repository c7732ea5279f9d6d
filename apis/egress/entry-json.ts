import { isDeepStrictEqual } from 'node:util';
import { type Family, parseAddress, parseCidr } from '../../lib/net/address.ts';
import type { Interval } from '../../lib/net/interval.ts';
import { present } from '../../lib/sharing/present.ts';
import { checkSchema, type JsonSchema } from '../schema/json-schema.ts';
import type { EgressPart, EgressValues } from './entries.ts';
import {
  type Candidacy,
  type DestinationRange,
  EGRESS_DROP_REASONS,
  type EgressArrival,
  type EgressOutcome,
  type EgressPolicyName,
  type EgressTake,
  isWireGuardKey,
  MOST_SLOTS,
  type OwnedSlot,
  type TunnelEnd,
} from './node-egress.ts';
import { formatRange, readRange } from './range-text.ts';

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
export function readEntry<P extends EgressPart>(part: P, key: string, written: unknown): EgressValues[P] {
  const { schema, key: isKey, read } = CODECS[part];
  if (!isKey(key)) throw new Error(`egress: ${JSON.stringify(key)} is no key of ${part}`);
  const [problem] = checkSchema(schema, written);
  if (problem !== undefined) {
    const path = [part, key, ...problem.path].join('.');
    throw new Error(
      `egress: ${path} is not valid (${problem.keyword}); is the controller newer than this agent?`,
    );
  }
  return read(written, key);
}

interface Codec<T> {
  readonly key: (text: string) => boolean;
  readonly schema: JsonSchema;
  write(value: T, key: string): unknown;
  /** `written` conforms to the schema. */
  read(written: unknown, key: string): T;
}

const isText = (text: string): boolean => text !== '';
const isAddress = (text: string): boolean => parseAddress(text) !== null;
const isNumber = (text: string): boolean => /^[1-9]\d?$/.test(text) && Number(text) <= MOST_SLOTS;

const TEXT: JsonSchema = { type: 'string' };
const ID: JsonSchema = { type: 'string', pattern: '^.' };
const NUMBER: JsonSchema = { type: 'integer', minimum: 1, maximum: MOST_SLOTS };
const oneOf = (...words: string[]): JsonSchema => ({ type: 'string', enum: words });
const list = (items: JsonSchema): JsonSchema => ({ type: 'array', items });
const object = (properties: Record<string, JsonSchema>, ...optional: string[]): JsonSchema => {
  const required = Object.keys(properties).filter((name) => !optional.includes(name));
  return { type: 'object', properties, required };
};

const RANGES = list(object({ range: TEXT, outcome: ID }));
const TAKES = list(object({ range: TEXT, take: NUMBER }));
const POLICY = object({
  // Controllers and states before the removal of egressgateway.spidernet.io have that group, too.
  apiGroup: { type: 'string', pattern: '^[a-z0-9.-]{1,253}$' },
  kind: oneOf('EgressPolicy', 'ClusterEgressPolicy'),
  namespace: TEXT,
  name: ID,
});
const ACTION = object(
  {
    kind: oneOf('pass', 'direct', 'slots', 'take', 'drop'),
    slots: list(NUMBER),
    take: NUMBER,
    reason: oneOf(...EGRESS_DROP_REASONS, 'policy'),
    reserve: list(NUMBER),
    otherwise: oneOf('Direct'),
  },
  'slots',
  'take',
  'reason',
  'reserve',
  'otherwise',
);
/** The field that an action of each kind has besides. */
const ACTION_FIELDS: { readonly [kind in EgressOutcome['action']['kind']]: string | null } = {
  pass: null,
  direct: null,
  slots: 'slots',
  take: 'take',
  drop: 'reason',
};
/** Those that only an action by slots may have. */
const SLOTS_FIELDS: readonly string[] = ['reserve', 'otherwise'];
const PROBE = object(
  {
    address: TEXT,
    port: { type: 'integer', minimum: 1, maximum: 65535 },
    seconds: { type: 'integer', minimum: 1 },
    failures: { type: 'integer', minimum: 1 },
  },
  'port',
);
const MAC = '^([0-9a-f]{2}:){5}[0-9a-f]{2}$';

const CODECS: { readonly [P in EgressPart]: Codec<EgressValues[P]> } = {
  sources: {
    key: isAddress,
    schema: TEXT,
    write: (id) => id ?? '',
    read: (id) => (id === '' ? null : (id as string)),
  },
  pods: {
    key: isText,
    schema: TEXT,
    write: (id) => id ?? '',
    read: (id) => (id === '' ? null : (id as string)),
  },
  subnets: {
    key: isText,
    schema: ID,
    write: (id) => id,
    read(written, range) {
      readRange(range);
      return written as string;
    },
  },
  classes: {
    key: isText,
    schema: object({ ipv4: RANGES, ipv6: RANGES }),
    write: ({ ipv4, ipv6 }) => ({ ipv4: writeDestinations(4, ipv4), ipv6: writeDestinations(6, ipv6) }),
    read(written, id) {
      const { ipv4, ipv6 } = written as { [family in 'ipv4' | 'ipv6']: WrittenDestination[] };
      return { id, ipv4: readDestinations(4, ipv4), ipv6: readDestinations(6, ipv6) };
    },
  },
  outcomes: {
    key: isText,
    schema: object(
      { policy: POLICY, audited: list(POLICY), established: { enum: ['Recheck'] }, action: ACTION },
      ...['policy', 'established'],
    ),
    write: ({ policy, audited, established, action }) => ({
      ...(policy === null ? {} : { policy: writePolicy(policy) }),
      audited: audited.map(writePolicy),
      ...present({ established }),
      action: writeAction(action),
    }),
    read(written, id) {
      const { policy = null, audited, established, action } = written as Omit<EgressOutcome, 'id'>;
      const more = action.kind === 'slots' ? SLOTS_FIELDS : [];
      const fields = Object.keys(action).filter((name) => name !== 'kind' && !more.includes(name));
      const wanted = ACTION_FIELDS[action.kind];
      if (fields.join() !== (wanted ?? '')) throw new Error(`egress: outcome ${id} has an odd action`);
      return { id, policy, audited, ...present({ established }), action };
    },
  },
  slots: {
    key: isNumber,
    schema: object(
      { node: ID, take: { type: 'integer', minimum: 0, maximum: MOST_SLOTS }, floating: ID },
      'floating',
    ),
    write: (slot) => slot,
    read: (written) => written as EgressValues['slots'],
  },
  peers: {
    key: isText,
    schema: object(
      { address: TEXT, mac: { type: 'string', pattern: MAC }, key: TEXT, networks: list(TEXT) },
      'key',
      'networks',
    ),
    write: ({ address, mac, key, networks }) => ({
      address,
      mac,
      ...present({ key, networks }),
    }),
    read: (written, node) => readEnd({ ...(written as Omit<TunnelEnd, 'node'>), node }),
  },
  arrivals: {
    key: isAddress,
    schema: object({ node: ID, class: ID, takes: TAKES }, 'class', 'takes'),
    write: ({ node, takes, class: id }, address) =>
      id === undefined ? { node, takes: writeTakes(familyOf(address) ?? 4, takes) } : { node, class: id },
    read(written, address) {
      const { node, class: id, takes } = written as WrittenArrival;
      if ((id === undefined) === (takes === undefined))
        throw new Error(`egress: arrival ${address} needs a class or takes`);
      if (id !== undefined) return { node, class: id, takes: [] };
      return { node, takes: readTakes(familyOf(address) ?? 4, takes ?? []) };
    },
  },
  served: {
    key: isText,
    schema: object({ nodes: list(ID), ipv4: TAKES, ipv6: TAKES }),
    write: ({ nodes, ipv4, ipv6 }) => ({ nodes, ipv4: writeTakes(4, ipv4), ipv6: writeTakes(6, ipv6) }),
    read(written) {
      const { nodes, ipv4, ipv6 } = written as { nodes: string[]; ipv4: WrittenTakes; ipv6: WrittenTakes };
      return { nodes, ipv4: readTakes(4, ipv4), ipv6: readTakes(6, ipv6) };
    },
  },
  takes: {
    key: isNumber,
    schema: object(
      { kind: oneOf('floating', 'node'), ipv4: list(TEXT), ipv6: list(TEXT), interface: ID },
      'ipv4',
      'ipv6',
      'interface',
    ),
    write(take) {
      if (take.kind === 'floating') return { kind: take.kind, ipv4: take.ipv4, ipv6: take.ipv6 };
      return { kind: take.kind, ...(take.interface === null ? {} : { interface: take.interface }) };
    },
    read(written, number) {
      const { kind, ipv4 = [], ipv6 = [], interface: name = null } = written as WrittenTake;
      if (kind === 'node') return { kind, interface: name };
      const isWhole =
        ipv4.every((text) => familyOf(text) === 4) && ipv6.every((text) => familyOf(text) === 6);
      if (!isWhole) throw new Error(`egress: take ${number} has invalid addresses`);
      return { kind, ipv4, ipv6 };
    },
  },
  owned: {
    key: (text) => /^\S+ \S+$/.test(text),
    schema: object({
      epoch: { type: 'integer', minimum: 0 },
      addresses: list(TEXT),
      announce: oneOf('L2', 'None'),
      leaseMilliseconds: { type: 'integer', minimum: 1 },
    }),
    write: ({ epoch, addresses, announce, leaseMilliseconds }) => {
      return { epoch, addresses, announce, leaseMilliseconds };
    },
    read(written, key) {
      const [slot = '', gateway = ''] = key.split(' ');
      const fields = written as Omit<OwnedSlot, 'slot' | 'gateway'>;
      if (!fields.addresses.every(isAddress)) throw new Error(`egress: slot ${key} has invalid addresses`);
      return { gateway, slot, ...fields };
    },
  },
  candidacies: {
    key: isText,
    schema: object({
      source: oneOf('Floating', 'Node'),
      heartbeatMilliseconds: { type: 'integer', minimum: 1 },
      probes: list(PROBE),
    }),
    write: ({ source, heartbeatMilliseconds, probes }) => ({ source, heartbeatMilliseconds, probes }),
    read: (written, gateway) => ({ gateway, ...(written as Omit<Candidacy, 'gateway'>) }),
  },
};

interface WrittenDestination {
  readonly range: string;
  readonly outcome: string;
}

interface WrittenArrival {
  readonly node: string;
  readonly class?: string;
  readonly takes?: WrittenTakes;
}

interface WrittenTake {
  readonly kind: EgressTake['kind'];
  readonly ipv4?: readonly string[];
  readonly ipv6?: readonly string[];
  readonly interface?: string;
}

/** A tunnel's end that was received. */
export function readEnd({ node, address, mac, key, networks }: TunnelEnd): TunnelEnd {
  const isValid =
    typeof node === 'string' &&
    isAddress(String(address)) &&
    new RegExp(MAC).test(mac) &&
    (key === undefined || key === '' || isWireGuardKey(key)) &&
    (networks ?? []).every((cidr) => parseCidr(cidr) !== null);
  if (!isValid) throw new Error('egress: an end of the tunnel is not valid');
  return {
    node,
    address,
    mac,
    ...present({ key, networks }),
  };
}

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

type WrittenTakes = readonly { readonly range: string; readonly take: number }[];

function writeTakes(family: Family, takes: EgressArrival['takes']): WrittenTakes {
  return takes.map(({ range, take }) => ({ range: formatRange(family, range), take }));
}

function readTakes(family: Family, written: WrittenTakes): EgressArrival['takes'] {
  return readRanges(family, written, (range, { take }) => ({ range, take }));
}

function writeDestinations(family: Family, ranges: readonly DestinationRange[]): WrittenDestination[] {
  return ranges.map(({ range, outcome }) => ({ range: formatRange(family, range), outcome }));
}

function readDestinations(family: Family, written: readonly WrittenDestination[]): DestinationRange[] {
  return readRanges(family, written, (range, { outcome }) => ({ range, outcome }));
}

function writePolicy({ apiGroup, kind, namespace, name }: EgressPolicyName): EgressPolicyName {
  return { apiGroup, kind, namespace, name };
}

function writeAction(action: EgressOutcome['action']): EgressOutcome['action'] {
  switch (action.kind) {
    case 'slots': {
      const { kind, slots, reserve, otherwise } = action;
      return {
        kind,
        slots,
        ...present({ reserve, otherwise }),
      };
    }
    case 'take':
      return { kind: action.kind, take: action.take };
    case 'drop':
      return { kind: action.kind, reason: action.reason };
    default:
      return { kind: action.kind };
  }
}
