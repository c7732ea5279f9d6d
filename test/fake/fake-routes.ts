/**
 * The network configuration of one network namespace, as the kernel keeps it. Strict: an object
 * that is there is not added, one that is not there is not deleted, and nothing is made on a link,
 * by a next hop or of members that are not there. What goes with a link or a next hop goes.
 */

import { isDeepStrictEqual } from 'node:util';
import {
  NftError,
  type ReadLink,
  type ReadObject,
  type RouteChange,
  type RouteLink,
  type RouteObject,
  type WireGuardChange,
  type WireGuardDevice,
} from 'nftables-napi';
import type { RoutePort } from '../../agent/egress/apply/netstate-reconciler.ts';
import type { WireGuardPort } from '../../agent/egress/apply/wireguard.ts';

/** RT_TABLE_LOCAL of linux/rtnetlink.h. */
const LOCAL_TABLE = 255;
/** RTN_THROW. */
const THROW = 9;

export class FakeRoutes implements RoutePort {
  readonly objects: RouteObject[] = [];
  /** Each exchange, as `operation kind`. */
  readonly exchanges: string[][] = [];
  readings = 0;
  /** The error of changes of this kind. */
  refusal: {
    readonly kind: RouteObject['kind'];
    readonly code: string;
    readonly text: string;
    /** Default: all of this kind. */
    readonly is?: (change: RouteChange) => boolean;
  } | null = null;
  /** Whether addresses keep their IFA_PROTO: not before Linux 5.18. */
  keepsProtocols = true;
  /** So many looks at the table local do not find IPv6 addresses yet. */
  looksBeforeLocal = 0;
  #lastIndex = 1;

  async links() {
    this.readings++;
    return this.objects.flatMap((it) => (it.kind === 'link' ? [toReadLink(it.link)] : []));
  }

  async addresses() {
    const all = this.objects.flatMap((it) => (it.kind === 'address' ? [it.address] : []));
    return this.keepsProtocols ? all : all.map((it) => ({ ...it, protocol: 0 }));
  }

  async neighbours(link: number) {
    return this.#neighbours(link, 'neighbour');
  }

  async fdb(link: number) {
    return this.#neighbours(link, 'fdb');
  }

  async nexthops() {
    return this.objects.flatMap((it) => (it.kind === 'nexthop' ? [it.nexthop] : []));
  }

  async routes({ family, table, protocol }: Parameters<RoutePort['routes']>[0]) {
    if (table === LOCAL_TABLE) return this.#local(family);
    return this.objects.flatMap((it) =>
      it.kind === 'route' &&
      it.route.family === family &&
      (table === undefined || it.route.table === table) &&
      (protocol === undefined || it.route.protocol === protocol)
        ? [it.route]
        : [],
    );
  }

  async rules() {
    return this.objects.flatMap((it) => (it.kind === 'rule' ? [it.rule] : []));
  }

  async change(changes: readonly RouteChange[], what: (index: number) => string = () => 'change') {
    this.exchanges.push(changes.map(({ operation, kind }) => `${operation} ${kind}`));
    return changes.map((change, i) => {
      const [code, text] = this.#refusal(change) ?? this.#apply(change) ?? [];
      return code === undefined ? null : toError(code, `${what(i)}: ${text ?? code}`);
    });
  }

  /** Puts an object there, as another program would. */
  put(object: RouteObject): void {
    this.objects.push(object);
  }

  remove(is: (object: RouteObject) => boolean): void {
    for (const object of this.objects.filter(is)) this.#drop(object);
  }

  /** The kernel's own routes of its addresses. */
  #local(family: 4 | 6) {
    if (family === 6 && this.looksBeforeLocal-- > 0) return [];
    const rest = { table: LOCAL_TABLE, protocol: 2, nexthop: 0, metric: 0, type: 2 };
    return this.objects.flatMap((it) =>
      it.kind === 'address' && it.address.address.length === (family === 4 ? 4 : 16)
        ? [{ ...rest, family, destination: it.address.address, prefixLength: family === 4 ? 32 : 128 }]
        : [],
    );
  }

  #neighbours(link: number, kind: 'neighbour' | 'fdb') {
    return this.objects.flatMap((it) =>
      it.kind === 'neighbour' && it.neighbour.link === link && it.neighbour.kind === kind
        ? [it.neighbour]
        : [],
    );
  }

  #refusal(change: RouteChange): [code: string, text: string] | null {
    if (this.refusal?.kind !== change.kind) return null;
    const { code, text, is } = this.refusal;
    if (is !== undefined && !is(change)) return null;
    return [code, text];
  }

  #apply({ operation, ...object }: RouteChange): [code: string] | null {
    const found = this.objects.find((it) => isDeepStrictEqual(identity(it), identity(object)));
    if (operation === 'delete') {
      if (found === undefined) return ['ENOENT'];
      this.#drop(found);
      return null;
    }
    if (operation === 'add' && found !== undefined) return ['EEXIST'];
    if (!this.#hasWhatItNeeds(object)) return ['ENODEV'];
    if (object.kind !== 'link') {
      if (found !== undefined) this.objects.splice(this.objects.indexOf(found), 1);
      this.objects.push(object);
      return null;
    }
    const before = found?.kind === 'link' ? found.link : null;
    if (before === null && operation === 'replace') return ['ENODEV'];
    const { link } = object;
    const index = before?.index ?? ++this.#lastIndex;
    const mac = link.mac.length > 0 ? link.mac : (before?.mac ?? link.mac);
    if (found !== undefined) this.objects.splice(this.objects.indexOf(found), 1);
    this.objects.push({ kind: 'link', link: { ...link, index, mac, vxlan: before?.vxlan ?? link.vxlan } });
    return null;
  }

  #hasWhatItNeeds(object: RouteObject): boolean {
    const hasLink = (index: number) =>
      this.objects.some((it) => it.kind === 'link' && it.link.index === index);
    const hasNexthop = (id: number) =>
      this.objects.some((it) => it.kind === 'nexthop' && it.nexthop.id === id);
    if (object.kind === 'address') return hasLink(object.address.link);
    if (object.kind === 'neighbour') return hasLink(object.neighbour.link);
    if (object.kind === 'route') return object.route.type === THROW || hasNexthop(object.route.nexthop);
    if (object.kind !== 'nexthop') return true;
    const { link, group } = object.nexthop;
    return group.length > 0 ? group.every(({ id }) => hasNexthop(id)) : hasLink(link);
  }

  #drop(object: RouteObject): void {
    const at = this.objects.indexOf(object);
    if (at < 0) return;
    this.objects.splice(at, 1);
    if (object.kind === 'link') {
      const { index } = object.link;
      this.remove(
        (it) =>
          (it.kind === 'address' && it.address.link === index) ||
          (it.kind === 'neighbour' && it.neighbour.link === index) ||
          (it.kind === 'nexthop' && it.nexthop.link === index),
      );
    }
    if (object.kind !== 'nexthop') return;
    const { id } = object.nexthop;
    this.remove(
      (it) =>
        (it.kind === 'route' && it.route.nexthop === id) ||
        (it.kind === 'nexthop' && it.nexthop.group.some((member) => member.id === id)),
    );
  }
}

/** As the kernel tells of it. */
export function toRead(object: RouteObject): ReadObject {
  return object.kind === 'link' ? { kind: 'link', link: toReadLink(object.link) } : object;
}

function toReadLink(link: RouteLink): ReadLink {
  const rest = { master: null, peer: null, peerNamespace: null, hasQueue: false };
  const port = link.vxlan === null ? {} : { tunnelPort: link.vxlan.port };
  return { ...link, ...rest, ...port, isLoopback: link.name === 'lo' };
}

/** What no two objects have in common. */
function identity(object: RouteObject): unknown {
  switch (object.kind) {
    case 'link':
      return object.link.name;
    case 'address': {
      const { link, address, prefixLength } = object.address;
      return [link, address, prefixLength];
    }
    case 'neighbour': {
      const { kind, link, mac, address } = object.neighbour;
      return [kind, link, kind === 'fdb' ? mac : address];
    }
    case 'nexthop':
      return object.nexthop.id;
    case 'route': {
      const { family, table, destination, prefixLength, metric } = object.route;
      return [family, table, destination, prefixLength, metric];
    }
    case 'rule':
      return object.rule;
  }
}

function toError(code: string, message: string): NftError {
  return new NftError([{ code, message, operation: null }]);
}

const NEW: WireGuardDevice = { publicKey: new Uint8Array(0), port: 0, mark: 0, peers: [] };

/** WireGuard devices as the kernel has them, by the link's index. */
export class FakeWireGuard implements WireGuardPort {
  readonly devices = new Map<number, WireGuardDevice>();
  /** Changes that were made. */
  readonly changes: WireGuardChange[] = [];
  #number: number;

  /** @param number of the key */
  constructor(number = 1) {
    this.#number = number;
  }

  async keys() {
    return { privateKey: keyOf(100 + this.#number), publicKey: keyOf(this.#number) };
  }

  /** The key is another one from now on. */
  becomes(number: number): void {
    this.#number = number;
  }

  async device(index: number): Promise<WireGuardDevice> {
    return this.devices.get(index) ?? NEW;
  }

  async change(index: number, change: WireGuardChange): Promise<void> {
    this.changes.push(change);
    const before = await this.device(index);
    const { publicKey } = await this.keys();
    const { port, mark } = change.device ?? before;
    const keptPeers = change.device?.replacePeers === true ? [] : before.peers;
    const gone = [...change.removed, ...change.peers.map((peer) => peer.publicKey)];
    const isKept = (key: Uint8Array): boolean => !gone.some((one) => Buffer.compare(one, key) === 0);
    this.devices.set(index, {
      publicKey: change.device === undefined ? before.publicKey : publicKey,
      port,
      mark,
      peers: [...keptPeers.filter((peer) => isKept(peer.publicKey)), ...change.peers],
    });
  }
}

/** 32 bytes. */
function keyOf(number: number): Uint8Array {
  return new Uint8Array(32).fill(number);
}

/** As wg(8) writes it. */
export function keyText(number: number): string {
  return Buffer.from(keyOf(number)).toString('base64');
}
