import type { CompiledPolicy, CompiledRule } from '../../apis/compiled.ts';
import { namedBy } from '../../apis/rule-peer.ts';
import type { Span } from './spans.ts';

/** A rule group: the rules of one policy that apply to the same nodes. */
export interface Part {
  readonly span: Span;
  readonly content: PartContent;
}

/** The same object as long as the rules are the same, whichever nodes they apply to. */
export interface PartContent {
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
export interface PartChange {
  readonly before: Part | null;
  readonly now: Part | null;
}

/**
 * A policy's rule groups, matched with the previous ones. A group that applies to the same nodes,
 * or has the same rules, keeps its name, so that a relabelled node or an edited rule leads to the
 * smallest possible messages.
 */
export function partsOf(policy: CompiledPolicy, before: readonly Part[]): readonly Part[] {
  const groups = new Map<Span, CompiledRule[]>();
  for (const [i, rule] of policy.rules.entries()) {
    const span = policy.spans[i];
    if (span === undefined || span.size === 0) continue;
    const group = groups.get(span);
    if (group === undefined) groups.set(span, [rule]);
    else group.push(rule);
  }
  const left = new Set(before);
  const found = new Map<Span, Part>();
  const pair = (fits: (part: Part, span: Span, rules: readonly CompiledRule[]) => boolean): void => {
    for (const [span, rules] of groups) {
      if (found.has(span)) continue;
      const part = left.values().find((one) => fits(one, span, rules));
      if (part === undefined) continue;
      left.delete(part);
      found.set(span, part);
    }
  };
  pair((part, span, rules) => part.span === span && sameRules(part.content.rules, rules));
  pair((part, span) => part.span === span);
  pair((part, _, rules) => sameRules(part.content.rules, rules));
  pair(() => true);
  const taken = new Set(found.values().map((part) => part.content.part));
  const names = freeNames(`${policy.apiGroup}/${policy.name}`, taken);
  return [...groups].map(([span, rules]) => {
    const part = found.get(span);
    if (part === undefined) return { span, content: toContent(names.next().value, rules) };
    const same = sameRules(part.content.rules, rules);
    if (same && part.span === span) return part;
    return { span, content: same ? part.content : toContent(part.content.part, rules) };
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

function toContent(part: string, rules: readonly CompiledRule[]): PartContent {
  const { addressSets, serviceSets } = namedBy(rules);
  return { part, rules, addressSets: [...new Set(addressSets)], serviceSets: [...new Set(serviceSets)] };
}

/** Rule groups are matched by name. */
export function partChanges(before: readonly Part[], now: readonly Part[]): PartChange[] {
  const was = new Map(before.map((part) => [part.content.part, part]));
  const is = new Set(now.map((part) => part.content.part));
  return [
    ...now.flatMap((part) => {
      const old = was.get(part.content.part) ?? null;
      return old === part ? [] : [{ before: old, now: part }];
    }),
    ...before.filter((part) => !is.has(part.content.part)).map((part) => ({ before: part, now: null })),
  ];
}
