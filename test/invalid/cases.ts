import { fencesOf, parseMarkdown, replaceFences } from '../docs/markdown.ts';

/** One claim of a page of invalid documents. */
export interface InvalidCase {
  readonly claim: string;
  /** Of the heading in the page. */
  readonly line: number;
  readonly language: 'yaml' | 'json';
  readonly input: string;
  readonly problems: readonly string[];
}

/**
 * What a policy or rule case leaves unsaid: the fence `base` of the page, in which it takes the
 * place of `…`.
 */
const PLACE = '…';

/**
 * `## claim`, then a fence `yaml` or `json` with the input and a fence `problems` with the lines
 * expected.
 */
export function parseCases(page: string): InvalidCase[] {
  const cases: InvalidCase[] = [];
  let base = PLACE;
  for (const { heading: claim, line, fences } of parseMarkdown('the page', page)) {
    let input: { language: 'yaml' | 'json'; text: string } | null = null;
    for (const { info: language, text } of fences) {
      if (language === 'base') base = text;
      else if (language === 'yaml' || language === 'json') input = { language, text };
      else if (language === 'problems' && input !== null) {
        const whole = input.language === 'yaml' && !/^\s*(apiVersion|kind):|^%raw/m.test(input.text);
        const filled = whole ? fill(base, input.text) : input.text.replace(/^%raw\n/, '');
        const problems = text.split('\n').filter((row) => row !== '');
        cases.push({ claim, line, language: input.language, input: withCharacters(filled), problems });
        input = null;
      }
    }
  }
  return cases;
}

/** The page with the lines of its `problems` fences exchanged, in order. */
export function replaceProblems(page: string, problems: readonly (readonly string[])[]): string {
  const fences = fencesOf('the page', page, 'problems');
  return replaceFences(page, new Map(fences.map(({ line }, i) => [line, problems[i]?.join('\n') ?? ''])));
}

/** The base with the input in place of the line `…`, indented as far. */
function fill(base: string, input: string): string {
  const rows = base.split('\n').flatMap((row) => {
    if (row.trim() !== PLACE) return [row];
    const indent = row.slice(0, row.indexOf(PLACE));
    return input
      .trimEnd()
      .split('\n')
      .map((line) => (line === '' ? '' : indent + line));
  });
  return rows.join('\n');
}

/** `␀` and the like stand for characters that a page should not have. */
function withCharacters(text: string): string {
  const characters: Record<string, string> = {
    '␀': '\0',
    '␍': '\r',
    '␉': '\t',
    '␇': '\u0007',
    '␎': '\ufeff',
  };
  return text.replace(/[␀␍␉␇␎]/g, (character) => characters[character] ?? character);
}
