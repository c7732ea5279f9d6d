import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { HELD_KINDS, type HeldView, MOST_HELD, parseHeldView } from '../../apis/held-view.ts';
import { CONTROL_PLANE, NODE_VIEWS_PATH, type NodeReport } from '../../apis/stream.ts';
import { readBody } from '../../lib/process/body.ts';
import { type Access, type Authenticate, type Authorise, boundNode, type Identity } from './auth.ts';
import { CallerLimits, callerOf } from './caller-limits.ts';
import { DISCOVERY } from './discovery.ts';
import { type Failure, failure } from './failure.ts';
import type { Hub } from './hub.ts';
import type { NodeReports } from './node-reports.ts';
import { type NodeViewSummary, toNodeViewList, toTable, toWholeNodeView } from './node-view-object.ts';
import { parseReport } from './report.ts';
import { MOST_BATCH, parseBatch, REPORTS_PATH, type ReportBatch } from './report-batch.ts';
import type { Streams } from './streams.ts';

/** The result of a request; `streaming`: the stream now writes the response. */
export type Answer =
  | { readonly failure: Failure }
  | { readonly code: number; readonly body: object | null }
  /** Not JSON. */
  | { readonly code: number; readonly text: string; readonly type: string }
  | { readonly code: number; readonly streaming: true };

export interface RouterOptions {
  readonly hub: Hub;
  readonly authenticate: Authenticate;
  readonly authorise: Authorise;
  readonly refusesAgents?: () => Failure | null;
  readonly onReport: (report: NodeReport, from: 'agent' | 'controller') => void;
  /** Null if the request is not from another controller, which passes agents' reports on. */
  readonly authenticatePeer: Authenticate;
  /** Addresses of a Node that do not count; absent: all count. */
  readonly ignoredAddresses?: (node: string) => readonly string[];
  readonly agents: string;
  readonly streams: Streams;
  /** Updated here. */
  readonly reports: NodeReports;
  /** Monotonic milliseconds. */
  readonly now: () => number;
  /** Milliseconds since 1970. */
  readonly date: () => number;
  /** Bytes. */
  readonly mostBody: number;
  readonly metrics?: MetricsSource;
  /** Called with each authenticated request. */
  readonly authenticated: (request: IncomingMessage, caller: string) => void;
  /** Milliseconds; see ServerLimits. */
  readonly catchUp: number;
}

/** The metrics at `/metrics`, for whom the API server allows it. */
export interface MetricsSource {
  /** Tokens of scrapers are for the API server. */
  readonly authenticate: Authenticate;
  readonly contentType: string;
  readonly text: () => Promise<string>;
}

interface ApiRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly identity: Identity;
}

/**
 * Authenticates and authorises a request, and determines the response. Throws for internal errors.
 */
export function requestRouter(
  options: RouterOptions,
): (request: IncomingMessage, response: ServerResponse) => Promise<Answer> {
  const limits = new CallerLimits(options.now);
  return async (request, response) => {
    const url = parseUrl(request);
    if (url === null) return refused('BadRequest', 'the path of the request is not valid');
    if (url.pathname === REPORTS_PATH) return passedOn(options, request);
    // Checked before authentication, because thousands of agents may connect to a replica that
    // can't serve them.
    const away = isOfAgents(request, url) ? (options.refusesAgents?.() ?? null) : null;
    if (away !== null) return { failure: away };
    const metrics = url.pathname === METRICS_PATH ? options.metrics : undefined;
    const authenticate = metrics?.authenticate ?? options.authenticate;
    const identity = await authenticate(request).catch((error: unknown) => error as Error);
    if (identity instanceof Error)
      return unavailable(`cannot authenticate the request now: ${identity.message}`);
    if (identity === null) return refused('Unauthorized', 'a valid bearer token is required');
    options.authenticated(request, callerOf(identity));
    const asked = { request, response, path: url.pathname, query: url.searchParams, identity };
    const refusal = limitOf(limits, asked);
    if (refusal !== null) return tooMany(refusal);
    return metrics === undefined ? route(options, asked) : scrape(options, metrics, asked);
  };
}

const METRICS_PATH = '/metrics';

/** Limits what costs more than a few microseconds, before the permission is checked. */
function limitOf(
  limits: CallerLimits,
  { path, query, identity, request, response }: ApiRequest,
): string | null {
  if (path === METRICS_PATH) return limits.refusal('read', identity, response);
  if (path !== NODE_VIEWS_PATH && !path.startsWith(`${NODE_VIEWS_PATH}/`)) return null;
  if (request.method === 'PUT') return limits.refusal('report', identity, response);
  return limits.refusal(isTrue(query.get('watch')) ? 'watch' : 'read', identity, response);
}

async function scrape(
  { authorise }: RouterOptions,
  { contentType, text }: MetricsSource,
  { request, identity }: ApiRequest,
): Promise<Answer> {
  const wrong = allowed(request, ['GET']);
  if (wrong !== null) return wrong;
  const denied = await denial(
    authorise,
    identity,
    { verb: 'get', path: METRICS_PATH },
    `get ${METRICS_PATH}`,
  );
  return denied ?? { code: 200, text: await text(), type: contentType };
}

/** Watches and reports. */
function isOfAgents({ method }: IncomingMessage, { pathname, searchParams }: URL): boolean {
  if (pathname === NODE_VIEWS_PATH) return isTrue(searchParams.get('watch'));
  return method === 'PUT' && pathname.startsWith(`${NODE_VIEWS_PATH}/`);
}

function parseUrl({ url = '' }: IncomingMessage): URL | null {
  return url.startsWith('/') ? URL.parse(url, 'https://localhost') : null;
}

async function route(options: RouterOptions, asked: ApiRequest): Promise<Answer> {
  const { path, request } = asked;
  const known = DISCOVERY.get(path);
  if (known !== undefined) return allowed(request, ['GET']) ?? { code: 200, body: known };
  const [, node, status] = /^\/([^/]+)(\/status)?$/.exec(path.slice(NODE_VIEWS_PATH.length)) ?? [];
  if (path === NODE_VIEWS_PATH) {
    const isWatch = isTrue(asked.query.get('watch'));
    const wrong = allowed(request, isWatch ? ['GET', 'POST'] : ['GET']);
    if (wrong !== null) return wrong;
    return isWatch ? await watch(options, asked) : await list(options, asked);
  }
  if (!path.startsWith(`${NODE_VIEWS_PATH}/`) || node === undefined)
    return refused('NotFound', `there is no resource at ${path}`);
  const name = decodedName(node);
  if (name === null) return refused('BadRequest', 'the node name in the path is not valid');
  if (status !== undefined) return allowed(request, ['PUT']) ?? (await report(options, asked, name));
  return allowed(request, ['GET']) ?? (await get(options, asked, name));
}

function decodedName(text: string): string | null {
  try {
    const name = decodeURIComponent(text);
    return NODE_NAME.test(name) ? name : null;
  } catch {
    // An invalid percent escape: the caller reports it.
    return null;
  }
}

/** An RFC 1123 subdomain, as Kubernetes requires for Node names. */
const NODE_NAME = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

function allowed({ method = '' }: IncomingMessage, methods: readonly string[]): Answer | null {
  if (methods.includes(method)) return null;
  const message = `${method} is not supported here; use ${methods.join(' or ')}`;
  return { failure: failure('MethodNotAllowed', message, { allow: methods.join(', ') }) };
}

/**
 * Null if the access is allowed. An agent has the necessary access to its own node's view, and no
 * other.
 */
async function forbidden(
  { agents, authorise }: RouterOptions,
  identity: Identity,
  access: Pick<Access, 'verb' | 'subresource' | 'name'>,
): Promise<Answer | null> {
  const { verb, subresource, name } = access;
  const what = `${verb} nodeviews${subresource === undefined ? '' : `/${subresource}`}${name === undefined ? '' : ` ${name}`}`;
  if (identity.username === agents) {
    const own = boundNode(identity);
    if (own === null) return refused('Forbidden', 'the token is not bound to a node');
    if (name === own) return null;
    return refused('Forbidden', `an agent on ${own} may not ${what}`);
  }
  const { group, version } = CONTROL_PLANE;
  return denial(authorise, identity, { ...access, group, version, resource: 'nodeviews' }, what);
}

/** Null if the API server allows it. */
async function denial(
  authorise: Authorise,
  identity: Identity,
  access: Parameters<Authorise>[1],
  what: string,
): Promise<Answer | null> {
  let permission: Awaited<ReturnType<Authorise>>;
  try {
    permission = await authorise(identity, access);
  } catch (error) {
    return unavailable(`cannot authorise the request now: ${(error as Error).message}`);
  }
  if (permission.allowed) return null;
  const why = permission.reason === '' ? '' : `: ${permission.reason}`;
  return refused('Forbidden', `${JSON.stringify(identity.username)} may not ${what}${why}`);
}

/**
 * Time limit for watches of clients other than agents (milliseconds): their permission may be
 * revoked, but is checked only at the start. An agent's permission depends on its token only.
 */
const LONGEST_WATCH = 1_800_000;

async function watch(options: RouterOptions, asked: ApiRequest): Promise<Answer> {
  const { hub, streams } = options;
  const { request, response, query, identity } = asked;
  if (wantsTable(request)) return refused('BadRequest', 'a watch cannot be a Table; use kubectl get --raw');
  const node = selectedName(query);
  if (node === null || query.has('labelSelector'))
    return refused('BadRequest', 'a watch needs fieldSelector=metadata.name=NODE, and no labelSelector');
  const lasts = query.get('timeoutSeconds');
  if (lasts !== null && !/^\d{1,9}$/.test(lasts))
    return refused('BadRequest', 'timeoutSeconds must be a number of seconds');
  const denied = await forbidden(options, identity, { verb: 'watch', name: node });
  if (denied !== null) return denied;
  const given = query.get('resourceVersion') ?? '';
  if (!isTrue(query.get('anyPosition')) && (await staysBehind(options, given)))
    return unavailable('this controller has not yet seen what the agent has from another one; retry later');
  const held = request.method === 'POST' ? await heldView(request) : null;
  if (held !== null && 'failure' in held) return held;
  if (!hub.ready) return notYet();
  if (!hub.has(node)) return noNode(node);
  if (streams.full) return tooMany('the limit of concurrent watches is reached; retry later');
  if (response.destroyed) return { code: 200, streaming: true };
  const wanted = lasts === null || Number(lasts) === 0 ? null : Number(lasts) * 1000;
  const longest = identity.username === options.agents ? null : LONGEST_WATCH;
  streams.open(request, response, {
    node,
    identity,
    resourceVersion: given === '' || given === '0' ? null : given,
    held,
    lasts: wanted === null || longest === null ? (wanted ?? longest) : Math.min(wanted, longest),
  });
  return { code: 200, streaming: true };
}

/** Milliseconds until the first look at the watches of the API; each later wait is twice as long. */
const LOOK = 50;

/** Waits until the hub is no longer behind the revision; true if that takes too long. */
async function staysBehind({ hub, catchUp }: RouterOptions, revision: string): Promise<boolean> {
  for (let waited = 0, wait = LOOK; hub.isBehind(revision); waited += wait, wait *= 2) {
    if (waited >= catchUp) return true;
    await sleep(wait);
  }
  return false;
}

/** The view in the body of a watch by POST. */
async function heldView(request: IncomingMessage): Promise<HeldView | { readonly failure: Failure }> {
  const value = await jsonBody(request, MOST_HELD, 'the held view');
  if ('failure' in value) return value;
  const held = parseHeldView(value.json);
  return held ?? refused('Invalid', `a held view must be an object with ${HELD_KINDS.join(', ')}`);
}

async function list(options: RouterOptions, { request, query, identity }: ApiRequest): Promise<Answer> {
  const { hub, date } = options;
  if (query.has('labelSelector'))
    return refused('BadRequest', 'node views have no labels: labelSelector is not supported');
  const name = selectedName(query);
  if (name === null && query.has('fieldSelector'))
    return refused('BadRequest', 'the only supported fieldSelector is metadata.name=NODE');
  const denied = await forbidden(options, identity, { verb: 'list', ...(name === null ? {} : { name }) });
  if (denied !== null) return denied;
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

async function get(options: RouterOptions, { request, identity }: ApiRequest, name: string): Promise<Answer> {
  const { hub, date } = options;
  const denied = await forbidden(options, identity, { verb: 'get', name });
  if (denied !== null) return denied;
  if (!hub.ready) return notYet();
  if (!hub.has(name)) return noNode(name);
  const summary = summaryOf(options, name);
  const { revision } = hub;
  if (wantsTable(request)) return { code: 200, body: toTable([summary], revision, date()) };
  return { code: 200, body: toWholeNodeView(summary, hub.view(name), revision) };
}

async function report(
  options: RouterOptions,
  { request, identity }: ApiRequest,
  name: string,
): Promise<Answer> {
  const { hub, reports, mostBody, onReport, date } = options;
  const denied = await forbidden(options, identity, { verb: 'update', subresource: 'status', name });
  if (denied !== null) return denied;
  if (!hub.ready) return notYet();
  if (!hub.has(name)) return noNode(name);
  const value = await jsonBody(request, mostBody, 'the report');
  if ('failure' in value) return value;
  const found = parseReport(value.json, name);
  if ('problems' in found) return refused('Invalid', found.problems.join('; '));
  // Uses the controller's clock: with a node's wrong clock, an agent that stopped would look alive.
  const parsed = { ...found, time: new Date(date()).toISOString() };
  reports.take({ report: parsed, age: 0 });
  reports.forgetDeleted(hub.nodes());
  onReport(parsed, 'agent');
  return { code: 204, body: null };
}

async function passedOn(options: RouterOptions, request: IncomingMessage): Promise<Answer> {
  const { authenticatePeer, reports, onReport } = options;
  const wrong = allowed(request, ['GET', 'POST']);
  if (wrong !== null) return wrong;
  const identity = await authenticatePeer(request).catch((error: unknown) => error as Error);
  if (identity instanceof Error)
    return unavailable(`cannot authenticate the request now: ${identity.message}`);
  if (identity === null) return refused('Unauthorized', "a controller's bearer token is required");
  options.authenticated(request, callerOf(identity));
  if (request.method === 'GET') {
    const all = [...reports.nodes()].flatMap((node) => reports.aged(node) ?? []);
    return { code: 200, body: { reports: all } satisfies ReportBatch };
  }
  const value = await jsonBody(request, MOST_BATCH, 'the batch');
  if ('failure' in value) return value;
  const batch = parseBatch(value.json);
  if ('problem' in batch) return refused('Invalid', batch.problem);
  for (const one of batch.reports) if (reports.take(one)) onReport(one.report, 'controller');
  return { code: 200, body: {} };
}

async function jsonBody(
  request: IncomingMessage,
  most: number,
  what: string,
): Promise<{ readonly json: unknown } | { readonly failure: Failure }> {
  const { 'content-type': type = '', 'content-length': length = 0 } = request.headers;
  if (!/^application\/json(?:\s*;|\s*$)/i.test(type))
    return refused('UnsupportedMediaType', `${what} must be application/json`);
  const body = Number(length) > most ? null : await readBody(request, most);
  if (body === null) return refused('RequestEntityTooLarge', `${what} has more than ${most} bytes`);
  try {
    return { json: JSON.parse(body.toString()) };
  } catch (error) {
    return refused('BadRequest', `${what} is not valid JSON: ${(error as Error).message}`);
  }
}

function summaryOf({ hub, reports, ignoredAddresses }: RouterOptions, name: string): NodeViewSummary {
  const ignored = ignoredAddresses?.(name) ?? [];
  return { name, counts: hub.counts(name), report: reports.get(name), ignoredAddresses: ignored };
}

/** The node of `metadata.name=NODE`; null for another selector, or none. */
function selectedName(query: URLSearchParams): string | null {
  const [, name = ''] = /^metadata\.name==?([^,=]+)$/.exec(query.get('fieldSelector') ?? '') ?? [];
  return NODE_NAME.test(name) ? name : null;
}

function isTrue(value: string | null): boolean {
  return value === 'true' || value === '1';
}

/** Whether kubectl asks for a Table, which it prints as columns. */
function wantsTable({ headers }: IncomingMessage): boolean {
  const [first = ''] = (headers.accept ?? '').split(',');
  return /;\s*as=Table\b/.test(first) && /;\s*v=v1\b/.test(first) && /;\s*g=meta\.k8s\.io\b/.test(first);
}

function refused(...args: Parameters<typeof failure>): { readonly failure: Failure } {
  return { failure: failure(...args) };
}

function unavailable(message: string): Answer {
  return refused('ServiceUnavailable', message, { 'retry-after': '1' });
}

function notYet(): Answer {
  return unavailable('this controller has not published any state yet; retry later');
}

function tooMany(message: string): Answer {
  return refused('TooManyRequests', message, { 'retry-after': '1' });
}

function noNode(name: string): Answer {
  return refused('NotFound', `there is no Node ${name}`);
}
