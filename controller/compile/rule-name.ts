import type { ClusterNetworkPolicySpec, Direction, Rule } from '../../apis/objects.ts';
import { shortHash } from '../../lib/sharing/hash.ts';

/**
 * Names for the rules of a policy, by direction and rule index: the rule's own name, or one made
 * from its content, so that moving a rule keeps its name. Equal unnamed rules, and a made name that
 * is already taken, get a number appended.
 */
export function ruleNames(spec: ClusterNetworkPolicySpec): Record<Direction, string[]> {
  const rules = { ingress: spec.ingress ?? [], egress: spec.egress ?? [] };
  const taken = new Set([...rules.ingress, ...rules.egress].flatMap((rule) => rule.name || []));
  /** For each made name, the last number appended to it: n equal rules need n steps, not n². */
  const counts = new Map<string, number>();
  const generate = (direction: Direction, rule: Rule): string => {
    const base = `${direction}-${rule.action.toLowerCase()}-${shortHash(7, canonical(rule))}`;
    let count = counts.get(base) ?? 0;
    let name: string;
    do {
      count++;
      name = count === 1 ? base : `${base}-${count}`;
    } while (taken.has(name));
    counts.set(base, count);
    taken.add(name);
    return name;
  };
  const nameAll = (direction: Direction): string[] =>
    rules[direction].map((rule) => rule.name || generate(direction, rule));
  return { ingress: nameAll('ingress'), egress: nameAll('egress') };
}

/** The value with object keys sorted, so that the order of fields in a file doesn't matter. */
function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(canonical);
  if (typeof value !== 'object' || value === null) return value;
  const sorted = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(sorted.map(([key, field]) => [key, canonical(field)]));
}
