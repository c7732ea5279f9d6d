import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { recordLines, recordsFile, toRecord } from '../agent/record/record-files.ts';
import { type FilterOptions, matches, toFilter, wholeNumber } from '../agent/record/record-filter.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { loadConfig } from './load.ts';
import type { OfNode } from './node-data.ts';
import { print } from './output.ts';
import { recordText } from './record-text.ts';

export interface RecordsOptions extends FilterOptions, OfNode {
  readonly allNodes: boolean;
  readonly follow: boolean;
  readonly stateDir: string;
  readonly config?: string;
  readonly lines?: string;
  readonly output: 'text' | 'json';
}

/** Number of existing records that `--follow` shows first. */
const BEFORE_FOLLOWING = 10;
/** Lines per write. */
const BUNCH = 256;

/** `nodewall log`: the records that match, oldest first. */
export async function recordsCommand(files: readonly string[], options: RecordsOptions): Promise<ExitStatus> {
  if (options.node !== undefined || options.allNodes) {
    if (files.length > 0)
      throw new CommandError(EXIT.usage, 'files are of this machine; with --node and --all-nodes give none');
    return (await import('./node-records.ts')).nodeRecords(options);
  }
  const paths = files.length > 0 ? files : [await recordFile(options)];
  if (options.follow && (paths.length > 1 || paths[0] === '-')) {
    throw new CommandError(EXIT.usage, '--follow: takes one file; standard input needs no --follow');
  }
  for (const path of files) {
    if (path !== '-' && !options.follow && !existsSync(path)) {
      throw new CommandError(EXIT.invalid, `the file ${path} does not exist`);
    }
  }
  const filter = toFilter(options, Date.now());
  const lines = options.lines === undefined ? undefined : wholeNumber('--lines', options.lines);
  const last = lines ?? (options.follow ? BEFORE_FOLLOWING : undefined);
  const out = printer(last);
  let shown = 0;
  let bad = 0;
  for (const [i, path] of paths.entries()) {
    for await (const line of linesOf(path, options.follow)) {
      if (line === null && i === paths.length - 1) await out.caughtUp();
      if (line === null) continue;
      const record = toRecord(line);
      if (record === null) bad++;
      else if (matches(record, filter)) {
        shown++;
        await out.add(options.output === 'json' ? `${line}\n` : `${recordText(record)}\n`);
      }
    }
  }
  if (bad > 0) process.stderr.write(`left out ${bad} lines that are not valid records\n`);
  if (shown === 0) process.stderr.write(`no record matches in ${paths.join(', ')}\n`);
  return EXIT.done;
}

/**
 * Prints lines in batches. Before `caughtUp`, only the last `last` lines if given; after it, each
 * line at once.
 */
function printer(last: number | undefined) {
  let held: string[] = [];
  let isCaughtUp = false;
  async function flush(): Promise<void> {
    if (held.length > 0) await print(held.join(''));
    held = [];
  }
  return {
    async add(line: string): Promise<void> {
      held.push(line);
      if (isCaughtUp || (last === undefined && held.length >= BUNCH)) await flush();
      else if (last !== undefined && held.length > last + BUNCH) held = held.slice(held.length - last);
    },
    async caughtUp(): Promise<void> {
      isCaughtUp = true;
      if (last !== undefined) held = held.slice(Math.max(0, held.length - last));
      await flush();
    },
  };
}

async function* linesOf(path: string, follow: boolean): AsyncGenerator<string | null> {
  try {
    if (path !== '-') yield* recordLines(path, { follow });
    else {
      // Standard input is caught up from the start: each line is shown when it arrives.
      yield null;
      yield* createInterface({ input: process.stdin });
    }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const isRefused = code === 'EACCES' || code === 'EPERM';
    throw new CommandError(
      isRefused ? EXIT.refused : EXIT.invalid,
      `${message}${isRefused ? '; reading the flow log needs root' : ''}`,
      { cause: error },
    );
  }
}

/** The file that the agent writes records to. */
async function recordFile({ stateDir, config }: RecordsOptions): Promise<string> {
  const path = recordsFile(stateDir, await loadConfig(config));
  if (path !== null) return path;
  throw new CommandError(
    EXIT.usage,
    'log.file is stdout: the agent writes records to its standard output; give the file where that goes, or - for standard input',
  );
}
