import type { IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { HELD_KINDS, HELD_VIEW, type HeldView, MOST_HELD } from '../../apis/held-view.ts';
import {
  type Answer,
  type Failure,
  jsonBody,
  noNode,
  notYet,
  refused,
  tooMany,
  unavailable,
} from './answer.ts';
import {
  type IgnoredAddresses,
  NONE_IGNORED,
  type NodeViewSummary,
  toNodeViewList,
  toTable,
  toWholeNodeView,
} from './api-objects.ts';
import type { Hub } from './hub.ts';
import type { NodeReports } from './node-reports.ts';
import { isNodeName, isTrue, type RoutedRequest } from './route.ts';
import type { Streams } from './streams.ts';

export interface ViewOptions {
  readonly hub: Hub;
  readonly streams: Streams;
  readonly reports: Pick<NodeReports, 'get'>;
  /** The user name of agents. */
  readonly agents: string;
  /** Addresses of a Node that do not count; absent: all count. */
  readonly ignoredAddresses?: (node: string) => IgnoredAddresses;
  /** Milliseconds since 1970. */
  readonly date: () => number;
  /** Milliseconds; see ServerLimits. */
  readonly catchUp: number;
}

/**
 * Time limit for watches of clients other than agents (milliseconds): their permission may be
 * revoked, but is checked only at the start. An agent's permission depends on its token only.
 */
const LONGEST_WATCH = 1_800_000;

/** Begins to send a node's view to its agent, or to a user. */
export async function watchView(options: ViewOptions, asked: RoutedRequest): Promise<Answer> {
  const { hub, streams } = options;
  const { request, response, query, identity } = asked;
  if (wantsTable(request)) return refused('BadRequest', 'a watch cannot be a Table; use kubectl get --raw');
  const node = selectedName(query);
  if (node === null || query.has('labelSelector'))
    return refused('BadRequest', 'a watch needs fieldSelector=metadata.name=NODE, and no labelSelector');
  const lasts = query.get('timeoutSeconds');
  if (lasts !== null && !/^\d{1,9}$/.test(lasts))
    return refused('BadRequest', 'timeoutSeconds must be a number of seconds');
  const given = query.get('resourceVersion') ?? '';
  if (!isTrue(query.get('anyPosition')) && (await staysBehind(options, given)))
    return unavailable('this controller has not yet seen what the agent has from another one; retry later');
  if (!hub.ready) return notYet();
  const held = request.method === 'POST' ? await heldView(hub, node, given, request) : null;
  if (held !== null && 'failure' in held) return held;
  if (!hub.ready) return notYet();
  if (!hub.has(node)) return noNode(node);
  if (streams.full) return tooMany('the limit of concurrent watches is reached; retry later');
  if (response.destroyed) return { code: 200, streaming: true };
  const wanted = lasts === null || Number(lasts) === 0 ? null : Number(lasts) * 1000;
  const longest = identity.username === options.agents ? null : LONGEST_WATCH;
  const features = (query.get('features') ?? '').split(',');
  streams.open(request, response, {
    node,
    identity,
    resourceVersion: given === '' || given === '0' ? null : given,
    held,
    egress: features.includes('egress'),
    probes: features.includes('probes') && identity.username === options.agents,
    questions: features.includes('questions') && identity.username === options.agents,
    lasts: wanted === null || longest === null ? (wanted ?? longest) : Math.min(wanted, longest),
  });
  return { code: 200, streaming: true };
}

/**
 * Milliseconds until the first look at the watches of the API; each later wait is twice as long.
 */
const LOOK = 50;

/** Waits until the hub is no longer behind the revision; true if that takes too long. */
async function staysBehind({ hub, catchUp }: ViewOptions, revision: string): Promise<boolean> {
  for (let waited = 0, wait = LOOK; hub.isBehind(revision); waited += wait, wait *= 2) {
    if (waited >= catchUp) return true;
    await sleep(Math.min(wait, catchUp - waited));
  }
  return false;
}

/** The view in the body of a watch by POST; null, and not read, where `revision` is enough. */
async function heldView(
  hub: Hub,
  node: string,
  revision: string,
  request: IncomingMessage,
): Promise<HeldView | null | { readonly failure: Failure }> {
  if (Number(request.headers['content-length'] ?? Infinity) <= MOST_HELD && hub.canResume(node, revision)) {
    request.resume();
    return null;
  }
  const value = await jsonBody(request, MOST_HELD, 'the held view');
  if ('failure' in value) return value;
  if (HELD_VIEW.accepts(value.json)) return value.json;
  return refused('Invalid', `a held view must be an object with ${HELD_KINDS.join(', ')}`);
}

export async function listViews(options: ViewOptions, { request, query }: RoutedRequest): Promise<Answer> {
  const { hub, date } = options;
  if (query.has('labelSelector'))
    return refused('BadRequest', 'node views have no labels: labelSelector is not supported');
  const name = selectedName(query);
  if (name === null && query.has('fieldSelector'))
    return refused('BadRequest', 'the only supported fieldSelector is metadata.name=NODE');
  if (!hub.ready) return notYet();
  const names = name === null ? [...hub.nodes().keys()].sort() : hub.has(name) ? [name] : [];
  const summaries = names.map((one) => summaryOf(options, one));
  const { revision } = hub;
  const table = wantsTable(request);
  return {
    code: 200,
    body: table ? toTable(summaries, revision, date()) : toNodeViewList(summaries, revision),
  };
}

export function readView(options: ViewOptions, { request, node: name }: RoutedRequest): Answer {
  const { hub, date } = options;
  const summary = summaryOf(options, name);
  const { revision } = hub;
  if (wantsTable(request)) return { code: 200, body: toTable([summary], revision, date()) };
  return { code: 200, body: toWholeNodeView(summary, hub.view(name), revision) };
}

function summaryOf({ hub, reports, ignoredAddresses }: ViewOptions, name: string): NodeViewSummary {
  const ignored = ignoredAddresses?.(name) ?? NONE_IGNORED;
  return { name, counts: hub.counts(name), report: reports.get(name), ignoredAddresses: ignored };
}

/** The node of `metadata.name=NODE`; null for another selector, or none. */
export function selectedName(query: URLSearchParams): string | null {
  const [, name = ''] = /^metadata\.name==?([^,=]+)$/.exec(query.get('fieldSelector') ?? '') ?? [];
  return isNodeName(name) ? name : null;
}

/** Whether kubectl asks for a Table, which it prints as columns. */
function wantsTable({ headers }: IncomingMessage): boolean {
  const [first = ''] = (headers.accept ?? '').split(',');
  return /;\s*as=Table\b/.test(first) && /;\s*v=v1\b/.test(first) && /;\s*g=meta\.k8s\.io\b/.test(first);
}
