import { toRestoreText } from 'ipset-ts';
import type { NodeState } from '../../../apis/compiled.ts';
import type { Config } from '../../../apis/config.ts';
import { setChange } from '../../apply/iptables/set-change.ts';
import { restoreText } from '../../render/iptables/iptables-text.ts';
import { iptablesRenderer } from '../../render/iptables/render.ts';
import type { DataplaneText } from '../kind.ts';

export const iptablesText: DataplaneText = { ruleset: rulesetText, firstTransaction: rulesetText };

/** Each part is input for the command in its heading. */
function rulesetText(state: NodeState, config: Config): string {
  const { sets, families } = iptablesRenderer(config)(state);
  const parts = [
    ['ipset restore', toRestoreText(setChange(new Map(), sets).first)],
    ['iptables-restore --noflush', restoreText(families[4])],
    ['ip6tables-restore --noflush', restoreText(families[6])],
  ] as const;
  return parts.flatMap(([command, text]) => (text === '' ? [] : [`# ${command}\n${text}`])).join('');
}
