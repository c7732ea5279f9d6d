import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Nftables } from 'nftables-napi';

export const OWN_TABLE = 'nodewall';
const LEGACY = ['iptables', 'ip6tables'] as const;

export interface WantedRules {
  /** Whether a base chain makes its table worth reading: its type, hook and priority. */
  readonly isIn: (chain: {
    readonly type: unknown;
    readonly hook: unknown;
    readonly prio: number;
  }) => boolean;
  /** Tests a line of nft's text, without its comment. */
  readonly nft: Pick<RegExp, 'test'>;
  /** The table of iptables-legacy, and a line of what iptables-legacy-save prints. */
  readonly legacyTable: string;
  readonly legacy: Pick<RegExp, 'test'>;
  /** Text of nft for rules that it cannot print, and iptables can; absent: none. */
  readonly unprinted?: RegExp;
  /** Chains whose rules are left out; absent: none. */
  readonly but?: RegExp;
}

/**
 * The tables of others, of nftables and of either iptables, that have such rules, with their
 * number. Tables without a chain that they could be in are not read.
 */
export async function otherRules(
  nft: Pick<Nftables, 'list' | 'run'>,
  legacyTables: readonly string[],
  wanted: WantedRules,
  saved: typeof savedRules = savedRules,
): Promise<string[]> {
  const tables = new Set<string>();
  for (const { chain } of await nft.list('chains')) {
    const { family, table, type, hook, prio } = Object(chain);
    if (table !== OWN_TABLE && wanted.isIn({ type, hook, prio: Number(prio) }))
      tables.add(`${family} ${table}`);
  }
  const found: string[] = [];
  for (const table of tables) {
    // A table that is gone by now has no rules.
    const text = await nft.run(`list table ${table}`).then(
      ({ output }) => output,
      () => '',
    );
    add(found, table, nftRules(text, wanted));
    if (wanted.unprinted?.test(text) !== true) continue;
    const [family, name = ''] = table.split(' ');
    const command = family === 'ip6' ? 'ip6tables' : 'iptables';
    add(found, table, iptablesRules(await saved(`${command}-nft-save`, name), wanted));
  }
  for (const command of LEGACY) {
    if (!legacyTables.includes(`${command} ${wanted.legacyTable}`)) continue;
    const text = await saved(`${command}-legacy-save`, wanted.legacyTable);
    add(found, `${command}-legacy ${wanted.legacyTable}`, iptablesRules(text, wanted));
  }
  return found;
}

function nftRules(text: string, { nft, but }: WantedRules): string[] {
  let chain = '';
  return text.split('\n').filter((line) => {
    chain = /^\s*chain (\S+) \{/.exec(line)?.[1] ?? chain;
    return but?.test(chain) !== true && nft.test(withoutComment(line));
  });
}

function iptablesRules(text: string, { legacy, but }: WantedRules): string[] {
  return text
    .split('\n')
    .filter((line) => legacy.test(withoutComment(line)) && but?.test(line.split(' ')[1] ?? '') !== true);
}

/** Comments are quoted. */
function withoutComment(line: string): string {
  return line.replaceAll(/comment "[^"]*"/g, '');
}

function add(found: string[], table: string, rules: readonly string[]): void {
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
