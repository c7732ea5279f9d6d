import { loadBinding, maximumReceiveBuffer, type NativeRouteBatch, requireInteger } from './binding.ts';
import { Listening } from './closable.ts';
import { type NftError, plainError, toErrnoTable } from './errors.ts';
import { netlinkMessages } from './netlink-message.ts';
import { isRemoval, type ReadObject, type RouteObject, toRouteObject } from './rtnetlink/route-object.ts';

/** An event of a route monitor. */
export type RouteEvent =
  /** New, or changed. */
  | { readonly event: 'present'; readonly object: ReadObject }
  | { readonly event: 'removed'; readonly object: ReadObject }
  /** The socket's buffer was full: an unknown number of events is lost. Read everything again. */
  | { readonly event: 'overrun' }
  /** The socket failed; no more events come. */
  | { readonly event: 'error'; readonly error: NftError };

export interface RouteMonitorOptions {
  /**
   * Bytes that the socket may buffer for a slow reader. Default 32 MiB; memory is only used while
   * data waits.
   */
  receiveBuffer?: number;
  /** The kinds of object to report; default: all. */
  kinds?: readonly RouteObject['kind'][];
}

const defaultReceiveBuffer = 32 * 1024 * 1024;
const NETLINK_ROUTE = 0;
/** RTNLGRP_*: link, neigh, ipv4_ifaddr, ipv4_route, ipv4_rule, ipv6_ …, nexthop. */
const GROUPS: Readonly<Record<RouteObject['kind'], readonly number[]>> = {
  link: [1],
  neighbour: [3],
  address: [5, 9],
  route: [7, 11],
  rule: [8, 19],
  nexthop: [32],
};
const ALL = Object.keys(GROUPS) as RouteObject['kind'][];

/**
 * Reports every change of links, addresses, neighbours, next hops, routes and rules in the network
 * namespace in which it is created, whoever made it, on a thread of its own. All events that are
 * readable at one time, at most 256 KiB, go to one call of the listener; while it is busy, the
 * socket's buffer keeps further events. Runs until close(), and keeps the process alive unless
 * unref() was called.
 *
 * For a complete state, create the monitor first, then read by RouteSocket: changes in between are
 * reported. While a link is down, the kernel does not report a changed group
 * (netdev_state_change()); it comes with the next event, at the latest when the link is set up.
 *
 * The kernel reports no removal of what goes with something else: the IPv4 routes and next hops of
 * a link that is removed, the routes of a next hop that is removed, the neighbours of a link.
 *
 * Needs no privileges. The constructor throws a TypeError or RangeError for wrong options, an
 * NftError if the socket cannot be opened. An exception of the listener is uncaught.
 */
export class RouteMonitor extends Listening {
  constructor(options: RouteMonitorOptions, listener: (events: readonly RouteEvent[]) => void) {
    const binding = loadBinding();
    const { receiveBuffer = defaultReceiveBuffer, kinds = ALL } = options;
    requireInteger(receiveBuffer, 'receiveBuffer', 1, maximumReceiveBuffer);
    if (typeof listener !== 'function') throw new TypeError('listener must be a function');
    const errnos = toErrnoTable(binding.errors);
    const numbers = kinds.flatMap((kind) => GROUPS[kind]);
    const groups = numbers.reduce((mask, group) => (mask | (1 << (group - 1))) >>> 0, 0);
    const tell = ({ messages, overrun, errno }: NativeRouteBatch): void => {
      const events: RouteEvent[] = [];
      for (const message of netlinkMessages(messages)) {
        const object = toRouteObject(message);
        if (object !== null) events.push({ event: isRemoval(message) ? 'removed' : 'present', object });
      }
      if (overrun) events.push({ event: 'overrun' });
      if (errno !== 0) events.push({ event: 'error', error: plainError(errno, 'route monitor', errnos) });
      listener(events);
    };
    super(
      (whileOpen) => new binding.RouteMonitor(groups, receiveBuffer, NETLINK_ROUTE, 0, whileOpen(tell)),
      errnos,
    );
  }
}
