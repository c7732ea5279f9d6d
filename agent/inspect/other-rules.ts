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
  }
  for (const command of LEGACY) {
    if (!legacyTables.includes(`${command} ${wanted.legacyTable}`)) continue;
    const lines = (await savedRules(`${command}-legacy-save`, wanted.legacyTable)).split('\n');
    const isWanted = (line: string): boolean =>
      wanted.legacy.test(line) && wanted.but?.test(line.split(' ')[1] ?? '') !== true;
    add(found, `${command}-legacy ${wanted.legacyTable}`, lines.filter(isWanted));
  }
  return found;
}

function nftRules(text: string, { nft, but }: WantedRules): string[] {
  let chain = '';
  return text.split('\n').filter((line) => {
    chain = /^\s*chain (\S+) \{/.exec(line)?.[1] ?? chain;
    // Comments are quoted.
    return but?.test(chain) !== true && nft.test(line.replaceAll(/comment "[^"]*"/g, ''));
  });
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
