/** Where scrapers get the controller's own metrics. */
export const METRICS_PATH = '/metrics';
/** Where scrapers get sums of each node, and of each rule over all nodes. */
export const ALL_NODES_PATH = `${METRICS_PATH}/nodes`;

/** Where scrapers get the metrics of a node's agent. */
export function nodeMetricsPath(node: string): string {
  return `${ALL_NODES_PATH}/${encodeURIComponent(node)}`;
}
