import type { NetworkInterfaceInfo } from 'node:os';

/**
 * Names of the interfaces by which the node itself is attached: those with an address of the Node
 * object. The gateway address that a CNI puts on the host's end of a pod's veth (10.244.1.1/24) is
 * not one of the Node's. If the Node's addresses are not known yet (`declared` is null), or no
 * interface has one of them (the Node object has none, or a NAT's), every interface with an address
 * in a network counts, so that nothing is exempt by mistake; single (/32, /128) and link-local
 * addresses do not count.
 * @param interfaces result of os.networkInterfaces()
 * @param declared the Node's addresses, written as os.networkInterfaces() does
 */
export function interfacesOnNetworks(
  interfaces: Readonly<Record<string, readonly NetworkInterfaceInfo[] | undefined>>,
  declared: readonly string[] | null,
): ReadonlySet<string> {
  const declaredOnes = new Set(declared);
  const own = interfacesWith(interfaces, ({ address }) => declaredOnes.has(address));
  return own.size > 0 ? own : interfacesWith(interfaces, isOnNetwork);
}

function interfacesWith(
  interfaces: Readonly<Record<string, readonly NetworkInterfaceInfo[] | undefined>>,
  isWanted: (info: NetworkInterfaceInfo) => boolean,
): Set<string> {
  const found = new Set<string>();
  for (const [label, addresses] of Object.entries(interfaces)) {
    // An IPv4 address may have a label of its own, eth0:1 (ip-address(8)).
    if (addresses?.some(isWanted)) found.add(label.replace(/:.*/, ''));
  }
  return found;
}

function isOnNetwork({ family, address, cidr }: NetworkInterfaceInfo): boolean {
  if (address.startsWith('fe80:') || address.startsWith('169.254.')) return false;
  return cidr !== null && Number(cidr.slice(cidr.indexOf('/') + 1)) < (family === 'IPv4' ? 32 : 128);
}
