/**
 * Where each folder of controller/ and agent/ stands: the six stages in the order in which data
 * pass them, and what joins them. docs/architecture.svg is drawn from this table, and a test holds
 * the table against the folders and their imports.
 */

/** A box of the main row: one stage, which may be two folders. */
export interface Stage {
  readonly name: string;
  /** In the order in which they may import: a folder imports no later stage of its side. */
  readonly folders: readonly string[];
  /** The value that leaves it. */
  readonly value: string;
}

export const STAGES: readonly Stage[] = [
  { name: '1 watch', folders: ['controller/watch'], value: 'ClusterObjects' },
  { name: '2 compile', folders: ['controller/index', 'controller/compile'], value: 'Compiled' },
  { name: '3 publish', folders: ['controller/publish'], value: 'stream' },
  { name: '4 receive', folders: ['agent/receive'], value: 'NodeState' },
  { name: '5 render', folders: ['agent/render'], value: 'Ruleset' },
  { name: '6 apply', folders: ['agent/apply'], value: 'transaction' },
];

/** What is no stage. */
export interface Place {
  readonly folder: string;
  /** Number of the stage at which it joins. */
  readonly at: 1 | 2 | 3 | 4 | 5 | 6;
  /** `way`: the data pass it. `beside`: it reads, tells or answers. */
  readonly side: 'way' | 'beside';
  /** For the picture: at most 29 characters. */
  readonly does: string;
}

const way = (at: Place['at'], folder: string, does: string): Place => ({ folder, at, side: 'way', does });
const beside = (at: Place['at'], folder: string, does: string): Place => ({
  folder,
  at,
  side: 'beside',
  does,
});

export const PLACES: readonly Place[] = [
  way(1, 'controller/webhook', 'validates before storing'),
  way(1, 'controller/guardrail', 'refuses what must not be'),
  way(2, 'controller/egress', 'egress gateways, owners'),
  way(3, 'controller/rollout', 'which node gets which version'),
  way(4, 'agent/guard', 'tries, confirms, takes back'),
  way(4, 'agent/names', 'addresses of fqdn peers'),
  way(4, 'agent/interfaces', 'which links are pods’'),
  way(5, 'agent/egress', 'egress gateways in the kernel'),
  beside(5, 'agent/extension', 'the port of egress gateways'),
  way(6, 'agent/dataplane', 'nftables or iptables'),
  beside(1, 'controller/kubeapi', 'requests to the API server'),
  beside(1, 'controller/replicas', 'the other controllers'),
  beside(1, 'controller/check', 'is the cluster fit?'),
  beside(1, 'controller/bundle', 'facts for maintainers'),
  beside(2, 'controller/extension', 'the port of egress gateways'),
  beside(2, 'controller/difference', 'the exact difference'),
  beside(2, 'controller/impact', 'a change’s effect on flows'),
  beside(2, 'controller/lint', 'rules that decide nothing'),
  beside(2, 'controller/advise', 'policies from flows'),
  beside(3, 'controller/status', 'what became of each policy'),
  beside(3, 'controller/heartbeat', 'the Lease, egress leases'),
  beside(3, 'controller/probes', 'connections to tried nodes'),
  beside(3, 'controller/console', 'documents for the pages'),
  beside(3, 'controller/metrics', 'metrics of all nodes'),
  beside(4, 'agent/inspect', 'answers about the node'),
  beside(4, 'agent/check', 'is the machine fit?'),
  beside(4, 'agent/bundle', 'facts for maintainers'),
  beside(5, 'agent/observe', 'explain'),
  beside(5, 'agent/connections', 'ends what rules deny'),
  beside(6, 'agent/record', 'flow log, counters'),
  beside(6, 'agent/flows', 'kinds of flows'),
  beside(6, 'agent/boot', 'rules for the next boot'),
  beside(6, 'agent/nftables-napi', 'nf_tables netlink'),
  beside(6, 'agent/ipset-ts', 'the ipset command'),
];

/** They wire the others. */
export const PROCESSES: readonly string[] = ['controller/run', 'agent/run'];
