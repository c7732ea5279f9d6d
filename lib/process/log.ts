import { createLogger, format, type Logger, transports } from 'winston';
import { printable } from '../sharing/safe-text.ts';
import { styled } from './terminal.ts';

export type Log = Logger;

/** The part of a log that writes lines with fields. */
export interface LineLog {
  error(message: string, fields: object): unknown;
  warn(message: string, fields: object): unknown;
  info(message: string, fields: object): unknown;
}

export interface LogOptions {
  readonly logFormat?: 'json' | 'text';
  readonly logLevel: string;
}

const COLOURS = { error: 'red', warn: 'yellow', info: 'green', debug: 'gray' } as const;

/**
 * A log on standard error: JSON lines, or human-readable text. In both, control characters in
 * values are escaped as in JSON.
 */
export function createLog({ logFormat, logLevel }: LogOptions): Log {
  const people = (logFormat ?? (process.stderr.isTTY ? 'text' : 'json')) === 'text';
  return createLogger({
    level: logLevel,
    format: format.combine(format.timestamp(), people ? format.printf(toLine) : jsonLines()),
    transports: [new transports.Stream({ stream: process.stderr })],
  });
}

function jsonLines() {
  const json = format.json();
  return format((info) => {
    const line = json.transform(info, {});
    return typeof line === 'object' ? { ...line, [MESSAGE]: printable(String(line[MESSAGE])) } : line;
  })();
}

/** The key under which winston keeps the formatted line. */
const MESSAGE = Symbol.for('message');

function toLine({ timestamp, level, message, ...fields }: Record<string, unknown>): string {
  const colour = COLOURS[level as keyof typeof COLOURS];
  const words = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(
      ([key, value]) =>
        `${key}=${typeof value === 'string' && /^[\w./:-]+$/.test(value) ? value : printable(JSON.stringify(value))}`,
    );
  const text = printable(String(message));
  return [timestamp, styled(colour, String(level).padEnd(5), process.stderr), text, ...words].join(' ');
}
