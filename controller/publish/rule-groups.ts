import type { CompiledPolicy, CompiledRule } from '../../apis/compiled.ts';
import { namedBy } from '../../apis/rule-peer.ts';
import type { Span } from './spans.ts';

/** A rule group: the rules of one policy that apply to the same nodes. */
export interface RuleGroup {
  readonly span: Span;
  readonly content: GroupContent;
}

/** The same object as long as the rules are the same, whichever nodes they apply to. */
export interface GroupContent {
  /** The group's name. */
  readonly part: string;
  readonly rules: readonly CompiledRule[];
  /** Ids of the sets that the rules name, each once. */
  readonly addressSets: readonly string[];
  readonly serviceSets: readonly string[];
}

/**
 * A rule group before and after a change; null if it did not or does not exist. Spans or contents
 * differ.
 */
export interface GroupChange {
  readonly before: RuleGroup | null;
  readonly now: RuleGroup | null;
}

/**
 * A policy's rule groups, matched with the previous ones. A group that applies to the same nodes,
 * or has the same rules, keeps its name, so that a relabelled node or an edited rule leads to the
 * smallest possible messages.
 */
export function groupsOf(policy: CompiledPolicy, before: readonly RuleGroup[]): readonly RuleGroup[] {
  const groups = new Map<Span, CompiledRule[]>();
  for (const [i, rule] of policy.rules.entries()) {
    const span = policy.spans[i];
    if (span === undefined || span.size === 0) continue;
    const group = groups.get(span);
    if (group === undefined) groups.set(span, [rule]);
    else group.push(rule);
  }
  const left = new Set(before);
  const found = new Map<Span, RuleGroup>();
  const pair = (fits: (part: RuleGroup, span: Span, rules: readonly CompiledRule[]) => boolean): void => {
    for (const [span, rules] of groups) {
      if (found.has(span)) continue;
      const group = left.values().find((one) => fits(one, span, rules));
      if (group === undefined) continue;
      left.delete(group);
      found.set(span, group);
    }
  };
  pair((group, span, rules) => group.span === span && sameRules(group.content.rules, rules));
  pair((group, span) => group.span === span);
  pair((group, _, rules) => sameRules(group.content.rules, rules));
  pair(() => true);
  const taken = new Set(found.values().map((group) => group.content.part));
  const names = freeNames(`${policy.apiGroup}/${policy.name}`, taken);
  return [...groups].map(([span, rules]) => {
    const group = found.get(span);
    if (group === undefined) return { span, content: toContent(names.next().value, rules) };
    const same = sameRules(group.content.rules, rules);
    if (same && group.span === span) return group;
    return { span, content: same ? group.content : toContent(group.content.part, rules) };
  });
}

function* freeNames(prefix: string, taken: ReadonlySet<string>): Generator<string, never> {
  for (let number = 0; ; number++) {
    const name = `${prefix}/${number}`;
    if (!taken.has(name)) yield name;
  }
}

function sameRules(a: readonly CompiledRule[], b: readonly CompiledRule[]): boolean {
  return a.length === b.length && a.every((rule, i) => rule === b[i]);
}

function toContent(name: string, rules: readonly CompiledRule[]): GroupContent {
  const { addressSets, serviceSets } = namedBy(rules);
  return {
    part: name,
    rules,
    addressSets: [...new Set(addressSets)],
    serviceSets: [...new Set(serviceSets)],
  };
}

/** Rule groups are matched by name. */
export function diffGroups(before: readonly RuleGroup[], now: readonly RuleGroup[]): GroupChange[] {
  const was = new Map(before.map((group) => [group.content.part, group]));
  const is = new Set(now.map((group) => group.content.part));
  return [
    ...now.flatMap((group) => {
      const old = was.get(group.content.part) ?? null;
      return old === group ? [] : [{ before: old, now: group }];
    }),
    ...before.filter((group) => !is.has(group.content.part)).map((group) => ({ before: group, now: null })),
  ];
}
