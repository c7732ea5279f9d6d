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
  let claim = '';
  let claimLine = 0;
  let base = PLACE;
  let input: { language: 'yaml' | 'json'; text: string } | null = null;
  for (const { language, text, heading, line } of parts(page)) {
    if (heading !== null) {
      claim = heading;
      claimLine = line;
    } else if (language === 'base') base = text;
    else if (language === 'yaml' || language === 'json') input = { language, text };
    else if (language === 'problems' && input !== null) {
      const whole = input.language === 'yaml' && !/^\s*(apiVersion|kind):|^%raw/m.test(input.text);
      const filled = whole ? fill(base, input.text) : input.text.replace(/^%raw\n/, '');
      const problems = text.split('\n').filter((row) => row !== '');
      cases.push({
        claim,
        line: claimLine,
        language: input.language,
        input: withCharacters(filled),
        problems,
      });
      input = null;
    }
  }
  return cases;
}

/** The page with the lines of its `problems` fences exchanged, in order. */
export function replaceProblems(page: string, problems: readonly (readonly string[])[]): string {
  let index = 0;
  return page.replace(
    /^```problems\n[\s\S]*?^```/gm,
    () => `\`\`\`problems\n${problems[index++]?.join('\n')}\n\`\`\``,
  );
}

interface Part {
  readonly heading: string | null;
  readonly language: string;
  readonly text: string;
  readonly line: number;
}

function* parts(page: string): Generator<Part> {
  const rows = page.split('\n');
  for (let row = 0; row < rows.length; row++) {
    const text = rows[row] ?? '';
    const line = row + 1;
    if (text.startsWith('## ')) yield { heading: text.slice(3), language: '', text: '', line };
    if (!text.startsWith('```')) continue;
    const end = rows.indexOf('```', row + 1);
    yield { heading: null, language: text.slice(3), text: `${rows.slice(row + 1, end).join('\n')}\n`, line };
    row = end;
  }
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
