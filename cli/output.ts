import type { Removal } from '../agent/dataplane/dataplane.ts';
import { styled } from '../lib/process/styled.ts';

/**
 * Human-readable text. Colours only if the stream is a terminal (styleText checks that, and
 * NO_COLOR).
 */

/** An error message as a line for standard error. */
export function errorText(message: string): string {
  return `${styled('red', 'nodewall:', process.stderr)} ${message}\n`;
}

/**
 * Formats a table: columns as wide as their widest cell, two blanks between, no trailing blanks.
 */
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

/** Resolves when the stream has taken the text, so that a slow reader of a pipe loses nothing. */
export function print(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
  });
}

/** Prints a warning to standard error. */
export function warn(message: string, fields: object = {}): void {
  process.stderr.write(`${[message, ...Object.values(fields)].join(': ')}\n`);
}

/** Names the places where rules may be left that this process is not permitted to read. */
export function warnHidden(hidden: Removal['hidden']): void {
  const message = 'cannot check for left-over rules of nodewall; run this as root';
  for (const { from, error } of hidden) warn(message, [from.name, error.message]);
}
