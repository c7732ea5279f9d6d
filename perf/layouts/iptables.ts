/**
 * One iptables rule for each policy rule, its addresses in an ipset: the layout of the original
 * proposal for policies on nodes.
 */
import type { GeneratedRule, RuleSet } from '../generate/ruleset.ts';
import { addressLists } from './address-lists.ts';

const TARGETS: Readonly<Record<GeneratedRule['action'], string>> = {
  Allow: 'ACCEPT',
  Drop: 'DROP',
  Reject: 'REJECT --reject-with tcp-reset',
};

/**
 * For `ipset restore`. IPv4 alone: the rules of the other family cost an IPv4 connection nothing.
 */
export function ipsetText(set: RuleSet): string {
  const { lists } = addressLists(set, 4);
  const lines = lists.flatMap(({ name, members }) => [
    `create ${name} hash:net family inet`,
    ...members.map((member) => `add ${name} ${member}`),
  ]);
  return lines.map((line) => `${line}\n`).join('');
}

/**
 * For `iptables-restore`; the sets are there already. The address set is looked up before the port,
 * as that proposal's rules do.
 */
export function iptablesText(set: RuleSet): string {
  const { names } = addressLists(set, 4);
  const rules = set.rules.flatMap((rule, i) => {
    const name = names[i];
    if (rule.protocol !== 'TCP') throw new Error('this layout is for TCP rules alone');
    if (name === null) return [];
    const ports = rule.ports === null ? '' : ` --dport ${rule.ports.from}:${rule.ports.to}`;
    return [`-A RULES -m set --match-set ${name} src -p tcp${ports} -j ${TARGETS[rule.action]}`];
  });
  return [
    '*filter',
    ':INPUT ACCEPT',
    ':FORWARD ACCEPT',
    ':OUTPUT ACCEPT',
    ':RULES -',
    '-A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT',
    '-A INPUT -j RULES',
    '-A OUTPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT',
    ...rules,
    'COMMIT',
    '',
  ].join('\n');
}
