import { setTimeout as sleep } from 'node:timers/promises';
import { requireInteger } from './binding.ts';
import { NftError } from './errors.ts';
import { type NetlinkMessage, netlinkMessages } from './netlink-message.ts';
import { RawSocket } from './raw-socket.ts';
import { addressDump, type RouteAddress, toRouteAddress } from './rtnetlink/address.ts';
import {
  type IPv4Setting,
  ipv4SettingRequest,
  linkDump,
  linkQuestion,
  type ReadLink,
  toLink,
} from './rtnetlink/link.ts';
import { fdbDump, neighbourDump, type RouteNeighbour, toNeighbour } from './rtnetlink/neighbour.ts';
import {
  type LinkRoute,
  linkRouteDump,
  nexthopDump,
  type Route,
  type RouteFilter,
  type RouteNexthop,
  routeDump,
  toLinkRoute,
  toNexthop,
  toRoute,
} from './rtnetlink/route.ts';
import { type RouteChange, toRequest } from './rtnetlink/route-object.ts';
import { type RouteRule, ruleDump, toRouteRule } from './rtnetlink/rule.ts';

/** NETLINK_ROUTE of linux/netlink.h. */
const ROUTE = 0;
/** Requests in one call. */
const MOST = 1024;
/** As in src/core/consistent.h: longer pauses give those who make changes time to finish. */
const ATTEMPTS = 25;
const LONGER = 2;

/**
 * The kernel's network configuration (rtnetlink), in the network namespace in which this object is
 * created: links, addresses, neighbours, next hops, routes and rules. Calls run on libuv's thread
 * pool, one after another. Reading needs no privileges, changing CAP_NET_ADMIN (else EPERM). Each
 * reading is as of one moment, or is read again, and rejects with EINTR if it changed in every
 * attempt. The constructor throws an NftError if the socket cannot be opened.
 */
export class RouteSocket {
  readonly #socket = new RawSocket(ROUTE, 'RouteSocket');

  /**
   * Makes changes, in order and independently, about 1,000 in one call of the kernel: one result
   * per change, null for success. `what` names change `index` in its error, which ends with the
   * kernel's own text.
   */
  change(
    changes: readonly RouteChange[],
    what: (index: number) => string = (index) => changes[index]?.kind ?? '',
  ): Promise<(NftError | null)[]> {
    return this.#socket.each(changes, toRequest, what, MOST);
  }

  /**
   * Changes a setting of the link with this name that is a file below /proc/sys/net/ipv4/conf, too:
   * that may be read-only. ENODEV if there is no such link.
   */
  async setIPv4(link: string, setting: IPv4Setting, value: number): Promise<void> {
    const request = ipv4SettingRequest(link, setting, value);
    const [answer] = await this.#socket.exchange([request], () => `${setting} of ${link}`);
    if (answer?.error) throw answer.error;
  }

  /** By index. */
  async links(): Promise<ReadLink[]> {
    return (await this.#dump(linkDump(), toLink)).sort((a, b) => a.index - b.index);
  }

  /**
   * The links with these indices, at most some hundreds: null if there is none; each as of its own
   * moment.
   */
  async linksAt(indices: readonly number[]): Promise<(ReadLink | null)[]> {
    for (const index of indices) requireInteger(index, 'index', 1, 2 ** 31 - 1);
    const requests = indices.map((index) => linkQuestion(index));
    const answers = await this.#socket.exchange(requests, (index) => `link ${indices[index]}`);
    return answers.map(({ messages: [message], error }) => {
      if (error !== null && error.code !== 'ENODEV') throw error;
      return message === undefined ? null : toLink(message);
    });
  }

  addresses(): Promise<RouteAddress[]> {
    return this.#dump(addressDump(), toRouteAddress);
  }

  /** Neighbours of both families, of the link with this index. */
  neighbours(link: number): Promise<RouteNeighbour[]> {
    return this.#dump(neighbourDump(link), toNeighbour);
  }

  /** The forwarding database of the link with this index. */
  fdb(link: number): Promise<RouteNeighbour[]> {
    return this.#dump(fdbDump(link), toNeighbour);
  }

  nexthops(): Promise<RouteNexthop[]> {
    return this.#dump(nexthopDump(), toNexthop);
  }

  /** None where there is no such table. */
  async routes(filter: RouteFilter): Promise<Route[]> {
    try {
      return await this.#dump(routeDump(filter), toRoute);
    } catch (error) {
      if (error instanceof NftError && error.code === 'ENOENT') return [];
      throw error;
    }
  }

  /** The routes of all tables: by which links packets leave. */
  linkRoutes(family: 4 | 6): Promise<LinkRoute[]> {
    return this.#dump(linkRouteDump(family), toLinkRoute);
  }

  /** Rules of both families. */
  rules(): Promise<RouteRule[]> {
    return this.#dump(ruleDump(), toRouteRule);
  }

  /** Waits for pending calls, then closes the socket. Idempotent. */
  close(): Promise<void> {
    return this.#socket.close();
  }

  async #dump<It>(request: Uint8Array, read: (message: NetlinkMessage) => It | null): Promise<It[]> {
    for (let attempt = 1; ; attempt++) {
      try {
        const found: It[] = [];
        for (const chunk of await this.#socket.whole(request)) {
          for (const message of netlinkMessages(chunk)) {
            const it = read(message);
            if (it !== null) found.push(it);
          }
        }
        return found;
      } catch (error) {
        if (!(error instanceof NftError && error.code === 'EINTR') || attempt === ATTEMPTS) throw error;
        await sleep(LONGER * attempt);
      }
    }
  }
}
