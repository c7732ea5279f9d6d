import type { IpSet, IptablesRuleset } from '../../agent/render/iptables/tables.ts';
import { addressSet, iptablesRuleset } from './iptables-ruleset.ts';

export const WEB4 = addressSet('nodewall-web-4', 4, ['192.0.2.1', '192.0.2.2']);
export const NETS6 = addressSet('nodewall-nets-6', 6, ['2001:db8::/32', '::', 'fd00::1']);
export const SERVICES: IpSet = {
  name: 'nodewall-services-4',
  family: 4,
  type: 'hash:ip,port',
  // 10.0.0.1 tcp:80, 10.0.0.1 sctp:443
  members: {
    singles: Uint8Array.of(10, 0, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0, 10, 0, 0, 1, 132, 0, 0, 0, 1, 187, 0, 0),
    prefixes: [],
  },
};
export const JUMPS = { INPUT: 'NODEWALL-INPUT', POSTROUTING: 'NODEWALL-POSTROUTING' } as const;

/** One family each: sets have one. */
export const RULESET: IptablesRuleset = withSets([WEB4, NETS6, SERVICES]);

export function withSets(
  sets: readonly IpSet[],
  web: readonly string[] = ['-p tcp -m tcp --dport 80 -j ACCEPT @one'],
): IptablesRuleset {
  const four = iptablesRuleset({
    filter: {
      'NODEWALL-INPUT': [
        '-m set --match-set nodewall-web-4 src -g NODEWALL-WEB',
        '-m comment --comment "a/b -j NODEWALL-WEB" -j RETURN',
      ],
      'NODEWALL-WEB': [...web, '-m set --match-set nodewall-services-4 dst,dst -j DROP @two'],
    },
    nat: { 'NODEWALL-POSTROUTING': ['-m mark --mark 0x1000/0x1000 -j MASQUERADE --random'] },
    jumps: JUMPS,
  });
  const six = iptablesRuleset({
    filter: { 'NODEWALL-INPUT': ['-m set --match-set nodewall-nets-6 src -j DROP @one'] },
    jumps: JUMPS,
  });
  return {
    sets: new Map(sets.map((set) => [set.name, set])),
    families: { 4: four.families[4], 6: six.families[6] },
  };
}
