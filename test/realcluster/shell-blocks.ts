/** The `sh` fences of a document, by the heading they stand below. */
export interface ShellBlock {
  /** The nearest heading, without its marks. */
  readonly heading: string;
  /** 1-based line of its first command. */
  readonly line: number;
  readonly script: string;
}

export function shellBlocks(text: string): ShellBlock[] {
  const blocks: ShellBlock[] = [];
  let heading = '';
  let open: { line: number; lines: string[] } | null = null;
  text.split('\n').forEach((line, i) => {
    if (open !== null && line.trim() === '```') {
      blocks.push({ heading, line: open.line, script: open.lines.join('\n') });
      open = null;
    } else if (open !== null) open.lines.push(line);
    else if (line.trim() === '```sh') open = { line: i + 2, lines: [] };
    else if (line.startsWith('#')) heading = line.replace(/^#+ /, '');
  });
  return blocks;
}
