import { IpsetError } from './errors.ts';
import type { SetFamily } from './operation.ts';

/** A set with its entries, as the kernel has it: of any type, whoever made it. */
export interface SavedSet {
  /** Up to the first blank: a name made by others may have some. */
  readonly name: string;
  readonly type: string;
  readonly family: SetFamily;
  /** Null: a set of this type has none. */
  readonly maxelem: number | null;
  /** Seconds; null: the set was created without. */
  readonly timeout: number | null;
  /** As ipset prints them: `10.0.0.0/8 nomatch`, `192.0.2.1,tcp:80 timeout 20`. */
  readonly entries: readonly string[];
}

/**
 * Parses the output of `ipset save`. Throws an IpsetError with code UNKNOWN for text that it cannot
 * parse.
 */
export function parseSave(text: string): SavedSet[] {
  const sets: (SavedSet & { entries: string[] })[] = [];
  let prefix = '';
  for (const line of withoutLineEnds(text).split('\n')) {
    const current = sets.at(-1);
    if (line.startsWith('create ')) {
      const set = toSavedSet(line.split(' '));
      sets.push(set);
      prefix = `add ${set.name} `;
    } else if (current !== undefined && line.startsWith(prefix))
      current.entries.push(line.slice(prefix.length));
    else if (line !== '') throw new IpsetError('UNKNOWN', `cannot parse the output of ipset: ${line}`);
  }
  return sets;
}

/** Only a comment is quoted; one written by a third party may contain line ends. */
function withoutLineEnds(text: string): string {
  if (!text.includes(' comment "')) return text;
  return text.replaceAll(/(?<= comment )"[^"]*"/g, (comment) => comment.replaceAll('\n', ' '));
}

function toSavedSet(words: readonly string[]): SavedSet & { entries: string[] } {
  const [, name = '', type = ''] = words;
  const numberOf = (option: string): number | null => {
    const at = words.indexOf(option, 3);
    return at < 0 ? null : Number(words[at + 1]);
  };
  return {
    name,
    type,
    family: words.includes('inet6', 3) ? 'inet6' : 'inet',
    maxelem: numberOf('maxelem'),
    timeout: numberOf('timeout'),
    entries: [],
  };
}
