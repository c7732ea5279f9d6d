import { present } from '../../lib/sharing/present.ts';
import type { AppliedTo } from '../objects.ts';
import { asFields, asList } from '../schema/json-schema.ts';
import { checkGroupName } from './names.ts';
import type { FieldPath, Findings } from './problem.ts';
import { checkSelector, toSelector } from './selector.ts';

/** Antrea's targets of policies other than Nodes. */
export const POD_TARGETS = ['podSelector', 'namespaceSelector', 'serviceAccount', 'service'] as const;

/**
 * The groups that decide whether a raw policy applies to pods only, from `appliedTo` of the spec
 * and of all rules: it does if every one of these groups selects pods. Empty: all targets are among
 * POD_TARGETS. Null: there is another kind of target, or none at all.
 */
export function podGroupsOf(rawSpec: unknown): readonly string[] | null {
  const spec = asFields(rawSpec);
  if (spec === null) return null;
  const rules = [...asList(spec.ingress), ...asList(spec.egress)];
  const lists = [spec.appliedTo, ...rules.map((rule) => asFields(rule)?.appliedTo)];
  const items = lists.flatMap(asList);
  const groups = items.map(groupOf);
  if (items.length === 0 || !items.every((item, at) => isPodTarget(item) || groups[at] !== null)) return null;
  return [...new Set(groups.filter((group) => group !== null))];
}

/** The group of an item that has no other field; else null. */
function groupOf(raw: unknown): string | null {
  const { group, ...others } = asFields(raw) ?? {};
  return typeof group === 'string' && Object.keys(others).length === 0 ? group : null;
}

function isPodTarget(raw: unknown): boolean {
  const names = Object.keys(asFields(raw) ?? {});
  return names.length > 0 && names.every((name) => (POD_TARGETS as readonly string[]).includes(name));
}

/**
 * Fields that select something else than Nodes are not in the schema, which reports them
 * (schema-problem.ts).
 */
export function checkAppliedTo(raw: unknown, path: FieldPath, found: Findings): void {
  for (const [index, item] of asList(raw).entries()) {
    const target = asFields(item);
    if (target === null) continue;
    const at = [...path, index];
    const names = Object.keys(target);
    if (names.length === 0) {
      found.error(at, 'is empty; it needs a nodeSelector ({nodeSelector: {}} selects every Node) or a group');
    } else if (names.includes('nodeSelector') && names.includes('group')) {
      found.error(at, 'has nodeSelector and group in one item; write one item for each (items are OR-ed)');
    }
    if (typeof target.group === 'string') checkGroupName(target.group, [...at, 'group'], found);
    checkSelector(target.nodeSelector, [...at, 'nodeSelector'], found);
  }
}

/** Either the policy has appliedTo or every rule has it; an empty list counts as absent. */
export function checkAppliedToPlaces(rawSpec: unknown, found: Findings): void {
  const spec = asFields(rawSpec);
  if (spec === null) return;
  const inSpec = isThere(spec.appliedTo);
  let without = 0;
  let rules = 0;
  for (const direction of ['ingress', 'egress']) {
    for (const [index, rule] of asList(spec[direction]).entries()) {
      rules++;
      if (!isThere(asFields(rule)?.appliedTo)) without++;
      else if (inSpec) {
        const at = ['spec', direction, index, 'appliedTo'];
        found.error(at, 'must be left out, because spec.appliedTo is set; use one or the other');
      }
    }
  }
  if (inSpec || (without === 0 && rules > 0)) return;
  const message =
    without === rules
      ? 'is missing; select the Nodes here or in every rule ([{nodeSelector: {}}] selects every Node)'
      : `is missing here and in ${without} of ${rules} rules; set it here or in every rule`;
  found.error(['spec', 'appliedTo'], message);
}

/**
 * Whether the list is present and not empty. A value of the wrong type counts as present; the
 * schema reports it.
 */
function isThere(raw: unknown): boolean {
  return raw !== undefined && !(Array.isArray(raw) && raw.length === 0);
}

export function toAppliedTo(items: readonly AppliedTo[]): AppliedTo[] {
  return items.map(({ nodeSelector, group }) => ({
    ...(nodeSelector === undefined ? {} : { nodeSelector: toSelector(nodeSelector) }),
    ...present({ group }),
  }));
}
