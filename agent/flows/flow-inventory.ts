import { isIP } from 'node:net';
import type { FailsafeEntry } from '../../apis/config.ts';
import type { Missed } from '../../apis/node-flows.ts';
import { COUNT } from '../../apis/schema/shape.ts';
import { parseCidr } from '../../lib/net/address.ts';
import {
  EXACT,
  type FlowKind,
  foldedPeer,
  type KindFold,
  kindKey,
  kindServiceKey,
  peerKey,
  type SeenFlow,
} from './flow-kind.ts';

/** Bounds of an inventory. */
export const BOUNDS = {
  kinds: 10_000,
  /** Addresses of a service (direction, protocol, port, group), and further networks. */
  peers: 256,
  networks: 256,
  /** Ports of a peer (direction, protocol, group), or types and codes. */
  ports: 64,
  /** New kinds a minute, once half of `kinds` are known. */
  newcomers: 100,
  /** Milliseconds after which a kind that was not seen is forgotten. */
  age: 7 * 86_400_000,
} as const;
export type Bounds = { readonly [Name in keyof typeof BOUNDS]: number };

const MINUTE = 60_000;
/** Milliseconds: what was seen over such a time is left out only if all was. */
const LASTING = 12 * 3_600_000;

/** Without room for a new kind, the most exact of those that are there. */
const KNOWN_FOLDS: readonly KindFold[] = [
  { peers: 'network', ports: 'own' },
  { peers: 'all', ports: 'own' },
  { peers: 'address', ports: 'all' },
  { peers: 'network', ports: 'all' },
];
const EVERYTHING: KindFold = { peers: 'all', ports: 'all' };

/**
 * The kinds of flows that were seen, folded and bounded:
 * - A service with many peers has the networks of further ones, and then one kind for all others.
 * - A peer with many ports has one kind for all others.
 * - Once half of the room is used, few new kinds are added a minute; more become one kind for all
 *   peers and ports of their protocol.
 * - Beyond the bound, kinds that were seen longest ago are left out, and counted; but none
 *   that was seen over half a day while others are there. So a scan from ever new addresses pushes
 *   out nothing that is seen daily.
 *
 * Costs a look-up for each flow; O(n log n) for each hundredth of the bound that is left out.
 */
export class FlowInventory {
  readonly missed: Missed = { leftOut: 0, overruns: 0, busySeconds: 0 };
  /** Since when flows are seen, in milliseconds since 1970; those of long ago are forgotten. */
  readonly since: number;
  readonly #bounds: Bounds;
  readonly #kinds = new Map<string, FlowKind>();
  /** Kinds of a service, by their fold of peers. */
  readonly #ofService = new Map<string, Record<KindFold['peers'], number>>();
  /** Kinds of one address with ports of their own. */
  readonly #ofPeer = new Map<string, number>();
  #minute = 0;
  #newcomers = 0;

  constructor(since: number, bounds: Bounds = BOUNDS) {
    this.since = since;
    this.#bounds = bounds;
  }

  get size(): number {
    return this.#kinds.size;
  }

  /** Since when no kind is forgotten, in milliseconds since 1970. */
  windowStart(now: number): number {
    return Math.min(now, Math.max(this.since, now - this.#bounds.age));
  }

  kinds(): FlowKind[] {
    return [...this.#kinds.values()];
  }

  /** The kind of a flow, which is added if it is new. `now`: milliseconds since 1970. */
  kindOf(flow: SeenFlow, now: number): FlowKind {
    const exact = this.#kinds.get(kindKey(flow, EXACT));
    if (exact !== undefined) return exact;
    const fold = this.#foldFor(flow, now);
    return this.#kinds.get(kindKey(flow, fold)) ?? this.#add(flow, fold, now);
  }

  /** A kind was seen, with so many new connections. */
  seen(kind: FlowKind, flow: SeenFlow, { now, connections }: { now: number; connections: number }): void {
    kind.last = flow;
    kind.lastSeen = now;
    kind.connections += connections;
  }

  /** Puts back a kind that was saved. One that is there already stays. */
  restore(kind: FlowKind): void {
    if (!this.#kinds.has(kind.key) && this.#kinds.size < this.#bounds.kinds) this.#enter(kind);
  }

  /** Forgets what was not seen for the longest time. */
  expire(now: number): void {
    for (const kind of this.#kinds.values()) {
      if (kind.lastSeen < now - this.#bounds.age) this.#remove(kind);
    }
  }

  #foldFor(flow: SeenFlow, now: number): KindFold {
    const { kinds, newcomers, ports: mostPorts, peers: mostPeers, networks } = this.#bounds;
    const minute = Math.floor(now / MINUTE);
    if (minute !== this.#minute) this.#newcomers = 0;
    this.#minute = minute;
    if (this.#kinds.size >= kinds / 2 && this.#newcomers >= newcomers)
      return KNOWN_FOLDS.find((fold) => this.#kinds.has(kindKey(flow, fold))) ?? EVERYTHING;
    const ports = (this.#ofPeer.get(peerKey(flow)) ?? 0) < mostPorts ? 'own' : 'all';
    const of = this.#ofService.get(kindServiceKey(flow, ports));
    if (
      of === undefined ||
      of.address < mostPeers ||
      this.#kinds.has(kindKey(flow, { peers: 'address', ports }))
    )
      return { peers: 'address', ports };
    const isRoom = of.network < networks || this.#kinds.has(kindKey(flow, { peers: 'network', ports }));
    return { peers: isRoom ? 'network' : 'all', ports };
  }

  #add(flow: SeenFlow, fold: KindFold, now: number): FlowKind {
    const kind: FlowKind = {
      key: kindKey(flow, fold),
      fold,
      peer: foldedPeer(flow.peer, fold.peers),
      last: flow,
      firstSeen: now,
      lastSeen: now,
      connections: 0,
      live: null,
      isGone: false,
    };
    this.#newcomers++;
    this.#enter(kind);
    if (this.#kinds.size > this.#bounds.kinds) this.#leaveOut(kind);
    return kind;
  }

  #enter(kind: FlowKind): void {
    this.#kinds.set(kind.key, kind);
    this.#tally(kind, 1);
  }

  #remove(kind: FlowKind): void {
    this.#kinds.delete(kind.key);
    kind.isGone = true;
    this.#tally(kind, -1);
  }

  #tally({ last, fold }: FlowKind, change: 1 | -1): void {
    const service = kindServiceKey(last, fold.ports);
    const of = this.#ofService.get(service) ?? { address: 0, network: 0, all: 0 };
    of[fold.peers] += change;
    if (of.address + of.network + of.all > 0) this.#ofService.set(service, of);
    else this.#ofService.delete(service);
    if (fold.peers !== 'address' || fold.ports !== 'own') return;
    const peer = peerKey(last);
    const count = (this.#ofPeer.get(peer) ?? 0) + change;
    if (count > 0) this.#ofPeer.set(peer, count);
    else this.#ofPeer.delete(peer);
  }

  /** A hundredth at once or less, but never the newest. */
  #leaveOut(newest: FlowKind): void {
    const others = this.kinds().filter((kind) => kind !== newest);
    const passing = others.filter((kind) => !isLasting(kind));
    const surplus = (passing.length > 0 ? passing : others)
      .sort((a, b) => a.lastSeen - b.lastSeen)
      .slice(0, Math.ceil(this.#bounds.kinds / 100));
    for (const kind of surplus) this.#remove(kind);
    this.missed.leftOut += surplus.length;
  }
}

function isLasting({ firstSeen, lastSeen }: FlowKind): boolean {
  return lastSeen - firstSeen >= LASTING;
}

/** Where flows are known: in the agent, or in the file that it saves. */
export interface FlowSource {
  /**
   * The agent's additions to the failsafe list of egress (NodeState.controlPlane); absent: not
   * known.
   */
  readonly controlPlane?: readonly FailsafeEntry[];
  readonly inventory: FlowInventory;
  readonly node: string;
  /**
   * Reads the kernel's connections. When they were last read, in milliseconds since 1970; null:
   * they cannot be.
   */
  readonly read: () => Promise<number | null>;
  /** When that was last; null: never. */
  readonly lastRead: () => number | null;
}

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
