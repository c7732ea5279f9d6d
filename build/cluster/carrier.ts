/**
 * Programs that have packets of pods reach other nodes, as daemons on each node in the place of
 * routes that are always there.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buildGoProgram } from '../programs/go.ts';
import { POD_CIDRS } from './configuration.ts';
import type { Keys } from './keys.ts';
import type { NodeAddresses } from './network.ts';
import type { CarrierName, ServiceProxy } from './pod-network.ts';

/** A carrier that was built. */
export interface Carrier {
  readonly name: CarrierName;
  /** Path of its program. */
  readonly program: string;
}

/** From the cache, or built: some minutes. */
export async function buildCarrier(name: CarrierName): Promise<Carrier> {
  const sdk = ['sdk/sdk.go', 'sdk/errors/errors.go', 'vpc/v20170312/vpc.go'];
  const program = await buildGoProgram({
    name: 'flanneld',
    source: join(import.meta.dirname, 'flannel'),
    files: sdk.map((file) => join('tencentcloud', file)),
    program: 'github.com/flannel-io/flannel',
    // Its UDP backend, which no cluster here uses.
    hasC: true,
    // Go's own packages without C, as for all other programs, and a static program all the same.
    flags: ['-tags', 'netgo,osusergo'],
    linked: ['-extldflags', '-static'],
    takes: 'some minutes',
  });
  return { name, program };
}

interface CarrierParts {
  readonly carrier: Carrier;
  readonly node: NodeAddresses;
  readonly keys: Keys;
  /** Folder of the node's files. */
  readonly data: string;
  readonly proxy: ServiceProxy;
}

/** flanneld describes a node's network here once it carries packets. */
const SUBNET_FILE = '/run/flannel/subnet.env';

/** Writes its files, and gives the argument array that starts it on a node. */
export async function carrierCommand(parts: CarrierParts): Promise<string[]> {
  const { carrier, node, keys, data, proxy } = parts;
  const [Network, IPv6Network] = POD_CIDRS.split(',');
  const configuration = join(data, 'flannel.json');
  const Backend = { Type: carrier.name === 'flannel-vxlan' ? 'vxlan' : 'host-gw' };
  const EnableNFTables = proxy !== 'iptables';
  const network = { Network, IPv6Network, EnableIPv6: true, EnableNFTables, Backend };
  await mkdir(data, { recursive: true });
  await writeFile(configuration, JSON.stringify(network));
  return [
    'env',
    `NODE_NAME=${node.name}`,
    carrier.program,
    '--kube-subnet-mgr',
    `--kubeconfig-file=${keys.kubeconfig('carrier')}`,
    `--net-config-path=${configuration}`,
    `--subnet-file=${SUBNET_FILE}`,
    '--ip-masq',
    '--iface=eth0',
  ];
}

/** Prints what `mtuOf` reads, on a node on which the carrier has done its work. */
export const CARRIER_STATE: readonly string[] = ['cat', SUBNET_FILE];

/** The MTU that pods need; undefined where the carrier says nothing of it. */
export function mtuOf(state: string): number | undefined {
  const mtu = /^FLANNEL_MTU=(\d+)$/m.exec(state)?.[1];
  return mtu === undefined ? undefined : Number(mtu);
}
