import type { NetworkInterfaceInfo } from 'node:os';
import { type Address, covers, formatAddress, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { hasMember, type MemberSet } from '../../lib/net/member-set.ts';
import { RULE_EXTENSION } from '../extension/rules.ts';

/**
 * The most addresses that a node reports. The controller accepts fewer
 * (controller/index/host-addresses.ts), and reports that there are more.
 */
const MOST = 256;

/** Link-local addresses (RFC 3927, RFC 4291): of no use to other nodes. */
const LINK_LOCAL = ['169.254.0.0/16', 'fe80::/10'].flatMap((text) => parseCidr(text)?.cidr ?? []);

/**
 * Their addresses are not the machine's own: those of Services, which kube-proxy in ipvs mode
 * assigns, of egress gateways, and of the tunnel to them.
 */
const NOT_OURS: ReadonlySet<string> = new Set(['kube-ipvs0', ...RULE_EXTENSION.links]);

type Interfaces = NodeJS.Dict<readonly Pick<NetworkInterfaceInfo, 'address' | 'internal'>[]>;

/**
 * The addresses of a machine (from os.networkInterfaces) without loopback and link-local ones:
 * unique, IPv4 first, each family sorted as text.
 * @param floating addresses of egress gateways, which this machine has for a while
 */
export function hostAddresses(interfaces: Interfaces, floating: MemberSet | null = null): string[] {
  const found: Address[] = [];
  for (const [name, addresses = []] of Object.entries(interfaces)) {
    if (NOT_OURS.has(name)) continue;
    for (const { address: text, internal } of addresses) {
      const address = parseAddress(text);
      if (address === null || internal || isLinkLocal(address)) continue;
      if (floating === null || !hasMember(floating, address)) found.push(address);
    }
  }
  const texts = (family: 4 | 6): string[] =>
    [...new Set(found.filter((one) => one.family === family).map(formatAddress))].sort();
  return [...texts(4), ...texts(6)].slice(0, MOST);
}

function isLinkLocal({ family, value }: Address): boolean {
  return LINK_LOCAL.some((block) => covers(block, { family, value, length: family === 4 ? 32 : 128 }));
}
