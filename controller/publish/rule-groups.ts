import { type CompiledPolicy, type CompiledRule, namedBy } from '../../apis/compiled.ts';
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
export interface RuleGroupChange {
  readonly before: RuleGroup | null;
  readonly now: RuleGroup | null;
}

/**
 * A policy's rule groups. A group is named after its first rule: so every controller names it the
 * same, and it keeps its name when a node is relabelled or another rule is edited.
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
  const was = new Map(before.map((group) => [group.content.part, group]));
  return [...groups].map(([span, rules]) => {
    const part = `${versionKey(policy)}/${rules[0]?.source.rule}`;
    const group = was.get(part);
    if (group === undefined || !sameRules(group.content.rules, rules))
      return { span, content: toContent(part, rules) };
    return group.span === span ? group : { span, content: group.content };
  });
}

/** Names a policy, or one version of it where nodes may have another one. */
export function versionKey({ apiGroup, name, version }: Omit<CompiledPolicy, 'rules' | 'spans'>): string {
  return version === undefined ? `${apiGroup}/${name}` : `${apiGroup}/${name}@${version}`;
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
export function diffGroups(before: readonly RuleGroup[], now: readonly RuleGroup[]): RuleGroupChange[] {
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
