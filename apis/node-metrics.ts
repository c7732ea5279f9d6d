/**
 * The metrics of a node's agent, which scrapers get from the controllers (docs/cluster.md): what a
 * controller asks an agent by its stream (MetricsUpdate), what the agent answers, and what
 * controllers pass on to each other.
 */
import { CONTROL_PLANE, NODE_VIEWS_PATH } from './stream.ts';

/** Where scrapers get the controller's own metrics. */
export const METRICS_PATH = '/metrics';
const NODES = `${METRICS_PATH}/nodes/`;
/** Where controllers pass questions and answers on to each other (POST PassedMetrics). */
export const NODE_METRICS_PATH = `/apis/${CONTROL_PLANE.group}/${CONTROL_PLANE.version}/nodemetrics`;

/** Where scrapers get the metrics of a node's agent. */
export function nodeMetricsPath(node: string): string {
  return `${NODES}${encodeURIComponent(node)}`;
}

/** The node (percent-encoded) of such a path; null: it is another path. */
export function nodeOfMetricsPath(path: string): string | null {
  return path.startsWith(NODES) ? path.slice(NODES.length) : null;
}

/** Where an agent answers a MetricsUpdate (POST MetricsAnswer). */
export function metricsAnswerPath(node: string): string {
  return `${NODE_VIEWS_PATH}/${encodeURIComponent(node)}/metrics`;
}

/** In Prometheus' text format; or the reason why there are none. */
export type Scraped = { readonly text: string } | { readonly problem: string };

export type MetricsAnswer = { readonly id: string } & Scraped;

/** What one controller passes on to another; a question is answered with Scraped, or `{}`. */
export type PassedMetrics =
  | { readonly kind: 'question'; readonly node: string }
  | { readonly kind: 'answer'; readonly node: string; readonly answer: MetricsAnswer };

/** Milliseconds that an agent has for an answer, and another controller beyond them. */
export const METRICS_PATIENCE = { agent: 4_000, onTheWay: 1_000 } as const;
/** Bytes of an answer: about 5,000 rules with `--metrics-rules`, and fifty times what is usual. */
export const MOST_METRICS = 1 << 20;
/** … and of an answer that another controller passes on. */
export const MOST_PASSED = MOST_METRICS + 1024;

const LONGEST_ID = 64;
const LONGEST_PROBLEM = 500;

/** Null: it is neither. */
export function parseScraped(value: unknown): Scraped | null {
  const { text, problem } = Object(value) as { readonly text?: unknown; readonly problem?: unknown };
  if (typeof text === 'string') return { text };
  return typeof problem === 'string' && problem.length <= LONGEST_PROBLEM ? { problem } : null;
}

export function parseMetricsAnswer(value: unknown): MetricsAnswer | null {
  const { id } = Object(value) as { readonly id?: unknown };
  const scraped = parseScraped(value);
  if (typeof id !== 'string' || id === '' || id.length > LONGEST_ID || scraped === null) return null;
  return { id, ...scraped };
}
