import { once } from 'node:events';
import { fstatSync } from 'node:fs';
import { Socket } from 'node:net';
import type { Writable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { createLogger, format, transports } from 'winston';
import type { LogConfig } from '../../apis/config.ts';
import { recordLine } from './record.ts';
import { RotatingFile } from './rotating-file.ts';

/** The part of the agent's log that is used here (winston's Logger has it). */
export interface RecordLog {
  error(message: string, fields: object): unknown;
  warn(message: string, fields: object): unknown;
  info(message: string, fields: object): unknown;
}

/** Limit in bytes of the records that wait for a slow disk or reader: about 20,000. */
const MAX_WAITING = 8 * 1024 * 1024;

/** Milliseconds to write the waiting records when the agent ends. */
const CLOSE_WITHIN = 2_000;
/** Milliseconds until a recurring failure is logged again, at least. */
const SAY_AGAIN = 60_000;

export interface Writer<Record extends object> {
  /** False if there was no room: the record is lost and counted. */
  write(record: Record): boolean;
  /** The number of lines lost since the last call. */
  consumeLost(): number;
  close(): Promise<void>;
}

export interface WriterOptions {
  readonly config: Pick<LogConfig, 'maxBytes' | 'maxFiles'>;
  /** A path, or `stdout`. */
  readonly file: string;
  readonly log: RecordLog;
  /** The name of the records, for the log. */
  readonly what?: string;
}

/**
 * Writes records as JSON lines through winston. Never blocks and has bounded memory: lines that
 * cannot be written are counted and logged once.
 */
export function recordWriter<Record extends object>(options: WriterOptions): Writer<Record> {
  const { config, file, log, what = 'flow log' } = options;
  let lost = 0;
  let failing = false;
  let sayAgainAt = 0;
  const failed = (error: Error, lines: number): void => {
    lost += lines;
    if (failing || performance.now() < sayAgainAt) return;
    failing = true;
    sayAgainAt = performance.now() + SAY_AGAIN;
    log.error(`cannot write ${what} records; enforcement continues. ${advice(error, file)}`, {
      file,
      error: error.message,
    });
  };
  const written = (): void => {
    if (failing) log.info(`writing ${what} records again; the next one says how many were lost`, { file });
    failing = false;
  };
  const stream =
    file === 'stdout' ? standardOutput(failed) : new RotatingFile({ ...config, path: file, failed, written });
  const transport = new transports.Stream({ stream, eol: '' });
  const logger = createLogger({
    format: format.printf(({ message }) => String(message)),
    transports: [transport],
  });
  return {
    write(record) {
      const room = stream.writableLength < MAX_WAITING && !stream.destroyed;
      if (room) logger.info(recordLine(record));
      else failed(new Error('the disk or the reader is too slow'), 1);
      return room;
    },
    consumeLost() {
      const count = lost;
      lost = 0;
      return count;
    },
    async close() {
      // The logger emits `finish` before its transport has received everything.
      const handedOver = once(transport, 'finish');
      logger.end();
      await handedOver;
      // A reader that has stopped reading must not keep the agent running.
      const late = setTimeout(() => stream.destroy(), CLOSE_WITHIN);
      if (!stream.destroyed) await finished(stream.end()).catch(() => undefined);
      clearTimeout(late);
    },
  };
}

/**
 * A separate stream for standard output, since an error of process.stdout ends the process
 * (cli/main.ts). A pipe or socket is written without blocking; anything else through the thread
 * pool (fs), like a file.
 */
function standardOutput(failed: (error: Error, lines: number) => void): Writable {
  const kind = fstatSync(1);
  if (!kind.isFIFO() && !kind.isSocket()) {
    return new RotatingFile({
      path: '/dev/stdout',
      maxBytes: Number.POSITIVE_INFINITY,
      maxFiles: 1,
      failed,
      written: () => undefined,
    });
  }
  const socket = new Socket({ fd: 1, readable: false, writable: true });
  socket.on('error', (error) => failed(error, 0));
  return socket;
}

function advice(error: NodeJS.ErrnoException, file: string): string {
  switch (error.code) {
    case 'ENOSPC':
    case 'EDQUOT':
      return `Make room on the disk of ${file}, or set log.maxBytes and log.maxFiles lower`;
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return `Make ${file} writable for the agent, or set log.file to another path`;
    case 'ENOTDIR':
    case 'EISDIR':
    case 'ENOENT':
      return `Set log.file to a file in an existing directory`;
    case 'EPIPE':
      return 'The reader of standard output has ended; restart the agent with a reader, or set log.file to a path';
    default:
      return `The agent retries by itself`;
  }
}
