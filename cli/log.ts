import { createLogger, format, type Logger, transports } from 'winston';
import { styled } from './output.ts';

export type Log = Logger;

export interface LogOptions {
  readonly logFormat?: 'json' | 'text';
  readonly logLevel: string;
}

const COLOURS = { error: 'red', warn: 'yellow', info: 'green', debug: 'gray' } as const;

/** To standard error: JSON lines, or text for people. Control characters in values are escaped (JSON) in both. */
export function createLog({ logFormat, logLevel }: LogOptions): Log {
  const people = (logFormat ?? (process.stderr.isTTY ? 'text' : 'json')) === 'text';
  return createLogger({
    level: logLevel,
    format: format.combine(format.timestamp(), people ? format.printf(toLine) : format.json()),
    transports: [new transports.Stream({ stream: process.stderr })],
  });
}

function toLine({ timestamp, level, message, ...fields }: Record<string, unknown>): string {
  const colour = COLOURS[level as keyof typeof COLOURS];
  const words = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(
      ([key, value]) =>
        `${key}=${typeof value === 'string' && /^[\w./:-]+$/.test(value) ? value : JSON.stringify(value)}`,
    );
  const text = String(message).replaceAll(/\p{Cc}/gu, ' ');
  return [timestamp, styled(colour, String(level).padEnd(5), process.stderr), text, ...words].join(' ');
}
