import { toRestoreText } from 'ipset-ts';
import { setChange } from '../agent/apply/iptables/set-change.ts';
import { restoreText } from '../agent/render/iptables/iptables-text.ts';
import type { IptablesRuleset } from '../agent/render/iptables/tables.ts';

/**
 * All that iptables would hold, as one could load it by hand where nothing of ours is: each part is
 * for the command that its heading names.
 */
export function iptablesTexts({ sets, families }: IptablesRuleset): string {
  const parts = [
    ['ipset restore', toRestoreText(setChange(new Map(), sets).first)],
    ['iptables-restore --noflush', restoreText(families[4])],
    ['ip6tables-restore --noflush', restoreText(families[6])],
  ] as const;
  return parts.flatMap(([command, text]) => (text === '' ? [] : [`# ${command}\n${text}`])).join('');
}
