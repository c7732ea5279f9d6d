import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { recordLines, recordsFile, toRecord } from '../agent/record/record-files.ts';
import {
  type ConnectionOptions,
  type FilterOptions,
  matches,
  type ParsedRecord,
  toFilter,
  toQuery,
  wholeNumber,
} from '../agent/record/record-filter.ts';
import { checked, list, type Of, object, type Shape, text } from '../apis/schema/shape.ts';
import { askEach, askNode, nodeNames } from '../controller/kubeapi/ask-nodes.ts';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { present } from '../lib/sharing/present.ts';
import { withCluster } from './cluster-api.ts';
import type { MachineOptions, Printed } from './command-options.ts';
import { type FlowWords, filterOfWords } from './flow-words.ts';
import { loadConfig } from './load.ts';
import { type OfNode, sayFailed } from './node-data.ts';
import { print } from './output.ts';
import { fieldText, recordText } from './record-text.ts';

interface RecordsOptions extends RecordWords, FlowWords, OfNode, MachineOptions, Printed<'text' | 'json'> {
  readonly allNodes: boolean;
  readonly follow: boolean;
  readonly lines?: string;
}

/** The filter beside the words for a connection. */
type RecordWords = Omit<FilterOptions, keyof ConnectionOptions>;

/** Number of existing records that `--follow` shows first. */
const BEFORE_FOLLOWING = 10;
/** Lines per write. */
const BUNCH = 256;

/** `nodewall log`: the records that match, oldest first. */
export async function recordsCommand(files: readonly string[], options: RecordsOptions): Promise<ExitStatus> {
  if (options.node !== undefined || options.allNodes) {
    if (files.length > 0)
      throw new CommandError(EXIT.usage, 'files are of this machine; with --node and --all-nodes give none');
    return nodeRecords(options);
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
  const filter = toFilter(filterOf(options), Date.now());
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

function filterOf(options: RecordsOptions): FilterOptions {
  const { policy, rule, tier, verdict, audit, deciding, interface: by, label, since } = options;
  const others = { policy, rule, tier, verdict, audit, deciding, interface: by, label, since };
  return { ...present(others), ...filterOfWords(options) };
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
    throw unreadable(error, 'the flow log');
  }
}

/** The error of a file that cannot be read; without the right to, it says who may. */
export function unreadable(error: unknown, what: string): CommandError {
  const { code, message } = error as NodeJS.ErrnoException;
  const isRefused = code === 'EACCES' || code === 'EPERM';
  return new CommandError(
    isRefused ? EXIT.refused : EXIT.invalid,
    `${message}${isRefused ? `; reading ${what} needs root` : ''}`,
    { cause: error },
  );
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

/** A record is any object: the node may be newer. */
const RECORD = object({}) as Shape<ParsedRecord>;
type Records = Of<typeof RECORDS>;
const RECORDS = object({
  records: list(RECORD),
  /** The node's time when it began to read. */
  time: text(),
});

/** Milliseconds between two questions to the same node. */
const INTERVAL = 1_000;

/**
 * `nodewall log --node` and `--all-nodes`: the last records of nodes of a cluster, in the order of
 * their times. Nodes that do not answer are named. Exit status 3 if none does.
 */
async function nodeRecords(options: RecordsOptions): Promise<ExitStatus> {
  // Checked here: a wrong option needs no cluster.
  toFilter(filterOf(options), 0);
  if (options.lines !== undefined) wholeNumber('--lines', options.lines);
  return await withCluster(options.kubeconfig, async (request) => {
    const nodes = options.node === undefined ? await nodeNames(request) : [options.node];
    const followed = new FollowedNodes(request, options);
    const isAnswered = await followed.poll(nodes);
    while (options.follow) {
      await pause(INTERVAL);
      await followed.poll(nodes);
    }
    return isAnswered ? EXIT.done : EXIT.refused;
  });
}

/** Nodes that are asked again and again for what is new. */
class FollowedNodes {
  readonly #request: KubeApi;
  readonly #options: RecordsOptions;
  /** By node: the time of the last record, and all records of that millisecond. */
  readonly #seen = new Map<string, { readonly time: string; readonly texts: ReadonlySet<string> }>();
  /** By node. */
  readonly #failing = new Map<string, string>();

  constructor(request: KubeApi, options: RecordsOptions) {
    this.#request = request;
    this.#options = options;
  }

  /** Prints what is new of all of them; false: none of them answered. */
  async poll(nodes: readonly string[]): Promise<boolean> {
    const answers = await askEach(
      nodes,
      (node) => this.#of(node),
      (node, message) => this.#failed(node, message),
    );
    const found = [...answers.values()].flat();
    found.sort((a, b) => (String(a.time) < String(b.time) ? -1 : 1));
    const { output } = this.#options;
    const lines = found.map((one) =>
      output === 'json' ? JSON.stringify(one) : `${fieldText(one.node)}  ${recordText(one)}`,
    );
    if (lines.length > 0) await print(lines.map((line) => `${line}\n`).join(''));
    return answers.size > 0;
  }

  async #of(node: string): Promise<readonly ParsedRecord[]> {
    const query = queryOf(this.#options);
    const seen = this.#seen.get(node);
    if (seen !== undefined) query.set('since', seen.time);
    if (seen !== undefined) query.set('lines', '1000');
    const found = checked(
      RECORDS,
      await askNode(this.#request, node, 'records', query),
      'its answer is not one about records',
    );
    this.#failing.delete(node);
    return this.#unseen(node, found);
  }

  /** Said once. */
  #failed(node: string, message: string): void {
    if (this.#failing.get(node) !== message) sayFailed(node, message);
    this.#failing.set(node, message);
  }

  #unseen(node: string, { records, time: now }: Records): readonly ParsedRecord[] {
    const before = this.#seen.get(node);
    const seen = before?.texts ?? new Set();
    const time = String(records.at(-1)?.time ?? before?.time ?? now);
    const isLast = (one: ParsedRecord): boolean => Date.parse(String(one.time)) >= Date.parse(time);
    const texts = records.filter(isLast).map((one) => JSON.stringify(one));
    this.#seen.set(node, { time, texts: new Set(texts) });
    return records.filter((one) => !seen.has(JSON.stringify(one)));
  }
}

function queryOf(options: RecordsOptions): URLSearchParams {
  const query = toQuery(filterOf(options));
  const lines = options.lines ?? (options.follow ? '10' : undefined);
  if (lines !== undefined) query.set('lines', lines);
  return query;
}
