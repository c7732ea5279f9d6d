import { attribute, type NetlinkMessage, u32 } from '../netlink-message.ts';
import {
  type AddressBytes,
  AF,
  dumpMessage,
  RouteMessage,
  type RouteOperation,
  RTM,
  routeMessage,
} from './object.ts';

/** An address of a network interface. */
export interface RouteAddress {
  /** Index of the link. */
  readonly link: number;
  readonly address: AddressBytes;
  readonly prefixLength: number;
  /** The number of the maker (IFA_PROTO, Linux 5.18); 0: none was given. */
  readonly protocol: number;
  /** Metric of the route to its network (IFA_RT_PRIORITY, Linux 4.18); 0: the kernel's default. */
  readonly metric: number;
  /** No route to its network was made with it. */
  readonly noPrefixRoute: boolean;
  /** IPv6: others were not asked for it. */
  readonly noDad: boolean;
  /** Its preferred lifetime is over: IPv6 chooses it as a source only where there is no other. */
  readonly deprecated: boolean;
}

/** struct ifaddrmsg: family, prefix length, flags, scope, index of the link. */
const HEADER = 8;
const LINK = 4;
/** linux/if_addr.h. */
const IFA = { address: 1, local: 2, cacheInfo: 6, flags: 8, metric: 9, protocol: 11 } as const;
const FLAG = { noDad: 0x2, deprecated: 0x20, noPrefixRoute: 0x200 } as const;
const FOR_EVER = u32(0xffff_ffff);
const UNUSED = new Uint8Array(8);

export function addressRequest(operation: RouteOperation, it: RouteAddress): Uint8Array {
  const { link, address, prefixLength, protocol, metric } = it;
  const family = address.length === 4 ? AF[4] : AF[6];
  const flags = (it.noPrefixRoute ? FLAG.noPrefixRoute : 0) | (it.noDad ? FLAG.noDad : 0);
  const preferred = it.deprecated ? u32(0) : FOR_EVER;
  return routeMessage(operation, RTM.address, [
    Uint8Array.of(family, prefixLength, 0, 0),
    u32(link),
    attribute(IFA.local, address),
    attribute(IFA.address, address),
    ...(operation === 'delete'
      ? []
      : [
          attribute(IFA.flags, u32(flags)),
          attribute(IFA.cacheInfo, Buffer.concat([preferred, FOR_EVER, UNUSED])),
          ...(metric > 0 ? [attribute(IFA.metric, u32(metric))] : []),
          attribute(IFA.protocol, Uint8Array.of(protocol)),
        ]),
  ]);
}

export function addressDump(): Uint8Array {
  return dumpMessage(RTM.address, new Uint8Array(HEADER));
}

export function toRouteAddress(message: NetlinkMessage): RouteAddress | null {
  const it = RouteMessage.of(message, HEADER);
  if (it === null) return null;
  const address = it.bytes(it.has(IFA.local) ? IFA.local : IFA.address);
  if (address.length !== 4 && address.length !== 16) return null;
  const flags = it.u32(IFA.flags, it.headerU8(2));
  return {
    link: it.headerU32(LINK),
    address,
    prefixLength: it.headerU8(1),
    protocol: it.u8(IFA.protocol, 0),
    metric: it.u32(IFA.metric, 0),
    noPrefixRoute: (flags & FLAG.noPrefixRoute) !== 0,
    noDad: (flags & FLAG.noDad) !== 0,
    deprecated: (flags & FLAG.deprecated) !== 0,
  };
}
