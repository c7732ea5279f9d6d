import { loadAddon } from '../run/with-kernel.ts';
import { legacyTables } from './machine-facts.ts';
import { otherRules, type WantedRules } from './other-rules.ts';

/** kube-proxy's chains and table: NodePort policies are made for these. */
const KUBE_PROXY = /^(?:KUBE-|service-|external-|nodeport|nat-|endpoint-|services|masquerading|mark-for-)/;

/**
 * Rules that give packets another destination before the filter: ports that a container runtime
 * publishes, host ports, redirections.
 */
export const DESTINATION_RULES: WantedRules = {
  isIn: ({ type, hook }) => type === 'nat' && hook === 'prerouting',
  nft: /\s(?:dnat|redirect)(?:\s|$)|\bxt target "(?:DNAT|REDIRECT)"/,
  legacyTable: 'nat',
  legacy: /-j (?:DNAT|REDIRECT)\b/,
  but: KUBE_PROXY,
};

/** Those that name a port of the protocol, by number or within a range. */
export function destinationRulesAt(protocol: 'tcp' | 'udp' | 'sctp', port: number): WantedRules {
  const { nft, legacy } = DESTINATION_RULES;
  const isAt = (line: string): boolean => line.includes(protocol) && namesPort(line, port);
  return {
    ...DESTINATION_RULES,
    nft: { test: (line) => nft.test(line) && isAt(line) },
    legacy: { test: (line) => legacy.test(line) && isAt(line) },
  };
}

/** The tables of this machine that have such rules; none where they cannot be listed. */
export async function tablesAt(protocol: 'tcp' | 'udp' | 'sctp', port: number): Promise<string[]> {
  const { Nftables } = await loadAddon();
  const nft = new Nftables();
  try {
    return await otherRules(nft, await legacyTables(), destinationRulesAt(protocol, port));
  } catch {
    return [];
  } finally {
    await nft.close();
  }
}

/** As nft writes it (`dport 80`, `dport { 80, 8000-8100 }`), and iptables (`--dport 8000:8100`). */
function namesPort(line: string, port: number): boolean {
  const [, several, one] = /\bdports? (?:\{ ([^}]*) \}|(\S+))/.exec(line) ?? [];
  return (several ?? one ?? '').split(',').some((text) => {
    const [first = Number.NaN, last = first] = text.trim().split(/[-:]/).map(Number);
    return first <= port && port <= last;
  });
}

/** Rules that give packets another source when they leave: those of pods, above all. */
export const SOURCE_RULES: WantedRules = {
  isIn: ({ type, hook }) => type === 'nat' && hook === 'postrouting',
  nft: /\s(?:masquerade|snat)(?:\s|$)|\bxt target "(?:MASQUERADE|SNAT)"/,
  legacyTable: 'nat',
  legacy: /-j (?:MASQUERADE|SNAT)\b/,
  but: KUBE_PROXY,
};
