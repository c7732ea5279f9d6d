import { styled } from '../lib/process/styled.ts';

/**
 * Text for people. Colours only where the stream is a terminal (styleText looks at it, and at
 * NO_COLOR).
 */

export function errorText(message: string): string {
  return `${styled('red', 'nodewall:', process.stderr)} ${message}\n`;
}

/** Columns as wide as their widest cell, two blanks between; no trailing blanks. */
export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = header.map((title, i) => Math.max(title.length, ...rows.map((row) => row[i]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join('  ')
      .trimEnd();
  return `${styled('bold', line(header))}\n${rows.map((row) => `${line(row)}\n`).join('')}`;
}

export function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

/** Waits until the stream has taken it: a pipe that is read slowly loses nothing. */
export function print(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
  });
}
