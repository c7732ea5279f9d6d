import type { IptablesTable } from '../../render/iptables/tables.ts';
import { type RewrittenChain, shownKey } from './rule-change.ts';
import type { SavedTables } from './saved.ts';

/**
 * Finds rules that another version of iptables prints differently from how they were written. If a
 * rule is printed in the same way before and after a repair, that is its form from now on;
 * otherwise it would be repaired forever. A rule that a third party keeps changing has no such
 * form, at least if the change alters its effect.
 * @returns the forms by shownKey
 */
export function shownForms(rewritten: readonly RewrittenChain[], now: SavedTables): Map<string, string> {
  const forms = new Map<string, string>();
  for (const { table, chain, was } of rewritten) {
    const rules = now[table].chains.get(chain.name);
    if (rules?.length !== chain.rules.length || rules.length !== was.length) continue;
    for (const [i, { text }] of chain.rules.entries()) {
      const form = rules[i]?.text ?? text;
      const isForm = form !== text && form === was[i]?.text && effectOf(form) === effectOf(text);
      if (isForm) forms.set(shownKey(chain, text), form);
    }
  }
  return forms;
}

/** The rule's target and the sets it names: every version prints these in the same way. */
function effectOf(text: string): string {
  const bare = ` ${text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""')}`;
  return (bare.match(/ (?:! )?(?:-[jg]|--match-set) \S+/g) ?? []).join('');
}

/** Deletes the forms of rules that are no longer desired. */
export function forgetForms(forms: Map<string, string>, wanted: readonly IptablesTable[]): void {
  if (forms.size === 0) return;
  const chains = wanted.flatMap((table) => [...table.chains.values()]);
  const keys = new Set(chains.flatMap((chain) => chain.rules.map(({ text }) => shownKey(chain, text))));
  for (const key of forms.keys()) if (!keys.has(key)) forms.delete(key);
}
