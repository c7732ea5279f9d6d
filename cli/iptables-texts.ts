import { toRestoreText } from 'ipset-ts';
import { setChange } from '../agent/apply/iptables/set-change.ts';
import { restoreText } from '../agent/render/iptables/iptables-text.ts';
import type { IptablesRuleset } from '../agent/render/iptables/tables.ts';

/**
 * The whole iptables ruleset as text that can be loaded by hand on a node without rules of
 * nodewall. Each part is input for the command in its heading.
 */
export function iptablesTexts({ sets, families }: IptablesRuleset): string {
  const parts = [
    ['ipset restore', toRestoreText(setChange(new Map(), sets).first)],
    ['iptables-restore --noflush', restoreText(families[4])],
    ['ip6tables-restore --noflush', restoreText(families[6])],
  ] as const;
  return parts.flatMap(([command, text]) => (text === '' ? [] : [`# ${command}\n${text}`])).join('');
}
