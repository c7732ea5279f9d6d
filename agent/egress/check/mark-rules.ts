import type { Nftables } from 'nftables-napi';
import { OWN_TABLE, otherRules, type savedRules, type WantedRules } from '../../inspect/machine-facts.ts';
import { STEER } from '../render/frame.ts';
import { MARK_MASK } from '../render/marks.ts';

/**
 * The tables of others, of nftables and of either iptables, whose rules write the bits of a
 * connection's mark by which egress gateways know its way, with the number of these rules. Null:
 * this node has no egress gateways.
 */
export async function markRules(
  nft: Pick<Nftables, 'list' | 'run'>,
  legacyTables: readonly string[],
  saved?: typeof savedRules,
): Promise<string[] | null> {
  const chains = (await nft.list('chains')).map(({ chain }) => Object(chain));
  if (!chains.some(({ table, name }) => table === OWN_TABLE && name === STEER)) return null;
  return await otherRules(nft, legacyTables, MARK_RULES, saved);
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
  legacyTable: 'mangle',
  legacy: { test: isWrittenByIptables },
};
