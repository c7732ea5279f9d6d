/** The part of Markdown that our pages use: headings, and fences of three backticks. */
export interface Section {
  /** '' before the first heading. */
  readonly heading: string;
  /** Number of #. */
  readonly level: number;
  readonly line: number;
  readonly fences: readonly Fence[];
}

export interface Fence {
  /** What stands behind the opening backticks. */
  readonly info: string;
  /** 1-based, of the opening backticks. */
  readonly line: number;
  /** Every line with its newline. */
  readonly text: string;
}

export class MarkdownError extends Error {
  override readonly name = 'MarkdownError';
}

export function parseMarkdown(file: string, text: string): Section[] {
  const sections: Section[] = [];
  let fences: Fence[] = [];
  let open: { info: string; line: number; text: string } | null = null;
  for (const [i, content] of text.split('\n').entries()) {
    const line = i + 1;
    if (open !== null) {
      if (content.trimEnd() === '```') {
        fences.push(open);
        open = null;
      } else open.text += `${content}\n`;
      continue;
    }
    const [, marks, heading] = /^(#{1,6}) +(.*\S)/.exec(content) ?? [];
    if (marks !== undefined && heading !== undefined) {
      fences = [];
      sections.push({ heading, level: marks.length, line, fences });
    } else if (content.startsWith('```')) {
      if (sections.length === 0) throw new MarkdownError(`${file}:${line}: a fence before the first heading`);
      open = { info: content.slice(3).trim(), line, text: '' };
    } else if (/^\s+```|^~~~/.test(content)) {
      throw new MarkdownError(`${file}:${line}: fences are three backticks at the start of a line`);
    }
  }
  if (open !== null) throw new MarkdownError(`${file}:${open.line}: this fence has no end`);
  return sections;
}

/** The fences of a page with this info, in order. */
export function fencesOf(file: string, text: string, info: string): Fence[] {
  return parseMarkdown(file, text).flatMap(({ fences }) => fences.filter((fence) => fence.info === info));
}

/** The file with other text in some of its fences, by the line of their opening backticks. */
export function replaceFences(text: string, replacements: ReadonlyMap<number, string>): string {
  const lines = text.split('\n');
  const result: string[] = [];
  for (let i = 0; i < lines.length; i++) {
    result.push(lines[i] ?? '');
    const replacement = replacements.get(i + 1);
    if (replacement === undefined) continue;
    while (i + 1 < lines.length && lines[i + 1]?.trimEnd() !== '```') i++;
    if (replacement !== '') result.push(...replacement.replace(/\n$/, '').split('\n'));
  }
  return result.join('\n');
}
