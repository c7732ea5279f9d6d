import type { NftError } from 'nftables-napi';
import type { KernelObject } from './kernel-object.ts';
import type { NetObject } from './net-object.ts';

/** Why the kernel does not have what is wanted. */
export interface NetProblem {
  /** The errno's name; FOREIGN: an object of others has our name or number. */
  readonly code: string;
  /** Which object, what the kernel said, and the way out. */
  readonly message: string;
}

/** The kernel refused to make an object. `error` names it. */
export function kernelRefusal(object: NetObject | null, error: NftError): NetProblem {
  const way = object === null ? wayOut(error) : (wayOutOf(object, error) ?? wayOut(error));
  return { code: error.code, message: way === null ? error.message : `${error.message}. ${way}` };
}

function wayOutOf(object: NetObject, { code, message }: NftError): string | null {
  if (object.kind === 'link' && code === 'EOPNOTSUPP') {
    const { kind } = object.it;
    return `This kernel has no ${kind} devices: load its module (modprobe ${kind}), which some systems have in a package of further modules`;
  }
  if (object.kind === 'link' && object.it.kind === 'vxlan' && code === 'EEXIST') {
    return `Remove the other VXLAN device with id ${object.it.id} and port ${object.it.port} (ip -d link show type vxlan)`;
  }
  if (object.kind === 'nexthop' && /IPv6 is disabled/i.test(message)) {
    return 'IPv4 goes through the tunnel by IPv6 link-local next hops: IPv6 must be on for its device (net.ipv6.conf.NAME.disable_ipv6=0)';
  }
  if (object.kind === 'nexthop' && code === 'EAFNOSUPPORT') {
    return 'IPv4 goes through the tunnel by IPv6 link-local next hops: the kernel must not be started with ipv6.disable=1';
  }
  return code === 'EEXIST' ? 'Another program made it: remove that one, and nodewall makes its own' : null;
}

function wayOut({ code }: NftError): string | null {
  return code === 'EPERM' ? 'The agent needs CAP_NET_ADMIN' : null;
}

/** Other programs' objects, and what is not made because of them. */
export function foreignProblems(
  foreign: readonly KernelObject[],
  blocked: readonly string[],
): readonly NetProblem[] {
  const end = blocked.length === 0 ? '' : `; not made meanwhile: ${blocked.join('; ')}`;
  return foreign.map(({ text }) => ({
    code: 'FOREIGN',
    message: `another program made what only nodewall makes: ${text}. Remove it (docs/egress-datapath.md, Network configuration)${end}`,
  }));
}
