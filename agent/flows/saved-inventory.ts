import { isIP } from 'node:net';
import { COUNT } from '../../apis/schema/shape.ts';
import { parseCidr } from '../../lib/net/address.ts';
import { BOUNDS, type Bounds, FlowInventory } from './flow-inventory.ts';
import { type FlowKind, foldedPeer, type KindFold, kindKey, type SeenFlow } from './flow-kind.ts';

/** The file in the state directory; it names clients, so only root reads it. */
export const FLOWS_FILE = 'flows.jsonl';

const FORMAT = 1;

interface SavedInventory {
  /** Whose flows they are. */
  readonly node: string;
  readonly inventory: FlowInventory;
}

/** A line of the numbers, then one for each kind. */
export function inventoryText(inventory: FlowInventory, node: string): string {
  const { since, missed } = inventory;
  const lines = inventory
    .kinds()
    .map(({ fold, last, firstSeen, lastSeen, connections }) =>
      JSON.stringify({ ...last, fold: [fold.peers, fold.ports], firstSeen, lastSeen, connections }),
    );
  return [JSON.stringify({ format: FORMAT, node, since, missed }), ...lines]
    .map((line) => `${line}\n`)
    .join('');
}

/**
 * Reads the output of `inventoryText`, without entries that are too old at `now` (milliseconds
 * since 1970); no time is after that. Throws a TypeError that says which line is wrong.
 */
export function parseInventory(text: string, now: number, bounds: Bounds = BOUNDS): SavedInventory {
  const [head = '', ...lines] = text.split('\n').slice(0, -1);
  const { format, node, since, missed } = parseLine(head, 1);
  if (format !== FORMAT) throw new TypeError(`its format is ${JSON.stringify(format)}, not ${FORMAT}`);
  if (typeof node !== 'string') throw new TypeError('line 1 names no node');
  const inventory = new FlowInventory(COUNT.accepts(since) ? Math.min(since, now) : now, bounds);
  for (const name of ['leftOut', 'overruns', 'busySeconds'] as const) {
    const count = Object(missed)[name];
    if (COUNT.accepts(count)) inventory.missed[name] = count;
  }
  for (const [i, line] of lines.entries()) {
    const kind = toKind(parseLine(line, i + 2), now);
    if (kind === null) throw new TypeError(`line ${i + 2} is not a kind of flows`);
    inventory.restore(kind);
  }
  inventory.expire(now);
  return { node, inventory };
}

type Fields = Readonly<Record<string, unknown>>;

function parseLine(line: string, number: number): Fields {
  try {
    return Object(JSON.parse(line));
  } catch (error) {
    throw new TypeError(`line ${number} is not JSON`, { cause: error });
  }
}

function toKind(fields: Fields, now: number): FlowKind | null {
  const { firstSeen, lastSeen, connections } = fields;
  const last = toSeenFlow(fields);
  const fold = toFold(fields.fold);
  if (last === null || fold === null) return null;
  if (!COUNT.accepts(firstSeen) || !COUNT.accepts(lastSeen) || !COUNT.accepts(connections)) return null;
  const peer = foldedPeer(last.peer, fold.peers);
  const times = { firstSeen: Math.min(firstSeen, lastSeen, now), lastSeen: Math.min(lastSeen, now) };
  return {
    key: kindKey(last, fold),
    fold,
    peer,
    last,
    ...times,
    connections,
    live: null,
    isGone: false,
  };
}

function toFold(value: unknown): KindFold | null {
  const [peers, ports]: readonly unknown[] = Array.isArray(value) ? value : [];
  if (peers !== 'address' && peers !== 'network' && peers !== 'all') return null;
  return ports === 'own' || ports === 'all' ? { peers, ports } : null;
}

function toSeenFlow(fields: Fields): SeenFlow | null {
  const { direction, traffic, protocol, peer, port, type, code, group, verdict } = fields;
  const { local, srcPort, originalDst, originalPort } = fields;
  if (direction !== 'ingress' && direction !== 'egress') return null;
  if (traffic !== 'Host' && traffic !== 'NodePort') return null;
  if (verdict !== 'Allow' && verdict !== 'Drop' && verdict !== 'Reject') return null;
  if (!isUpTo(255, protocol) || !isUpTo(0xffff_ffff, group)) return null;
  if (!isAddress(peer) || !isAddress(local)) return null;
  if (originalDst !== null && !isAddress(originalDst)) return null;
  const [ports, bytes] = [
    [port, srcPort, originalPort],
    [type, code],
  ];
  if (!ports.every((one) => one === null || isUpTo(65_535, one))) return null;
  if (!bytes.every((one) => one === null || isUpTo(255, one))) return null;
  const numbers = { port, type, code, srcPort, originalPort } as Pick<
    SeenFlow,
    'port' | 'type' | 'code' | 'srcPort' | 'originalPort'
  >;
  return { direction, traffic, protocol, peer, group, verdict, local, originalDst, ...numbers };
}

function isUpTo(most: number, value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= most;
}

function isAddress(value: unknown): value is string {
  return (
    typeof value === 'string' && isIP(value) > 0 && !value.includes('%') && parseCidr(`${value}/0`) !== null
  );
}
