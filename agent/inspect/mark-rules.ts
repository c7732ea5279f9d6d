import type { Nftables } from 'nftables-napi';
import { STEER } from '../egress/render/frame.ts';
import { MARK_MASK } from '../egress/render/marks.ts';
import { OWN_TABLE, savedRules } from './other-rules.ts';

const LEGACY = ['iptables', 'ip6tables'] as const;

/**
 * The tables of others, of nftables and of either iptables, whose rules write the bits of a
 * connection's mark by which egress gateways know its way, with the number of these rules. Null:
 * this node has no egress gateways.
 */
export async function markRules(
  nft: Pick<Nftables, 'list' | 'run'>,
  legacyTables: readonly string[],
  saved: typeof savedRules = savedRules,
): Promise<string[] | null> {
  const chains = (await nft.list('chains')).map(({ chain }) => Object(chain));
  if (!chains.some(({ table, name }) => table === OWN_TABLE && name === STEER)) return null;
  const others = chains.filter(({ table }) => table !== OWN_TABLE);
  const found: string[] = [];
  for (const name of new Set(others.map(({ family, table }) => `${family} ${table}`))) {
    // A table that is gone by now has no rules.
    const text = await nft.run(`list table ${name}`).then(
      ({ output }) => output,
      () => '',
    );
    add(found, name, text, isWrittenByNft);
    const [family, table = ''] = name.split(' ');
    const command = family === 'ip6' ? 'ip6tables' : 'iptables';
    // Where nft cannot print a target of iptables, that can.
    if (text.includes('xt target "CONNMARK"'))
      add(found, name, await saved(`${command}-nft-save`, table), isWrittenByIptables);
  }
  for (const command of LEGACY)
    for (const table of legacyTables.flatMap((one) => (one === `${command} mangle` ? 'mangle' : [])))
      add(
        found,
        `${command}-legacy ${table}`,
        await saved(`${command}-legacy-save`, table),
        isWrittenByIptables,
      );
  return found;
}

function add(found: string[], table: string, text: string, isWritten: (line: string) => boolean): void {
  // Comments are quoted.
  const lines = text.split('\n').map((line) => line.replaceAll(/comment "[^"]*"/g, ''));
  const count = lines.filter(isWritten).length;
  if (count > 0) found.push(`${table} (${count})`);
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
