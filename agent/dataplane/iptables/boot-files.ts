import { toRestoreText } from 'ipset-ts';
import { setChange } from '../../apply/iptables/set-change.ts';
import { type IptablesRuleset, restoreText } from '../../render/iptables/tables.ts';

/** For `ipset restore`, `iptables-restore --noflush` and `ip6tables-restore --noflush`. */
export function iptablesBootFiles({ sets, families }: IptablesRuleset) {
  return {
    'rules.ipset': toRestoreText(setChange(new Map(), sets).first),
    'rules.v4': restoreText(families[4]),
    'rules.v6': restoreText(families[6]),
  };
}
