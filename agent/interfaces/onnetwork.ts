import type { NetworkInterfaceInfo } from 'node:os';

/**
 * Names of interfaces with an address in a network of their own (10.0.0.5/24): the node itself is attached there. What CNIs put on the
 * host's end of a pod's veth is none, a single address (ptp: the gateway as /32), or link-local. Takes what os.networkInterfaces() gives.
 */
export function interfacesOnNetworks(
  interfaces: Readonly<Record<string, readonly NetworkInterfaceInfo[] | undefined>>,
): ReadonlySet<string> {
  const found = new Set<string>();
  for (const [label, addresses] of Object.entries(interfaces)) {
    // An IPv4 address may carry a label of its own, eth0:1 (ip-address(8)).
    if (addresses?.some(isOnNetwork)) found.add(label.replace(/:.*/, ''));
  }
  return found;
}

function isOnNetwork({ family, address, cidr }: NetworkInterfaceInfo): boolean {
  if (address.startsWith('fe80:') || address.startsWith('169.254.')) return false;
  return cidr !== null && Number(cidr.slice(cidr.indexOf('/') + 1)) < (family === 'IPv4' ? 32 : 128);
}
