import type { IncomingMessage, ServerResponse } from 'node:http';
import { InvalidError } from '../../apis/schema/shape.ts';
import { CONTROL_PLANE } from '../../apis/stream.ts';
import {
  type Answer,
  type Failure,
  failure,
  jsonBody,
  noNode,
  notYet,
  refused,
  tooMany,
  unavailable,
} from './answer.ts';
import {
  type Access,
  type Authenticate,
  type Authorise,
  boundNode,
  type Identity,
  type PathAccess,
} from './auth.ts';
import { CallerLimits, callerOf, type Work } from './limits.ts';

/** A request whose path is a row's. */
export interface RoutedRequest<Body = null> {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly query: URLSearchParams;
  readonly identity: Identity;
  /** The Node in the path; '': the path has none. */
  readonly node: string;
  /** The other name in the path, as it is there; '': the path has none. */
  readonly name: string;
  readonly body: Body;
}

/** `controller`: another controller; `scraper`: with a token for the API server. */
type Caller = 'controller' | 'agent' | 'user' | 'scraper';

export interface RouteOptions extends PermissionOptions {
  readonly authenticate: Authenticate;
  /** Null if the request is not from another controller. */
  readonly authenticatePeer: Authenticate;
  /** Tokens of scrapers are for the API server; absent: there is nothing to scrape. */
  readonly authenticateScraper?: Authenticate;
  /** Called with each authenticated request. */
  readonly authenticated: (request: IncomingMessage, caller: string) => void;
  readonly hub: { has(node: string): boolean; readonly ready: boolean };
  /** Whether rows that are not always open are answered now; absent: they are. */
  readonly isOpen?: () => boolean;
  /** Why views and reports of agents are refused now; null: they are not. Absent: never. */
  readonly refusesAgents?: () => Failure | null;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

interface RowParts<Options, Service, Body> {
  readonly methods: readonly ('GET' | 'HEAD' | 'POST' | 'PUT')[];
  /** `{node}` stands for the name of a Node, `{name}` for any text; both without a slash. */
  readonly path: string;
  /** The row answers requests with `watch=true`; absent: all others, or all if no row has it. */
  readonly isWatch?: true;
  readonly caller: Caller;
  /** Refused while `refusesAgents` has a reason. */
  readonly isRefusable?: true;
  /** Answered even while the controller is not open. */
  readonly isAlwaysOpen?: true;
  /** Null: the request costs microseconds, or other controllers limit themselves. */
  readonly limit: Work | null;
  /** Null: whoever is authenticated may. */
  readonly right: ((asked: RoutedRequest<unknown>) => Right) | null;
  /** Returns the service that answers; `absent` is the message of a controller without it. */
  readonly service: (options: Options) => Service | undefined;
  readonly absent: string;
  /** `state`: something has been published; `node`: the Node in the path exists, too. */
  readonly needs?: 'state' | 'node';
  /** Bytes of a body, its name in messages, and its parser, which throws InvalidError. */
  readonly body?: {
    readonly most: number;
    readonly title: string;
    readonly parse: (value: unknown, node: string) => Body;
  };
  readonly answer: (
    service: Service,
    asked: RoutedRequest<Body>,
    options: Options,
  ) => Answer | Promise<Answer>;
}

export interface RouteRow<Options>
  extends Pick<
    RowParts<Options, unknown, unknown>,
    'methods' | 'path' | 'isWatch' | 'caller' | 'isRefusable' | 'isAlwaysOpen' | 'limit'
  > {
  /** Answers whoever is authenticated and within the limits. */
  answer(options: Options & RouteOptions, asked: RoutedRequest<unknown>): Promise<Answer>;
}

/** The checks of a row in their order: permission, service, state, body. */
export function row<Options, Service, Body = null>(
  parts: RowParts<Options, Service, Body>,
): RouteRow<Options> {
  const { right, service, absent, needs, body } = parts;
  return {
    ...parts,
    async answer(options, asked) {
      const denied = right === null ? null : await denial(options, asked.identity, right(asked));
      if (denied !== null) return denied;
      const found = service(options);
      if (found === undefined) return refused('NotFound', absent);
      if (needs !== undefined && !options.hub.ready) return notYet();
      if (needs === 'node' && !options.hub.has(asked.node)) return noNode(asked.node);
      if (body === undefined) return await parts.answer(found, { ...asked, body: null as Body }, options);
      const read = await jsonBody(asked.request, body.most, body.title);
      if ('failure' in read) return read;
      let parsed: Body;
      try {
        parsed = body.parse(read.json, asked.node);
      } catch (error) {
        if (error instanceof InvalidError) return refused('Invalid', error.message);
        throw error;
      }
      return await parts.answer(found, { ...asked, body: parsed }, options);
    },
  };
}

export type RequestHandler = (request: IncomingMessage, response: ServerResponse) => Promise<Answer>;

/**
 * Finds the row of a request, authenticates the caller, and determines the answer. Throws for
 * internal errors.
 */
export function router<Options extends RouteOptions>(
  rows: readonly RouteRow<Options>[],
  options: Options,
): RequestHandler {
  const limits = new CallerLimits(options.now);
  return async (request, response) => {
    const { url: text = '', method = '' } = request;
    const url = text.startsWith('/') ? URL.parse(text, 'https://localhost') : null;
    if (url === null) return refused('BadRequest', 'the path of the request is not valid');
    const found = find(rows, url);
    const wanted = found.rows.find(({ methods }) => methods.some((one) => one === method)) ?? found.rows[0];
    // Before authentication: thousands of agents may connect, and reviews may not be allowed yet.
    // Without Retry-After: clients go to another controller, as where a connection is refused.
    if (wanted?.isAlwaysOpen !== true && options.isOpen?.() === false)
      return refused('ServiceUnavailable', 'this controller does not serve yet');
    const away = wanted?.isRefusable === true ? (options.refusesAgents?.() ?? null) : null;
    if (away !== null) return { failure: away };
    const caller = wanted?.caller ?? 'user';
    const identity = await identify(options, caller, request);
    if ('failure' in identity) return identity;
    options.authenticated(request, callerOf(identity));
    if (wanted === undefined) return refused('NotFound', `there is no resource at ${url.pathname}`);
    const refusal = wanted.limit === null ? null : limits.refusal(wanted.limit, identity, response);
    if (refusal !== null) return tooMany(refusal);
    const { node, name } = found;
    if (node === null) return refused('BadRequest', 'the node name in the path is not valid');
    const methods = [...new Set(found.rows.flatMap((one) => one.methods))];
    if (!methods.some((one) => one === method)) {
      const message = `${method} is not supported here; use ${methods.join(' or ')}`;
      return { failure: failure('MethodNotAllowed', message, { allow: methods.join(', ') }) };
    }
    return await wanted.answer(options, {
      request,
      response,
      query: url.searchParams,
      identity,
      node,
      name,
      body: null,
    });
  };
}

async function identify(
  options: RouteOptions,
  caller: Caller,
  request: IncomingMessage,
): Promise<Identity | { readonly failure: Failure }> {
  const { authenticate, authenticatePeer, authenticateScraper = authenticate } = options;
  const proof = {
    controller: authenticatePeer,
    scraper: authenticateScraper,
    agent: authenticate,
    user: authenticate,
  };
  try {
    const identity = await proof[caller](request);
    if (identity !== null) return identity;
    const token = caller === 'controller' ? "a controller's bearer token" : 'a valid bearer token';
    return refused('Unauthorized', `${token} is required`);
  } catch (error) {
    const { message } = error as Error;
    return unavailable(`cannot authenticate the request now: ${message}`);
  }
}

interface Found<Options> {
  /** One for each method. */
  readonly rows: readonly RouteRow<Options>[];
  /** '': the path has none; null: it is not the name of a Node. */
  readonly node: string | null;
  readonly name: string;
}

/** If several patterns match, the first counts. */
function find<Options>(rows: readonly RouteRow<Options>[], { pathname, searchParams }: URL): Found<Options> {
  const segments = pathname.split('/');
  const isWatch = isTrue(searchParams.get('watch'));
  const matching = rows.filter(({ path }) => matches(path.split('/'), segments));
  const [first] = matching;
  if (first === undefined) return { rows: [], node: '', name: '' };
  const same = matching.filter(({ path }) => path === first.path);
  const watched = same.filter((one) => (one.isWatch === true) === isWatch);
  const parts = first.path.split('/');
  const node = segments[parts.indexOf('{node}')];
  return {
    rows: watched.length === 0 ? same : watched,
    node: node === undefined ? '' : decodedName(node),
    name: segments[parts.indexOf('{name}')] ?? '',
  };
}

function matches(pattern: readonly string[], segments: readonly string[]): boolean {
  return (
    pattern.length === segments.length &&
    pattern.every((part, i) => (part.startsWith('{') ? segments[i] !== '' : part === segments[i]))
  );
}

export function isTrue(value: string | null): boolean {
  return value === 'true' || value === '1';
}

/** An RFC 1123 subdomain, as Kubernetes requires for Node names. */
const NODE_NAME = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

export function isNodeName(text: string): boolean {
  return NODE_NAME.test(text);
}

/** The name of a Node in a path; null: it is none. */
function decodedName(text: string): string | null {
  try {
    const name = decodeURIComponent(text);
    return isNodeName(name) ? name : null;
  } catch {
    // An invalid percent escape: the caller reports it.
    return null;
  }
}

interface PermissionOptions {
  readonly authorise: Authorise;
  /** The user name of agents. */
  readonly agents: string;
}

/** The right to a resource of the control plane's API group, or to a path. */
export type Right = Pick<Access, 'verb' | 'resource' | 'subresource' | 'name'> | PathAccess;

/**
 * Null if the access is allowed. An agent has the necessary access to its own node's view, and no
 * other; of all others the API server decides.
 */
async function denial(
  { agents, authorise }: PermissionOptions,
  identity: Identity,
  right: Right,
): Promise<Answer | null> {
  const what = rightText(right);
  if ('resource' in right && right.resource === 'nodeviews' && identity.username === agents) {
    const own = boundNode(identity);
    if (own === null) return refused('Forbidden', 'the token is not bound to a node');
    if (right.name === own) return null;
    return refused('Forbidden', `an agent on ${own} may not ${what}`);
  }
  const { group, version } = CONTROL_PLANE;
  let permission: Awaited<ReturnType<Authorise>>;
  try {
    permission = await authorise(identity, 'path' in right ? right : { ...right, group, version });
  } catch (error) {
    return unavailable(`cannot authorise the request now: ${(error as Error).message}`);
  }
  if (permission.allowed) return null;
  const why = permission.reason === '' ? '' : `: ${permission.reason}`;
  return refused('Forbidden', `${JSON.stringify(identity.username)} may not ${what}${why}`);
}

function rightText(right: Right): string {
  if ('path' in right) return `${right.verb} ${right.path}`;
  const { verb, resource, subresource, name } = right;
  const path = subresource === undefined ? resource : `${resource}/${subresource}`;
  if (resource === 'nodeviews') return `${verb} ${path}${name === undefined ? '' : ` ${name}`}`;
  const named = name === undefined ? '' : ` ${JSON.stringify(name)}`;
  return `${verb} ${path}${named} (ClusterRole nodewall-view allows it)`;
}
