import { parseMarkdown } from '../docs/markdown.ts';

/** The `sh` fences of a document, by the heading they stand below. */
export interface ShellBlock {
  /** The nearest heading, without its marks. */
  readonly heading: string;
  /** 1-based line of its first command. */
  readonly line: number;
  readonly script: string;
}

export function shellBlocks(text: string): ShellBlock[] {
  return parseMarkdown('the page', text).flatMap(({ heading, fences }) =>
    fences
      .filter(({ info }) => info === 'sh')
      .map(({ line, text }) => ({ heading, line: line + 1, script: text.trimEnd() })),
  );
}
