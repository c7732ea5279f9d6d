import { NftError, type RouteObject, type RouteSocket } from 'nftables-napi';
import { OWN_NETWORK } from '../../../apis/egress/netstate.ts';
import { FAMILIES } from '../../../lib/net/address.ts';
import type { KernelObjects } from './difference.ts';
import { isOwnLinkName, type LinkNames, toKernelObject } from './kernel-object.ts';

/** The part of a RouteSocket that is used here; tests replace it. */
export type RoutePort = Pick<
  RouteSocket,
  'links' | 'addresses' | 'neighbours' | 'fdb' | 'nexthops' | 'routes' | 'rules' | 'change'
>;

/** Nodewall's objects in the kernel, and those that others have in their place. */
export interface KernelNetwork {
  readonly objects: KernelObjects;
  /** All links, not only nodewall's. */
  readonly names: LinkNames;
}

/** Reads everything. Foreign routes are only looked for in these tables. */
export async function readKernel(port: RoutePort, tables: readonly number[]): Promise<KernelNetwork> {
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
