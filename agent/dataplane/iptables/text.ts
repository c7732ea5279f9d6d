import { toRestoreText } from 'ipset-ts';
import type { NodeState } from '../../../apis/compiled.ts';
import type { Config } from '../../../apis/config.ts';
import { setChange } from '../../apply/iptables/set-change.ts';
import { iptablesRenderer } from '../../render/iptables/render.ts';
import { type IptablesRuleset, restoreText } from '../../render/iptables/tables.ts';
import type { DataplaneText } from '../dataplane.ts';

export const iptablesText: DataplaneText = { ruleset: rulesetText, firstTransaction: rulesetText };

/** A node with this dataplane has no egress gateways (docs/egress-operations.md). */
const WITHOUT_EGRESS = '# Egress gateways need the dataplane nftables: their rules are not here.\n';

/** Each part is input for the command in its heading. */
function rulesetText({ egress, ...state }: NodeState, config: Config): string {
  const files = iptablesBootFiles(iptablesRenderer(config)(state));
  const parts = [
    ['ipset restore', files['rules.ipset']],
    ['iptables-restore --noflush', files['rules.v4']],
    ['ip6tables-restore --noflush', files['rules.v6']],
  ] as const;
  const texts = parts.flatMap(([command, text]) => (text === '' ? [] : [`# ${command}\n${text}`]));
  return [...(egress === undefined ? [] : [WITHOUT_EGRESS]), ...texts].join('');
}

/** For `ipset restore`, `iptables-restore --noflush` and `ip6tables-restore --noflush`. */
export function iptablesBootFiles({ sets, families }: IptablesRuleset) {
  return {
    'rules.ipset': toRestoreText(setChange(new Map(), sets).first),
    'rules.v4': restoreText(families[4]),
    'rules.v6': restoreText(families[6]),
  };
}
