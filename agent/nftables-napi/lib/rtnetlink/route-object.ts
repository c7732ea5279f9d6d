import type { NetlinkMessage } from '../netlink-message.ts';
import { addressRequest, type RouteAddress, toRouteAddress } from './address.ts';
import { linkRequest, type ReadLink, type RouteLink, toLink } from './link.ts';
import { neighbourRequest, type RouteNeighbour, toNeighbour } from './neighbour.ts';
import { type RouteOperation, RTM } from './object.ts';
import { nexthopRequest, type Route, type RouteNexthop, routeRequest, toNexthop, toRoute } from './route.ts';
import { type RouteRule, ruleRequest, toRouteRule } from './rule.ts';

/** An object of the kernel's network configuration. */
export type RouteObject =
  | { readonly kind: 'link'; readonly link: RouteLink }
  | { readonly kind: 'address'; readonly address: RouteAddress }
  | { readonly kind: 'neighbour'; readonly neighbour: RouteNeighbour }
  | { readonly kind: 'nexthop'; readonly nexthop: RouteNexthop }
  | { readonly kind: 'route'; readonly route: Route }
  | { readonly kind: 'rule'; readonly rule: RouteRule };

/** One that was read. */
export type ReadObject =
  | Exclude<RouteObject, { kind: 'link' }>
  | { readonly kind: 'link'; readonly link: ReadLink };

export type RouteChange = RouteObject & { readonly operation: RouteOperation };

export function toRequest(change: RouteChange): Uint8Array {
  switch (change.kind) {
    case 'link':
      return linkRequest(change.operation, change.link);
    case 'address':
      return addressRequest(change.operation, change.address);
    case 'neighbour':
      return neighbourRequest(change.operation, change.neighbour);
    case 'nexthop':
      return nexthopRequest(change.operation, change.nexthop);
    case 'route':
      return routeRequest(change.operation, change.route);
    case 'rule':
      return ruleRequest(change.operation, change.rule);
  }
}

/** The object of a message RTM_NEW… or RTM_DEL…; null if it is about nothing that is known here. */
export function toRouteObject(message: NetlinkMessage): ReadObject | null {
  // RTM_NEW… is a multiple of four.
  switch (message.type & ~3) {
    case RTM.link:
      return wrap(toLink(message), (link) => ({ kind: 'link', link }));
    case RTM.address:
      return wrap(toRouteAddress(message), (address) => ({ kind: 'address', address }));
    case RTM.neighbour:
      return wrap(toNeighbour(message), (neighbour) => ({ kind: 'neighbour', neighbour }));
    case RTM.nexthop:
      return wrap(toNexthop(message), (nexthop) => ({ kind: 'nexthop', nexthop }));
    case RTM.route:
      return wrap(toRoute(message), (route) => ({ kind: 'route', route }));
    case RTM.rule:
      return wrap(toRouteRule(message), (rule) => ({ kind: 'rule', rule }));
    default:
      return null;
  }
}

/** Whether the message, which toRouteObject() read, says that the object was removed. */
export function isRemoval({ type }: NetlinkMessage): boolean {
  return (type & 3) === 1;
}

function wrap<Value>(value: Value | null, toObject: (value: Value) => ReadObject): ReadObject | null {
  return value === null ? null : toObject(value);
}
