/** Where the story is told. Colours only where standard output is a terminal. */

import type { styleText } from 'node:util';
import { styled } from '../../lib/process/terminal.ts';

type Style = Parameters<typeof styleText>[0];

export interface ScreenCell {
  readonly text: string;
  readonly style?: Style;
}

export interface Screen {
  line(text?: string): void;
  heading(text: string): void;
  /** In the terminal's faint colour: remarks. */
  remark(text: string): void;
  row(cells: readonly ScreenCell[], widths: readonly number[]): void;
}

/** Says nothing more once the signal is given: whatever still ran then is being cleared away. */
export function createScreen(stopped: AbortSignal): Screen {
  const line = (text = ''): void => {
    stopped.throwIfAborted();
    process.stdout.write(`${text}\n`);
  };
  return {
    line,
    heading: (text) => line(`\n${styled('bold', text)}`),
    remark: (text) => line(styled('dim', text)),
    row(cells, widths) {
      const padded = cells.map(({ text, style }, i) => {
        const wide = i === cells.length - 1 ? text : text.padEnd(widths[i] ?? 0);
        return style === undefined ? wide : styled(style, wide);
      });
      line(`  ${padded.join('  ')}`);
    },
  };
}

/** Each column as wide as its widest text. */
export function columnWidths(rows: readonly (readonly string[])[]): number[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [i, text] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, text.length);
  }
  return widths;
}
