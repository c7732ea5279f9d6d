import type { IncomingMessage } from 'node:http';
import { ALL_NODES_PATH, METRICS_PATH, nodeOfMetricsPath } from '../../apis/scrape-path.ts';
import { type Answer, allowed, noNode, notYet, refused, unavailable } from './answer.ts';
import type { Authenticate, Identity } from './auth.ts';
import type { Hub } from './hub.ts';
import { decodedName } from './node-name.ts';
import type { NodeQuestionService } from './node-questions.ts';
import { denial, type PermissionOptions } from './permission.ts';

/** The metrics at `/metrics` and below, for whom the API server allows it. */
export interface MetricsSource {
  /** Tokens of scrapers are for the API server. */
  readonly authenticate: Authenticate;
  readonly contentType: string;
  /** The controller's own. */
  readonly text: () => Promise<string>;
  /** Metrics of all nodes; or the reason why there is no answer now. */
  readonly allNodes: () => Promise<{ readonly text: string } | { readonly problem: string }>;
}

export interface MetricsOptions extends PermissionOptions {
  readonly hub: Pick<Hub, 'ready' | 'has'>;
  /** Absent: this controller asks no agents. */
  readonly nodeQuestions?: NodeQuestionService;
}

interface Asked {
  readonly request: IncomingMessage;
  readonly identity: Identity;
}

/** Whether the path is one of scrapers. */
export function isScrape(path: string): boolean {
  return path === METRICS_PATH || path === ALL_NODES_PATH || nodeOfMetricsPath(path) !== null;
}

/** A reader of the controllers' metrics may read those of agents. */
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
  if (path === ALL_NODES_PATH) return ofAllNodes(options, metrics);
  return { code: 200, text: await metrics.text(), type: metrics.contentType };
}

/** From a replica that has not all reports yet, a page would say that nodes are silent. */
async function ofAllNodes(
  { hub }: MetricsOptions,
  { contentType: type, allNodes }: MetricsSource,
): Promise<Answer> {
  if (!hub.ready) return notYet();
  const page = await allNodes();
  return 'problem' in page ? unavailable(page.problem) : { code: 200, text: page.text, type };
}

async function ofNode(
  { hub, nodeQuestions }: MetricsOptions,
  { contentType }: MetricsSource,
  encoded: string,
): Promise<Answer> {
  const name = decodedName(encoded);
  if (name === null) return refused('BadRequest', 'the node name in the path is not valid');
  if (nodeQuestions === undefined) return refused('NotFound', 'this controller has no metrics of agents');
  if (!hub.ready) return notYet();
  if (!hub.has(name)) return noNode(name);
  const answered = await nodeQuestions.ask(name, { about: 'metrics', query: '' });
  if ('problem' in answered) return unavailable(answered.problem);
  return { code: 200, text: answered.text, type: contentType };
}
