/** Where scrapers get the controller's own metrics. */
export const METRICS_PATH = '/metrics';
const NODES = `${METRICS_PATH}/nodes/`;

/** Where scrapers get the metrics of a node's agent. */
export function nodeMetricsPath(node: string): string {
  return `${NODES}${encodeURIComponent(node)}`;
}

/** The node (percent-encoded) of such a path; null: it is another path. */
export function nodeOfMetricsPath(path: string): string | null {
  return path.startsWith(NODES) ? path.slice(NODES.length) : null;
}
