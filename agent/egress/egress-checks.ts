import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Nftables } from 'nftables-napi';
import type { Config } from '../../apis/config.ts';
import {
  type CheckLine,
  firstLine,
  firstNames,
  ok,
  problem,
  ROOT_NEEDED,
  warning,
} from '../../lib/process/check-line.ts';
import {
  legacyTables,
  OWN_TABLE,
  otherRules,
  SOURCE_RULES,
  type savedRules,
  type TableReader,
  tableReader,
  type WantedRules,
} from '../inspect/machine-facts.ts';
import { loadAddon } from '../run/with-kernel.ts';
import { BIND_PRIORITY, STEER } from './render/frame.ts';
import { MARK_MASK } from './render/marks.ts';
import { leastUnderlayMtu } from './render/tunnel.ts';

interface Checked {
  readonly config: Config;
  /** In place of `/`. */
  readonly root: string;
}

/** Whether egress gateways find this machine as they need it. */
export const EGRESS_CHECKS = {
  marks,
  sourceNat,
  tunnel,
  tunnelMtu: ({ config, root }: Checked) => checkTunnelMtu(config, root),
} as const;

/** A connection whose mark others overwrite loses its egress gateway (docs/egress-datapath.md). */
function marks({ config }: Checked): Promise<CheckLine[]> {
  const check = 'marks of connections';
  return beside(config, check, async (nft) => {
    const tables = await markRules(nft, await legacyTables());
    if (tables.length === 0) return ok(check, 'no rule of another table writes the bits of egress gateways');
    return warning(
      check,
      `rules of other tables write the bits 0x7f000000 of connections' marks: ${firstNames(tables)}`,
      "such a rule can take a connection's egress gateway away; give it a mask without these bits",
    );
  });
}

/** The first chain that translates a connection decides on its address; nft sorts them so. */
function sourceNat({ config }: Checked): Promise<CheckLine[]> {
  const check = 'source NAT';
  return beside(config, check, async (nft) => {
    const tables = await otherRules(nft, [], EARLY_SOURCE_RULES);
    if (tables.length === 0) return ok(check, 'no rule of another table comes before egress gateways');
    return warning(
      check,
      `rules of other tables change sources before egress gateways do: ${firstNames(tables)}`,
      `a connection that they translate to another address than its gateway's is dropped; give these chains a priority above ${BIND_PRIORITY}`,
    );
  });
}

/** Asks the kernel where egress gateways are in force, or are to be. */
async function beside(
  config: Config,
  check: string,
  ask: (nft: TableReader) => Promise<CheckLine>,
): Promise<CheckLine[]> {
  const { Nftables } = await loadAddon();
  const nft = new Nftables();
  try {
    if (config.featureGates.EgressGateway !== true && !(await hasEgress(nft))) return [];
    return [await ask(tableReader(nft))];
  } catch (error) {
    return [warning(check, `cannot be listed: ${firstLine(error)}`, ROOT_NEEDED)];
  } finally {
    await nft.close();
  }
}

async function hasEgress(nft: Nftables): Promise<boolean> {
  const chains = (await nft.list('chains')).map(({ chain }) => Object(chain));
  return chains.some(({ table, name }) => table === OWN_TABLE && name === STEER);
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

/**
 * The tables of others, of nftables and of either iptables, whose rules write the bits of a
 * connection's mark by which egress gateways know its way, with the number of these rules.
 */
export function markRules(
  nft: TableReader,
  legacyTables: readonly string[],
  saved?: typeof savedRules,
): Promise<string[]> {
  return otherRules(nft, legacyTables, MARK_RULES, saved);
}

function isWrittenByNft(line: string): boolean {
  const [, value] = /ct mark set (.*)/.exec(line) ?? [];
  if (value === undefined) return false;
  const words = value.split(/[\s()]+/).filter(Boolean);
  if (words[0] !== 'ct' || words[1] !== 'mark') return true;
  for (let i = 2; i + 1 < words.length; i += 2) {
    const [operator = '', operand = ''] = words.slice(i, i + 2);
    const bits = Number(operand) & MARK_MASK;
    if (['&', 'and'].includes(operator) ? bits !== MARK_MASK : bits !== 0) return true;
    if (!OPERATORS.includes(operator)) break;
  }
  return false;
}

const OPERATORS = ['&', 'and', '|', 'or', '^', 'xor'];

/** As iptables-save prints it: always with masks. */
function isWrittenByIptables(line: string): boolean {
  const [, mask] = /-j CONNMARK --(?:save-mark --nfmask \w+ --ctmask |set-xmark \w+\/)(\w+)/.exec(line) ?? [];
  return mask !== undefined && (Number(mask) & MARK_MASK) !== 0;
}

const MARK_RULES: WantedRules = {
  isIn: () => true,
  nft: { test: isWrittenByNft },
  unprinted: /xt target "CONNMARK"/,
  legacyTables: ['mangle'],
  legacy: { test: isWrittenByIptables },
};

/** Rules of iptables come after egress gateways: their priority is 100. */
const EARLY_SOURCE_RULES: WantedRules = {
  ...SOURCE_RULES,
  isIn: (chain) => SOURCE_RULES.isIn(chain) && chain.prio < BIND_PRIORITY,
};

/** Addresses of a Node whose tunnel goes over IPv4, or over IPv6. */
const OVER = { 4: '192.0.2.1', 6: '2001:db8::1' } as const;
const ANY_MAC = '0e:00:00:00:00:01';

/**
 * Whether the tunnel of egress gateways fits into what the interface of the default route sends:
 * the one with the Node's address, as far as a machine knows without its Node.
 *
 * @param root in place of `/`
 */
async function checkTunnelMtu(
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
