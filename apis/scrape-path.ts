/** Where scrapers get the controller's own metrics. */
export const METRICS_PATH = '/metrics';
/** Where scrapers get sums of each node, and of each rule over all nodes. */
export const ALL_NODES_PATH = `${METRICS_PATH}/nodes`;
const NODES = `${ALL_NODES_PATH}/`;

/** Where scrapers get the metrics of a node's agent. */
export function nodeMetricsPath(node: string): string {
  return `${NODES}${encodeURIComponent(node)}`;
}

/** The node (percent-encoded) of such a path; null: it is another path. */
export function nodeOfMetricsPath(path: string): string | null {
  return path.startsWith(NODES) ? path.slice(NODES.length) : null;
}
