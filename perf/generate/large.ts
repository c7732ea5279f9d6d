/** Rule sets for what large numbers cost, beside the kinds. */
import { ruleSet } from './kinds.ts';
import type { Member, RuleSet } from './ruleset.ts';

const MEMBERS = 5;

/** A port for each rule, and a list of its own of five addresses: as many address sets as rules. */
export function distinctSets(rules: number): RuleSet {
  const ports = ruleSet('ports', rules);
  const lists = ports.rules.map((rule, i) => {
    if (i === rules - 1) return rule;
    const net = `${20 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`;
    const cidrs = Array.from({ length: MEMBERS }, (_, host) => `${net}.${1 + 2 * host}/32`);
    return { ...rule, peer: { kind: 'blocks' as const, cidrs } };
  });
  return { ...ports, name: `distinctSets-${rules}`, rules: lists, pods: [], nodes: [] };
}

/** The set in a cluster of IPv4 alone. */
export function ipv4Only(set: RuleSet): RuleSet {
  const only = (members: readonly Member[]): Member[] =>
    members.map(({ labels, addresses }) => ({
      labels,
      addresses: addresses.filter((address) => !address.includes(':')),
    }));
  return { ...set, name: `${set.name}-ipv4`, pods: only(set.pods), nodes: only(set.nodes) };
}

/** The first rule is for a deployment of so many pods, the last objects of the set. */
export function withCrowd(set: RuleSet, pods: number): RuleSet {
  const crowd = Array.from({ length: pods }, (_, i): Member => {
    const host = i + 1;
    return {
      labels: { app: 'crowd' },
      addresses: [`10.${200 + (host >> 16)}.${(host >> 8) & 255}.${host & 255}`],
    };
  });
  const [first, ...rest] = set.rules;
  if (first === undefined) throw new Error('no rule');
  const rules = [{ ...first, peer: { kind: 'pods' as const, labels: { app: 'crowd' } } }, ...rest];
  return { ...set, name: `${set.name}-crowd-${pods}`, rules, pods: [...set.pods, ...crowd] };
}

/**
 * Rules for lists of addresses, as blocklists are: `rules` × `addresses` single addresses, no two
 * of them neighbours.
 */
export function addressLists(rules: number, addresses: number): RuleSet {
  const ports = ruleSet('ports', rules);
  const lists = ports.rules.map((rule, i) => {
    const cidrs = Array.from({ length: addresses }, (_, j) => {
      const host = 2 * (i * addresses + j) + 1;
      return `${20 + (host >> 24)}.${(host >> 16) & 255}.${(host >> 8) & 255}.${host & 255}/32`;
    });
    const peer = i === rules - 1 ? rule.peer : { kind: 'blocks' as const, cidrs };
    return { ...rule, peer };
  });
  return { ...ports, name: `addressLists-${rules}-${addresses}`, rules: lists, pods: [], nodes: [] };
}
