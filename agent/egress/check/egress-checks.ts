import type { Config } from '../../../apis/config.ts';
import {
  type CheckLine,
  firstLine,
  firstNames,
  ok,
  problem,
  ROOT_NEEDED,
  warning,
} from '../../../lib/process/check-line.ts';
import { legacyTables } from '../../inspect/machine-facts.ts';
import { loadAddon } from '../../run/with-kernel.ts';
import { markRules } from './mark-rules.ts';
import { checkTunnelMtu } from './tunnel-mtu.ts';

interface Checked {
  readonly config: Config;
  /** In place of `/`. */
  readonly root: string;
}

/** Whether egress gateways find this machine as they need it. */
export const EGRESS_CHECKS = {
  marks,
  tunnel,
  tunnelMtu: ({ config, root }: Checked) => checkTunnelMtu(config, root),
} as const;

/** A connection whose mark others overwrite loses its egress gateway (docs/egress-datapath.md). */
async function marks(): Promise<CheckLine[]> {
  const check = 'marks of connections';
  const { Nftables } = await loadAddon();
  const nft = new Nftables();
  try {
    const tables = await markRules(nft, await legacyTables());
    if (tables === null) return [];
    if (tables.length === 0)
      return [ok(check, 'no rule of another table writes the bits of egress gateways')];
    return [
      warning(
        check,
        `rules of other tables write the bits 0x7f000000 of connections' marks: ${firstNames(tables)}`,
        "such a rule can take a connection's egress gateway away; give it a mask without these bits",
      ),
    ];
  } catch (error) {
    return [warning(check, `cannot be listed: ${firstLine(error)}`, ROOT_NEEDED)];
  } finally {
    await nft.close();
  }
}

/** The tunnel of egress gateways is never sent in clear where it has to be encrypted. */
async function tunnel({ config: { featureGates, egress } }: Checked): Promise<CheckLine[]> {
  if (featureGates.EgressGateway === false || egress.encryption === 'None') return [];
  const check = 'encrypted tunnel';
  const { WireGuardSocket } = await loadAddon();
  const socket = new WireGuardSocket();
  try {
    if (await socket.isSupported()) return [ok(check, 'the kernel has WireGuard')];
    return [
      problem(
        check,
        'the kernel has no WireGuard: no packet of a pod goes to a gateway on another node, or comes from one',
        'modprobe wireguard, which some systems have in a package of further modules; or egress.encryption: None',
      ),
    ];
  } catch (error) {
    return [warning(check, `cannot be asked: ${firstLine(error)}`, ROOT_NEEDED)];
  } finally {
    await socket.close();
  }
}
