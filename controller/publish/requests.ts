import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { CONTROLLER_STATE_PATH, CONTROLLERS_PATH } from '../../apis/controller-state.ts';
import { HELD_KINDS, type HeldView, MOST_HELD, parseHeldView } from '../../apis/held-view.ts';
import { PROBES_PATH } from '../../apis/inward-probe.ts';
import { isNodeData, NODE_DATA, NODE_QUESTIONS_PATH } from '../../apis/node-question.ts';
import { ALL_NODES_PATH, METRICS_PATH } from '../../apis/scrape-path.ts';
import { CONTROL_PLANE, NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { type ConsoleAccess, consoleAccess, consoleAnswer } from '../console/console-requests.ts';
import type { ConsoleDocuments } from '../console/documents.ts';
import { type Answer, allowed, jsonBody, noNode, notYet, refused, tooMany, unavailable } from './answer.ts';
import type { Authenticate, Identity } from './auth.ts';
import { CallerLimits, callerOf, type Work } from './caller-limits.ts';
import { type ControllerOptions, controllerList, controllerState } from './controller-requests.ts';
import { DISCOVERY } from './discovery.ts';
import type { Failure } from './failure.ts';
import type { Hub } from './hub.ts';
import { LEASES_PATH } from './lease-batch.ts';
import { type LeaseOptions, lease, leasesPassedOn } from './lease-requests.ts';
import { isScrape, type MetricsOptions, type MetricsSource, scrape } from './metrics-requests.ts';
import { decodedName, isNodeName } from './node-name.ts';
import {
  type IgnoredAddresses,
  NONE_IGNORED,
  type NodeViewSummary,
  toNodeViewList,
  toTable,
  toWholeNodeView,
} from './node-view-object.ts';
import { denial, forbidden } from './permission.ts';
import { inwardProbes, type ProbeOptions, probeAnswer, probesPassedOn } from './probe-requests.ts';
import { nodeAnswer, nodeData, type QuestionOptions, questionPassedOn } from './question-requests.ts';
import { REPORTS_PATH } from './report-batch.ts';
import { passedOn, type ReportOptions, report } from './report-requests.ts';
import type { Streams } from './streams.ts';

export interface RouterOptions
  extends ReportOptions,
    Omit<LeaseOptions, 'hub'>,
    Omit<ProbeOptions, 'hub'>,
    Omit<MetricsOptions, 'hub'>,
    Omit<QuestionOptions, 'hub'>,
    ControllerOptions {
  readonly hub: Hub;
  readonly authenticate: Authenticate;
  readonly isOpen?: () => boolean;
  readonly refusesAgents?: () => Failure | null;
  /** Addresses of a Node that do not count; absent: all count. */
  readonly ignoredAddresses?: (node: string) => IgnoredAddresses;
  readonly streams: Streams;
  /** Monotonic milliseconds. */
  readonly now: () => number;
  readonly metrics?: MetricsSource;
  /** Absent: this controller has no console. */
  readonly console?: ConsoleDocuments;
  /** Milliseconds; see ServerLimits. */
  readonly catchUp: number;
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
    // Before authentication: thousands of agents may connect, and reviews may not be allowed yet.
    // Without Retry-After: clients go to another controller, as where a connection is refused.
    if (options.isOpen?.() === false && url.pathname !== METRICS_PATH)
      return refused('ServiceUnavailable', 'this controller does not serve yet');
    if (url.pathname === REPORTS_PATH) return passedOn(options, request);
    if (url.pathname === LEASES_PATH)
      return allowed(request, ['POST']) ?? (await leasesPassedOn(options, request));
    if (url.pathname === PROBES_PATH) return probesPassedOn(options, request);
    if (url.pathname === CONTROLLER_STATE_PATH) return controllerState(options, request);
    if (url.pathname === NODE_QUESTIONS_PATH)
      return allowed(request, ['POST']) ?? (await questionPassedOn(options, request));
    // Checked before authentication, because thousands of agents may connect to a replica that
    // can't serve them.
    const away = isOfAgents(request, url) ? (options.refusesAgents?.() ?? null) : null;
    if (away !== null) return { failure: away };
    const metrics = isScrape(url.pathname) ? options.metrics : undefined;
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

/** Limits what costs more than a few microseconds, before the permission is checked. */
function limitOf(
  limits: CallerLimits,
  { path, query, identity, request, response }: ApiRequest,
): string | null {
  if (path === METRICS_PATH || path === ALL_NODES_PATH || path === CONTROLLERS_PATH)
    return limits.refusal('read', identity, response);
  if (isScrape(path)) return limits.refusal('scrape', identity, response);
  const access = consoleAccess(path, query);
  if (access !== null) return limits.refusal(consoleWork(access), identity, response);
  if (path !== NODE_VIEWS_PATH && !path.startsWith(`${NODE_VIEWS_PATH}/`)) return null;
  if (request.method === 'PUT') return limits.refusal('report', identity, response);
  if (path.endsWith('/lease')) return limits.refusal('lease', identity, response);
  if (path.endsWith('/probes')) return limits.refusal('probes', identity, response);
  if (path.endsWith('/answer')) return limits.refusal('answer', identity, response);
  if (isNodeData(path.split('/').at(-1))) return limits.refusal('scrape', identity, response);
  if (path.endsWith('/probeanswer')) return limits.refusal('probeanswer', identity, response);
  return limits.refusal(isTrue(query.get('watch')) ? 'watch' : 'read', identity, response);
}

function consoleWork({ verb, resource, name }: ConsoleAccess): Work {
  if (resource === 'console') return 'files';
  if (resource === 'previews') return 'preview';
  if (verb === 'watch') return 'overviewWatch';
  return name === 'peers' || name === 'audit' || name === 'lint' ? 'survey' : 'overview';
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
  if (path === CONTROLLERS_PATH) return controllerList(options, asked);
  const access = consoleAccess(path, asked.query);
  if (access !== null) return consoleDocument(options, asked, access);
  const [, node, part] = SUBRESOURCE.exec(path.slice(NODE_VIEWS_PATH.length)) ?? [];
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
  if (part === 'status') return allowed(request, ['PUT']) ?? (await report(options, asked, name));
  if (part === 'lease') return allowed(request, ['POST']) ?? (await lease(options, asked, name));
  if (part === 'probes') return allowed(request, ['POST']) ?? (await inwardProbes(options, asked, name));
  if (part === 'probeanswer') return allowed(request, ['POST']) ?? (await probeAnswer(options, asked, name));
  if (part === 'answer') return allowed(request, ['POST']) ?? (await nodeAnswer(options, asked, name));
  if (isNodeData(part))
    return allowed(request, ['GET']) ?? (await nodeData(options, asked, { node: name, about: part }));
  return allowed(request, ['GET']) ?? (await get(options, asked, name));
}

async function consoleDocument(
  options: RouterOptions,
  asked: ApiRequest,
  access: ConsoleAccess,
): Promise<Answer> {
  const { verb, resource, name } = access;
  const { identity, path } = asked;
  const what = `${verb} ${resource}${name === undefined ? '' : ` ${JSON.stringify(name)}`} (ClusterRole nodewall-view allows it)`;
  const { group, version } = CONTROL_PLANE;
  const denied = await denial(options.authorise, identity, { group, version, ...access }, what);
  if (denied !== null) return denied;
  if (options.console === undefined) return refused('NotFound', `there is no resource at ${path}`);
  return await consoleAnswer(options.console, { ...asked, user: callerOf(identity) }, access);
}

const SUBRESOURCES = ['status', 'lease', 'probes', 'probeanswer', 'answer', ...NODE_DATA];
const SUBRESOURCE = new RegExp(`^/([^/]+)(?:/(${SUBRESOURCES.join('|')}))?$`);

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
async function staysBehind({ hub, catchUp }: RouterOptions, revision: string): Promise<boolean> {
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

function summaryOf({ hub, reports, ignoredAddresses }: RouterOptions, name: string): NodeViewSummary {
  const ignored = ignoredAddresses?.(name) ?? NONE_IGNORED;
  return { name, counts: hub.counts(name), report: reports.get(name), ignoredAddresses: ignored };
}

/** The node of `metadata.name=NODE`; null for another selector, or none. */
function selectedName(query: URLSearchParams): string | null {
  const [, name = ''] = /^metadata\.name==?([^,=]+)$/.exec(query.get('fieldSelector') ?? '') ?? [];
  return isNodeName(name) ? name : null;
}

function isTrue(value: string | null): boolean {
  return value === 'true' || value === '1';
}

/** Whether kubectl asks for a Table, which it prints as columns. */
function wantsTable({ headers }: IncomingMessage): boolean {
  const [first = ''] = (headers.accept ?? '').split(',');
  return /;\s*as=Table\b/.test(first) && /;\s*v=v1\b/.test(first) && /;\s*g=meta\.k8s\.io\b/.test(first);
}
