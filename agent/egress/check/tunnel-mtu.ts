import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Config } from '../../../apis/config.ts';
import { type CheckLine, warning } from '../../../lib/process/check-line.ts';
import { leastUnderlayMtu } from '../render/tunnel.ts';

/** Addresses of a Node whose tunnel goes over IPv4, or over IPv6. */
const OVER = { 4: '192.0.2.1', 6: '2001:db8::1' } as const;
const ANY_MAC = '0e:00:00:00:00:01';

/**
 * Whether the tunnel of egress gateways fits into what the interface of the default route sends:
 * the one with the Node's address, as far as a machine knows without its Node.
 *
 * @param root in place of `/`
 */
export async function checkTunnelMtu(
  { featureGates, egress }: Pick<Config, 'featureGates' | 'egress'>,
  root: string,
): Promise<CheckLine[]> {
  if (featureGates.EgressGateway !== true) return [];
  const found = await defaultInterface(root);
  if (found === null) return [];
  const { name, family } = found;
  const mtu = Number(await readOrEmpty(join(root, '/sys/class/net', name, 'mtu')));
  const isEncrypted = egress.encryption === 'WireGuard';
  const end = { address: OVER[family], mac: ANY_MAC };
  const least = leastUnderlayMtu(isEncrypted ? { ...end, key: '' } : end);
  if (mtu === 0 || mtu >= least) return [];
  return [
    warning(
      'size of packets',
      `${name}, by which this machine has its default route, has MTU ${mtu}, and the ${isEncrypted ? 'encrypted tunnel' : 'tunnel'} of egress gateways needs ${least}`,
      "give the interface with the Node's address a larger MTU: below that pods on this node reach no gateway on another one",
    ),
  ];
}

/** By proc(5); IPv4 first, as the tunnel goes over it where Nodes have both. */
async function defaultInterface(
  root: string,
): Promise<{ readonly name: string; readonly family: 4 | 6 } | null> {
  const rowsOf = async (file: string): Promise<string[][]> =>
    (await readOrEmpty(join(root, '/proc/net', file))).split('\n').map((line) => line.trim().split(/\s+/));
  const v4 = (await rowsOf('route')).find(([, destination]) => destination === '00000000')?.[0];
  if (v4 !== undefined) return { name: v4, family: 4 };
  const isDefault = (row: string[]): boolean => /^0{32}$/.test(row[0] ?? '') && row[1] === '00';
  const v6 = (await rowsOf('ipv6_route')).find((row) => isDefault(row) && row.at(-1) !== 'lo')?.at(-1);
  return v6 === undefined ? null : { name: v6, family: 6 };
}

async function readOrEmpty(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch {
    return ''; // not there: nothing is known
  }
}
