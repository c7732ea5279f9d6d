import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Nftables } from 'nftables-napi';

/** Chains at these hooks come before connection tracking, if their priority is less than its. */
const HOOKS: ReadonlySet<unknown> = new Set(['prerouting', 'output']);
/** NF_IP_PRI_CONNTRACK of linux/netfilter_ipv4.h. */
const CONNTRACK = -200;
export const OWN_TABLE = 'nodewall';
const LEGACY = ['iptables', 'ip6tables'] as const;

/**
 * The tables of others, of nftables and of either iptables, whose rules leave packets out of
 * connection tracking, with the number of these rules. Tables without a chain before connection
 * tracking are not read.
 */
export async function untrackedRules(
  nft: Pick<Nftables, 'list' | 'run'>,
  legacyTables: readonly string[],
): Promise<string[]> {
  const tables = new Set<string>();
  for (const { chain } of await nft.list('chains')) {
    const { family, table, hook, prio } = Object(chain);
    if (HOOKS.has(hook) && Number(prio) < CONNTRACK && table !== OWN_TABLE) tables.add(`${family} ${table}`);
  }
  const found: string[] = [];
  for (const table of tables) {
    // A table that is gone by now has no rules.
    const text = await nft.run(`list table ${table}`).then(
      ({ output }) => output,
      () => '',
    );
    add(found, table, text, /(?:^|\s)notrack(?:\s|$)|\bxt target "(?:CT|NOTRACK)"/);
  }
  for (const command of LEGACY) {
    if (!legacyTables.includes(`${command} raw`)) continue;
    const name = `${command}-legacy raw`;
    add(found, name, await savedRules(`${command}-legacy-save`, 'raw'), /-j (?:CT --notrack|NOTRACK)\b/);
  }
  return found;
}

function add(found: string[], table: string, text: string, notrack: RegExp): void {
  // Comments are quoted.
  const rules = text.split('\n').filter((line) => notrack.test(line.replaceAll(/comment "[^"]*"/g, '')));
  if (rules.length > 0) found.push(`${table} (${rules.length})`);
}

/** What an iptables-save prints of a table; '' if the command is not there, or refuses. */
export async function savedRules(command: string, table: string): Promise<string> {
  try {
    return (await promisify(execFile)(command, ['-t', table], { timeout: 4_000 })).stdout;
  } catch {
    return '';
  }
}
