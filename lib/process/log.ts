import { createLogger, format, type Logger, transports } from 'winston';
import { styled } from './styled.ts';

export type Log = Logger;

export interface LogOptions {
  readonly logFormat?: 'json' | 'text';
  readonly logLevel: string;
}

const COLOURS = { error: 'red', warn: 'yellow', info: 'green', debug: 'gray' } as const;

/**
 * To standard error: JSON lines, or text for people. Control characters in values are escaped
 * (JSON) in both.
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
    return typeof line === 'object' ? { ...line, [MESSAGE]: escaped(String(line[MESSAGE])) } : line;
  })();
}

/** Where winston has the line that is written. */
const MESSAGE = Symbol.for('message');

function toLine({ timestamp, level, message, ...fields }: Record<string, unknown>): string {
  const colour = COLOURS[level as keyof typeof COLOURS];
  const words = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(
      ([key, value]) =>
        `${key}=${typeof value === 'string' && /^[\w./:-]+$/.test(value) ? value : escaped(JSON.stringify(value))}`,
    );
  const text = String(message).replaceAll(STEERING, ' ');
  return [timestamp, styled(colour, String(level).padEnd(5), process.stderr), text, ...words].join(' ');
}

/** JSON leaves DEL, C1 and what turns the direction of writing as they are; terminals don't. */
function escaped(json: string): string {
  return json.replaceAll(STEERING, (text) =>
    Array.from({ length: text.length }, (_, i) => {
      return `\\u${text.charCodeAt(i).toString(16).padStart(4, '0')}`;
    }).join(''),
  );
}

const STEERING = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
