import type { WantedRules } from './other-rules.ts';

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

/** Rules that give packets another source when they leave: those of pods, above all. */
export const SOURCE_RULES: WantedRules = {
  isIn: ({ type, hook }) => type === 'nat' && hook === 'postrouting',
  nft: /\s(?:masquerade|snat)(?:\s|$)|\bxt target "(?:MASQUERADE|SNAT)"/,
  legacyTable: 'nat',
  legacy: /-j (?:MASQUERADE|SNAT)\b/,
  but: KUBE_PROXY,
};
