import { isDeepStrictEqual } from 'node:util';
import {
  NftError,
  type RouteChange,
  type RouteEvent,
  type RouteObject,
  type RouteSocket,
} from 'nftables-napi';
import { type Netstate, OWN_NETWORK } from '../../../apis/egress/netstate.ts';
import { FAMILIES } from '../../../lib/net/address.ts';
import { NO_NETSTATE } from '../render/netstate.ts';
import {
  Blocked,
  type KernelObjects,
  type NetOperation,
  networkDifference,
  toKernelRouteObject,
} from './difference.ts';
import { applySysctls, type SysctlPort } from './host-settings.ts';
import {
  foreignProblems,
  isOwnLinkName,
  type KernelObject,
  kernelRefusal,
  type LinkNames,
  type NetProblem,
  type NetstateResult,
  toKernelObject,
} from './kernel-object.ts';
import { netObjectKey, netObjects } from './net-object.ts';
import { WireGuardPeers, type WireGuardPort } from './wireguard.ts';

export interface ApplyOptions {
  /** False: nothing is removed yet. Default true. */
  readonly removals?: boolean;
}

/** Errors of a removal: the object is gone already, or its link is. */
const GONE: ReadonlySet<string> = new Set(['ENOENT', 'ESRCH', 'ENODEV', 'EADDRNOTAVAIL', 'ENXIO']);

/**
 * Makes the kernel's network configuration the wanted one. Remembers what the kernel has, so that a
 * change costs what is different; after a failure everything is read again. Calls must not overlap.
 */
export class NetstateReconciler {
  readonly #port: RoutePort;
  readonly #sysctls: SysctlPort;
  readonly #peers: WireGuardPeers;
  #wanted: Netstate = NO_NETSTATE;
  #options: ApplyOptions = {};
  /** The state that the kernel was last brought to completely. */
  #made: Netstate | null = null;
  /** Null: unknown. */
  #current: Map<string, KernelObject> | null = null;
  #names: LinkNames = new Map();

  constructor(port: RoutePort, sysctls: SysctlPort, wireguard: WireGuardPort) {
    this.#port = port;
    this.#sysctls = sysctls;
    this.#peers = new WireGuardPeers(wireguard);
  }

  /** Rejects if the kernel cannot be read or asked. */
  async apply(wanted: Netstate, options: ApplyOptions = {}): Promise<NetstateResult> {
    this.#wanted = wanted;
    this.#options = options;
    if (wanted === this.#made && this.#current !== null) return applySysctls(this.#sysctls, wanted.sysctls);
    this.#made = null;
    let isKnown = false;
    try {
      const result = await this.#apply(wanted, options);
      // Foreign objects may go without an event that this class is told of.
      isKnown = result.problems.length === 0;
      if (isKnown && options.removals !== false) this.#made = wanted;
      return result;
    } finally {
      if (!isKnown) this.#current = null;
    }
  }

  async #apply(wanted: Netstate, { removals = true }: ApplyOptions): Promise<NetstateResult> {
    if (this.#current === null) this.#store(await this.#read());
    const current: KernelObjects = this.#current ?? new Map();
    const { links, rest: all, foreign, blocked } = networkDifference(current, netObjects(wanted));
    const now = removals
      ? all
      : all.filter(({ operation, key }) => operation !== 'delete' || isRemade(key, all));
    const results: NetstateResult[] = [{ operations: [], problems: foreignProblems(foreign, blocked) }];
    results.push(await this.#exchange(links));
    if (links.length > 0) await this.#readLinks();
    const indexes = this.#indexes();
    // Which one the kernel refused is said, and not what needs it.
    const missing = wanted.links.map(({ name }) => name).filter((name) => !indexes.has(name));
    const sysctls = wanted.sysctls.filter(
      ({ path }) => !path.split('/').some((part) => missing.includes(part)),
    );
    results.push(await applySysctls(this.#sysctls, sysctls));
    results.push(await this.#peers.apply(wanted, (link) => indexes.get(link), removals));
    // A tunnel to addresses that no device of ours has would go by whatever route leads there.
    const carriers = carriersOf(wanted);
    const isCarrier = ({ key }: NetOperation): boolean => carriers.some((carrier) => carrier.key === key);
    results.push(await this.#exchange(possible(now.filter(isCarrier), missing)));
    const uncarried = carriers.filter(({ key }) => !this.#current?.get(key)?.isOurs).map(({ link }) => link);
    const rest = now.filter((it) => !isCarrier(it));
    results.push(await this.#exchange(possible(rest, [...missing, ...uncarried])));
    return {
      operations: results.flatMap(({ operations }) => operations),
      problems: results.flatMap(({ problems }) => problems),
    };
  }

  /**
   * Reads everything, and makes what is wanted of what it finds, with the options of the last
   * apply.
   */
  verify(): Promise<NetstateResult> {
    this.#current = null;
    return this.apply(this.#wanted, this.#options);
  }

  /** Whether an event only says what is known, or is about nothing of nodewall's. */
  isExpected(event: Extract<RouteEvent, { readonly object: unknown }>): boolean {
    const { object } = event;
    const it = toKernelObject(object, this.#names);
    if (it === null) return true;
    if (this.#current === null) return false;
    const known = this.#current.get(it.key);
    // The kernel's own neighbours are not ours, but ours may have become one.
    const isKernels = object.kind === 'neighbour' && !object.neighbour.isPermanent;
    if (event.event === 'removed' || isKernels) return known === undefined;
    return known?.text === it.text;
  }

  /** One exchange with the kernel. */
  async #exchange(operations: readonly NetOperation[]): Promise<NetstateResult> {
    if (operations.length === 0) return { operations: [], problems: [] };
    const indexes = this.#indexes();
    const changes = operations.map((it): RouteChange => {
      const { operation } = it;
      if (operation === 'delete') return { ...it.found.raw, operation };
      const raw = toKernelRouteObject(it.object, indexes);
      const isNew = operation === 'add';
      return { ...(isNew ? raw : withoutSameMac(raw, this.#current?.get(it.key)?.raw)), operation };
    });
    const texts = operations.map(operationText);
    const results = await this.#port.change(changes, (i) => texts[i] ?? '');
    const problems: NetProblem[] = [];
    const done = operations.filter((it, i) => {
      const error = results[i] ?? null;
      if (error === null || isAlreadySo(it, error)) return true;
      problems.push(kernelRefusal(it.operation === 'delete' ? null : it.object, error));
      return false;
    });
    for (const it of done) {
      if (it.operation === 'delete') this.#current?.delete(it.key);
      else this.#current?.set(it.key, toKnown(it, indexes));
    }
    return { operations: done.map(operationText), problems };
  }

  #indexes(): ReadonlyMap<string, number> {
    return new Map(Array.from(this.#names, ([index, name]) => [name, index]));
  }

  #read(): Promise<KernelNetwork> {
    return readKernel(this.#port, [...new Set(this.#wanted.routes.map(({ table }) => table))]);
  }

  #store({ objects, names }: KernelNetwork): void {
    this.#current = new Map(objects);
    this.#names = names;
  }

  /** The index of a new link. */
  async #readLinks(): Promise<void> {
    const links = await this.#port.links();
    this.#names = new Map(links.map(({ index, name }) => [index, name]));
    for (const link of links) {
      const it = toKernelObject({ kind: 'link', link }, this.#names);
      if (it !== null) this.#current?.set(it.key, it);
    }
  }
}

/** The addresses of other devices of ours that tunnels go from, with the links of these tunnels. */
function carriersOf({ links, addresses }: Netstate): { readonly link: string; readonly key: string }[] {
  return links.flatMap((link) => {
    if (link.kind !== 'vxlan') return [];
    const below = addresses.filter((it) => it.address === link.local && it.link !== link.name);
    return below.map((it) => ({ link: link.name, key: netObjectKey({ kind: 'address', it }) }));
  });
}

/** Those that need nothing on these links. */
function possible(operations: readonly NetOperation[], links: readonly string[]): NetOperation[] {
  const blocked = new Blocked(links);
  return operations.filter((it) => it.operation === 'delete' || !blocked.isBlocked(it.object));
}

/** The object as the kernel has it after it made it. */
function toKnown(
  { key, text, object }: Exclude<NetOperation, { readonly operation: 'delete' }>,
  indexes: ReadonlyMap<string, number>,
): KernelObject {
  return { key, text, isOurs: true, raw: toKernelRouteObject(object, indexes) };
}

function operationText({ operation, text }: NetOperation): string {
  return operation === 'delete' ? `delete: ${text}` : text;
}

/** The kernel forgets a link's neighbours even when it gets the MAC that it has. */
function withoutSameMac(raw: RouteObject, current: RouteObject | undefined): RouteObject {
  if (raw.kind !== 'link' || current?.kind !== 'link') return raw;
  const { link } = raw;
  return isDeepStrictEqual(link.mac, current.link.mac)
    ? { kind: 'link', link: { ...link, mac: new Uint8Array(0) } }
    : raw;
}

/** Whether it is removed to be made anew. */
function isRemade(key: string, operations: readonly NetOperation[]): boolean {
  return operations.some((it) => it.key === key && it.operation !== 'delete');
}

function isAlreadySo(it: NetOperation, { code }: NftError): boolean {
  if (it.operation === 'delete') return GONE.has(code);
  // The kernel compares all of a rule: there is the very same.
  return it.object.kind === 'rule' && code === 'EEXIST';
}

/** The part of a RouteSocket that is used here; tests replace it. */
export type RoutePort = Pick<
  RouteSocket,
  'links' | 'addresses' | 'neighbours' | 'fdb' | 'nexthops' | 'routes' | 'rules' | 'change'
>;

/** Nodewall's objects in the kernel, and those that others have in their place. */
interface KernelNetwork {
  readonly objects: KernelObjects;
  /** All links, not only nodewall's. */
  readonly names: LinkNames;
}

/** Reads everything. Foreign routes are only looked for in these tables. */
async function readKernel(port: RoutePort, tables: readonly number[]): Promise<KernelNetwork> {
  const { protocol } = OWN_NETWORK;
  const links = await port.links();
  const own = links.filter(({ name }) => isOwnLinkName(name)).map(({ index }) => index);
  const names = new Map(links.map(({ index, name }) => [index, name]));
  const filters = FAMILIES.flatMap((family) => [
    { family, protocol },
    ...tables.map((table) => ({ family, table })),
  ]);
  const [addresses, neighbours, fdb, nexthops, routes, rules] = await Promise.all([
    port.addresses(),
    Promise.all(own.map((link) => onLink(port.neighbours(link)))),
    Promise.all(own.map((link) => onLink(port.fdb(link)))),
    port.nexthops(),
    Promise.all(filters.map((filter) => port.routes(filter))),
    port.rules(),
  ]);
  const raw: RouteObject[] = [
    ...links.map((link) => ({ kind: 'link', link }) as const),
    ...addresses.map((address) => ({ kind: 'address', address }) as const),
    ...[...neighbours, ...fdb]
      .flat()
      .filter(({ isPermanent }) => isPermanent)
      .map((neighbour) => ({ kind: 'neighbour', neighbour }) as const),
    ...nexthops.map((nexthop) => ({ kind: 'nexthop', nexthop }) as const),
    ...routes.flat().map((route) => ({ kind: 'route', route }) as const),
    ...rules.map((rule) => ({ kind: 'rule', rule }) as const),
  ];
  const found = raw.flatMap((object) => toKernelObject(object, names) ?? []);
  return { objects: new Map(found.map((object) => [object.key, object])), names };
}

/** Nothing where the link was removed meanwhile: its event will tell. */
async function onLink<It>(reading: Promise<It[]>): Promise<It[]> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof NftError && error.code === 'ENODEV') return [];
    throw error;
  }
}
