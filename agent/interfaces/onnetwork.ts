import type { NetworkInterfaceInfo } from 'node:os';

/**
 * Names of the interfaces by which the node itself is attached. They are those that hold an address of the Node object: the gateway address
 * that a CNI puts on the host's end of a pod's veth (10.244.1.1/24) is none of the Node's. Where these aren't known yet (`declared` is null), every
 * interface with an address in a network of its own counts, so that nothing is exempt by mistake; single (/32) and link-local ones don't.
 * @param interfaces what os.networkInterfaces() gives
 * @param declared as os.networkInterfaces() writes them
 */
export function interfacesOnNetworks(
  interfaces: Readonly<Record<string, readonly NetworkInterfaceInfo[] | undefined>>,
  declared: readonly string[] | null,
): ReadonlySet<string> {
  const own = declared === null ? null : new Set(declared);
  const isOwn = own === null ? isOnNetwork : ({ address }: NetworkInterfaceInfo) => own.has(address);
  const found = new Set<string>();
  for (const [label, addresses] of Object.entries(interfaces)) {
    // An IPv4 address may carry a label of its own, eth0:1 (ip-address(8)).
    if (addresses?.some(isOwn)) found.add(label.replace(/:.*/, ''));
  }
  return found;
}

function isOnNetwork({ family, address, cidr }: NetworkInterfaceInfo): boolean {
  if (address.startsWith('fe80:') || address.startsWith('169.254.')) return false;
  return cidr !== null && Number(cidr.slice(cidr.indexOf('/') + 1)) < (family === 'IPv4' ? 32 : 128);
}
