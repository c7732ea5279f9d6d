import { setTimeout as pause } from 'node:timers/promises';
import {
  type FilterOptions,
  type ParsedRecord,
  toFilter,
  toQuery,
  wholeNumber,
} from '../agent/record/record-filter.ts';
import { checked, list, type Of, object, type Shape, text } from '../apis/schema/shape.ts';
import { askEach, askNode, nodeNames } from '../controller/kubeapi/ask-nodes.ts';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { withCluster } from './cluster-api.ts';
import { type OfNode, sayFailed } from './node-data.ts';
import { print } from './output.ts';
import { fieldText, recordText } from './record-text.ts';

export interface NodeRecordsOptions extends OfNode, FilterOptions {
  readonly allNodes: boolean;
  readonly follow: boolean;
  readonly lines?: string;
  readonly output: 'text' | 'json';
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
export async function nodeRecords(options: NodeRecordsOptions): Promise<ExitStatus> {
  // Checked here: a wrong option needs no cluster.
  toFilter(options, 0);
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
  readonly #options: NodeRecordsOptions;
  /** By node: the time of the last record, and all records of that millisecond. */
  readonly #seen = new Map<string, { readonly time: string; readonly texts: ReadonlySet<string> }>();
  /** By node. */
  readonly #failing = new Map<string, string>();

  constructor(request: KubeApi, options: NodeRecordsOptions) {
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
    const lines = found.map((one) => (output === 'json' ? JSON.stringify(one) : textOf(one)));
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

function queryOf(options: NodeRecordsOptions): URLSearchParams {
  const query = toQuery(options);
  const lines = options.lines ?? (options.follow ? '10' : undefined);
  if (lines !== undefined) query.set('lines', lines);
  return query;
}

function textOf(record: ParsedRecord): string {
  return `${fieldText(record.node)}  ${recordText(record)}`;
}
