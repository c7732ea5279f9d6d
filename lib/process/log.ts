import { createLogger, format, type Logger, transports } from 'winston';
import { styled } from './styled.ts';

export type Log = Logger;

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
    return typeof line === 'object' ? { ...line, [MESSAGE]: escaped(String(line[MESSAGE])) } : line;
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
        `${key}=${typeof value === 'string' && /^[\w./:-]+$/.test(value) ? value : escaped(JSON.stringify(value))}`,
    );
  const text = String(message).replaceAll(STEERING, ' ');
  return [timestamp, styled(colour, String(level).padEnd(5), process.stderr), text, ...words].join(' ');
}

/**
 * JSON.stringify leaves DEL, C1 and bidirectional control characters unescaped, and terminals
 * interpret them.
 */
function escaped(json: string): string {
  return json.replaceAll(STEERING, (text) =>
    Array.from({ length: text.length }, (_, i) => {
      return `\\u${text.charCodeAt(i).toString(16).padStart(4, '0')}`;
    }).join(''),
  );
}

const STEERING = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
