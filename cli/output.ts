import { setTimeout as sleep } from 'node:timers/promises';
import type { Removal } from '../agent/dataplane/dataplane.ts';
import type { ExitStatus } from '../lib/process/exit.ts';
import { styled } from '../lib/process/terminal.ts';
import { printable } from '../lib/sharing/safe-text.ts';

/**
 * Human-readable text. Colours only if the stream is a terminal (styleText checks that, and
 * NO_COLOR).
 */

/** An error message as a line for standard error: part of it may be what a node says. */
export function errorText(message: string): string {
  return `${styled('red', 'nodewall:', process.stderr)} ${printableLines(message)}\n`;
}

function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n');
}

/** Every text of a value of JSON as `printable` gives it. */
export function printableTexts<T>(value: T): T {
  return JSON.parse(JSON.stringify(value), (_, one) => (typeof one === 'string' ? printable(one) : one));
}

/**
 * Formats a table: columns as wide as their widest cell, two blanks between, no trailing blanks,
 * and no control sequences, as cells have texts of others.
 */
export function table(header: readonly string[], given: readonly (readonly string[])[]): string {
  const rows = given.map((row) => row.map(printable));
  const widths = header.map((title, i) => Math.max(title.length, ...rows.map((row) => row[i]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join('  ')
      .trimEnd();
  return `${styled('bold', line(header))}\n${rows.map((row) => `${line(row)}\n`).join('')}`;
}

/** A document; what steers a terminal is escaped in its texts. */
export function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2).split('\n').map(printable).join('\n')}\n`;
}

/** Resolves when the stream has taken the text, so that a slow reader of a pipe loses nothing. */
export function print(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
  });
}

/** Prints a warning to standard error. */
export function warn(message: string, fields: object = {}): void {
  process.stderr.write(`${printableLines([message, ...Object.values(fields)].join(': '))}\n`);
}

/** Names the places where rules may be left that this process is not permitted to read. */
export function warnHidden(hidden: Removal['hidden']): void {
  const message = 'cannot check for left-over rules of nodewall; run this as root';
  for (const { from, error } of hidden) warn(message, [from.name, error.message]);
}

/** Milliseconds between two looks of `--watch`. */
const LOOK_EVERY = 2_000;
/** Clears a terminal (ECMA-48): the cursor to its top, and all below it. */
const CLEAR = '\u001b[H\u001b[J';

/** Prints what a look has found. */
type Show = (text: string) => Promise<void>;

/**
 * Looks once, or with `--watch` again and again until the process is ended: on a terminal each look
 * takes the place of the one before, elsewhere they follow one another. A look that fails ends it.
 *
 * @param look resolves with the exit status
 */
export async function watched(
  isWatched: boolean,
  look: (show: Show) => Promise<ExitStatus>,
): Promise<ExitStatus> {
  if (!isWatched) return await look(print);
  const before = process.stdout.isTTY ? CLEAR : '';
  for (;;) {
    await look((text) => print(`${before}${text}`));
    await sleep(LOOK_EVERY);
  }
}

/**
 * The reader of the output may close it: `nodewall compile … | head -1`. Other errors (a full disk)
 * are reported. A closed standard error must not end the agent.
 */
export function watchOutput(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') process.stderr.write(`nodewall: cannot write the result: ${error.message}\n`);
    process.exit(error.code === 'EPIPE' ? 0 : 3);
  });
  process.stderr.on('error', () => {});
}
