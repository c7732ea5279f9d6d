import type { IptablesTable } from '../../render/iptables/tables.ts';
import { type RewrittenChain, shownKey } from './rule-change.ts';
import type { SavedTables } from './saved.ts';

/**
 * Another version of iptables may show a rule otherwise than it was written. Where it is shown in
 * one and the same way before a repair and after it, that is its form from now on: it would be
 * repaired for ever else. What somebody keeps changing is none, at least where it does something
 * else.
 * @returns by shownKey
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

/** Where a rule leads and what sets it names: no version shows that otherwise. */
function effectOf(text: string): string {
  const bare = ` ${text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""')}`;
  return (bare.match(/ (?:! )?(?:-[jg]|--match-set) \S+/g) ?? []).join('');
}

/** Drops the forms of rules that nobody wants any more. */
export function forgetForms(forms: Map<string, string>, wanted: readonly IptablesTable[]): void {
  if (forms.size === 0) return;
  const chains = wanted.flatMap((table) => [...table.chains.values()]);
  const keys = new Set(chains.flatMap((chain) => chain.rules.map(({ text }) => shownKey(chain, text))));
  for (const key of forms.keys()) if (!keys.has(key)) forms.delete(key);
}
