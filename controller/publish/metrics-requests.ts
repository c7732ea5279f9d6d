import type { IncomingMessage } from 'node:http';
import {
  METRICS_PATH,
  MOST_METRICS,
  MOST_PASSED,
  nodeOfMetricsPath,
  parseMetricsAnswer,
} from '../../apis/node-metrics.ts';
import { type Answer, allowed, jsonBody, noNode, notYet, refused, unavailable } from './answer.ts';
import type { Authenticate, Identity } from './auth.ts';
import { callerOf } from './caller-limits.ts';
import type { Hub } from './hub.ts';
import type { NodeMetricsService } from './node-metrics.ts';
import { decodedName } from './node-name.ts';
import { denial, forbidden, type PermissionOptions } from './permission.ts';

/** The metrics at `/metrics` and below, for whom the API server allows it. */
export interface MetricsSource {
  /** Tokens of scrapers are for the API server. */
  readonly authenticate: Authenticate;
  readonly contentType: string;
  /** The controller's own. */
  readonly text: () => Promise<string>;
}

export interface MetricsOptions extends PermissionOptions {
  readonly hub: Pick<Hub, 'ready' | 'has'>;
  /** Absent: this controller has no metrics of agents. */
  readonly nodeMetrics?: NodeMetricsService;
  /** Null if the request is not from another controller. */
  readonly authenticatePeer: Authenticate;
  /** Called with each authenticated request. */
  readonly authenticated: (request: IncomingMessage, caller: string) => void;
}

interface Asked {
  readonly request: IncomingMessage;
  readonly identity: Identity;
}

/** Whether the path is one of scrapers. */
export function isScrape(path: string): boolean {
  return path === METRICS_PATH || nodeOfMetricsPath(path) !== null;
}

/** Who may read the metrics of controllers may read those of agents. */
export async function scrape(
  options: MetricsOptions,
  metrics: MetricsSource,
  { request, identity, path }: Asked & { readonly path: string },
): Promise<Answer> {
  const wrong = allowed(request, ['GET']);
  if (wrong !== null) return wrong;
  const access = { verb: 'get', path: METRICS_PATH } as const;
  const denied = await denial(options.authorise, identity, access, `get ${METRICS_PATH}`);
  if (denied !== null) return denied;
  const node = nodeOfMetricsPath(path);
  if (node !== null) return ofNode(options, metrics, node);
  return { code: 200, text: await metrics.text(), type: metrics.contentType };
}

async function ofNode(
  { hub, nodeMetrics }: MetricsOptions,
  { contentType }: MetricsSource,
  encoded: string,
): Promise<Answer> {
  const name = decodedName(encoded);
  if (name === null) return refused('BadRequest', 'the node name in the path is not valid');
  if (nodeMetrics === undefined) return none();
  if (!hub.ready) return notYet();
  if (!hub.has(name)) return noNode(name);
  const scraped = await nodeMetrics.take(name);
  if ('problem' in scraped) return unavailable(scraped.problem);
  return { code: 200, text: scraped.text, type: contentType };
}

/** An agent answers what it was asked for by its stream. */
export async function metricsAnswer(
  options: MetricsOptions,
  { request, identity }: Asked,
  name: string,
): Promise<Answer> {
  const denied = await forbidden(options, identity, { verb: 'update', subresource: 'metrics', name });
  if (denied !== null) return denied;
  if (options.nodeMetrics === undefined) return none();
  const value = await jsonBody(request, MOST_METRICS, 'the answer');
  if ('failure' in value) return value;
  const answer = parseMetricsAnswer(value.json);
  if (answer === null) return refused('Invalid', NO_ANSWER);
  options.nodeMetrics.answered(name, answer);
  return { code: 204, body: null };
}

/** Another controller passes a question or an answer on. */
export async function metricsPassedOn(options: MetricsOptions, request: IncomingMessage): Promise<Answer> {
  const wrong = allowed(request, ['POST']);
  if (wrong !== null) return wrong;
  const { nodeMetrics, authenticatePeer } = options;
  const identity = await authenticatePeer(request).catch((error: unknown) => error as Error);
  if (identity instanceof Error)
    return unavailable(`cannot authenticate the request now: ${identity.message}`);
  if (identity === null) return refused('Unauthorized', "a controller's bearer token is required");
  options.authenticated(request, callerOf(identity));
  if (nodeMetrics === undefined) return none();
  const value = await jsonBody(request, MOST_PASSED, 'the metrics');
  if ('failure' in value) return value;
  const { kind, node, answer } = Object(value.json) as Readonly<Record<string, unknown>>;
  if (typeof node !== 'string') return refused('Invalid', 'node: must be a name');
  if (kind === 'question') return { code: 200, body: (await nodeMetrics.takeHere(node)) ?? {} };
  const parsed = parseMetricsAnswer(answer);
  if (kind !== 'answer' || parsed === null) return refused('Invalid', NO_ANSWER);
  nodeMetrics.answeredHere(node, parsed);
  return { code: 200, body: {} };
}

const NO_ANSWER = 'must have id, and text or problem';

function none(): Answer {
  return refused('NotFound', 'this controller has no metrics of agents');
}
