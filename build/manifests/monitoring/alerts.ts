/** One alert, of which the rules of Prometheus and the runbook are made. */
export interface Alert {
  /** Without the prefix `Nodewall`. */
  readonly name: string;
  /** `critical`: somebody gets up; `warning`: in working hours. */
  readonly severity: 'critical' | 'warning';
  /** PromQL. Every controller has every node, so it takes the maximum over them. */
  readonly expr: string;
  /** How long it must hold: `5m`. */
  readonly for: string;
  /** One sentence; may name labels, as `{{ $labels.node }}`. */
  readonly summary: string;
  /** The runbook: Markdown without headings. */
  readonly means: string;
  /** The commands to run first, each with its meaning. */
  readonly look: readonly (readonly [command: string, shows: string])[];
  readonly act: string;
}

const STATUS = ['kubectl nodewall status', 'everything that needs somebody, problems first'] as const;

const VIEW = [
  'kubectl get --raw /apis/controlplane.nodewall.io/v1alpha1/nodeviews/NODE',
  'what the node must enforce, and its last report in `status`',
] as const;
const AGENT = [
  'kubectl get pods -n nodewall-system -o wide --field-selector spec.nodeName=NODE',
  'whether its agent runs; then `kubectl logs`',
] as const;
const LAST_REPORT = 'max by (node) (nodewall_node_last_report_timestamp_seconds)';
const OFF = 'max by (node) (nodewall_node_off) == 1';
const FAILING =
  '(max by (node) (nodewall_node_policies_failing) + max by (node) (nodewall_node_policies_rolled_back)) > 0';

/** A rule's rate of denied packets. */
function deniedRate(offset: string): string {
  return `max by (api_group, policy, direction, rule) (rate(nodewall_rule_denied_packets_total[15m]${offset}))`;
}

/** Alerts about nodes, of the page of all nodes. */
export const NODE_ALERTS: readonly Alert[] = [
  {
    name: 'NodeNotUpToDate',
    severity: 'critical',
    expr: `(max by (node) (nodewall_node_up_to_date) == 0 and on (node) time() - ${LAST_REPORT} < 180) unless on (node) ${OFF} unless on (node) ${FAILING}`,
    for: '5m',
    summary: 'Node {{ $labels.node }} does not enforce what the controller sent last.',
    means:
      'Its agent reports, and names no policy that fails; yet what is in force is older than what it received, or it cannot follow the controller. The rules before stay in force.',
    look: [STATUS, VIEW, AGENT],
    act: 'State `NotFollowing`: agent and controller of different versions, see [Troubleshooting](cluster.md#troubleshooting). State `Pending`: the log of the agent says what the kernel refuses, or what the agent waits for.',
  },
  {
    name: 'ManyNodesBehind',
    severity: 'critical',
    expr: 'sum(max by (phase) (nodewall_nodes{phase=~"Pending|Failing|NotFollowing|Silent|Unknown"})) / sum(max by (phase) (nodewall_nodes)) > 0.1',
    for: '10m',
    summary: 'More than a tenth of the nodes do not enforce what they should.',
    means:
      'One cause for many nodes: a policy that every kernel refuses, a version of the agent, a network that is cut.',
    look: [STATUS, ['kubectl get nodeviews', 'the state of each node']],
    act: 'Look at one node of each state, as for NodewallNodeNotUpToDate and NodewallNodeSilent. A policy that was changed last is taken back by applying the version before.',
  },
  {
    name: 'NodeSilent',
    severity: 'warning',
    expr: `time() - (${LAST_REPORT} > 0) > 300`,
    for: '2m',
    summary: 'The agent of node {{ $labels.node }} has not reported for minutes.',
    means:
      'The agent does not run, or does not reach the controllers. The rules that it had stay in the kernel, also without it; changes do not reach the node, and third parties may change its rules.',
    look: [AGENT, ['kubectl get node NODE', 'whether the node itself is there']],
    act: "A node that is gone for good is deleted by `kubectl delete node NODE`. Else the agent's log has the reason: [When the controller is away](cluster.md#when-the-controller-is-away).",
  },
  {
    name: 'NodeWithoutAgent',
    severity: 'warning',
    expr: `${LAST_REPORT} == 0`,
    for: '15m',
    summary: 'No agent of node {{ $labels.node }} has ever reported.',
    means:
      'The node has no rules of nodewall: no agent was started there, or it was never accepted by a controller.',
    look: [
      AGENT,
      ['kubectl describe daemonset -n nodewall-system nodewall-agent', 'why no pod is placed there'],
    ],
    act: 'Taints that the DaemonSet does not tolerate, an image that cannot be pulled, or a token that is not accepted: see the pod, then its log.',
  },
  {
    name: 'NodeOff',
    severity: 'warning',
    expr: OFF,
    for: '15m',
    summary: 'nodewall is switched off on node {{ $labels.node }}.',
    means:
      'Somebody ran `nodewall off` there, or the file `off` is in the state directory: nothing is enforced on the node.',
    look: [STATUS, VIEW],
    act: '`nodewall on`, on the node, once the reason is gone ([recovery.md](recovery.md#come-back)).',
  },
  {
    name: 'GateOff',
    severity: 'warning',
    expr: 'max(nodewall_nodes{phase="Disabled"}) > 0 and max(nodewall_controller_policies) > 0',
    for: '1h',
    summary: 'There are policies, and the feature gate that enforces them is off.',
    means:
      'Nothing is enforced on these nodes: ConfigMap `nodewall-config` or a configuration has NodeNetworkPolicy=false.',
    look: [
      ['kubectl get configmap -n nodewall-system nodewall-config -o yaml', 'the gate of the cluster'],
      STATUS,
    ],
    act: '`kubectl apply -f deploy/gate/on.yaml`, if the gate is not off on purpose.',
  },
  {
    name: 'PolicyFailing',
    severity: 'warning',
    expr: 'max by (node) (nodewall_node_policies_failing) > 0',
    for: '5m',
    summary: 'Node {{ $labels.node }} cannot enforce {{ $value }} policies in their present version.',
    means:
      'The kernel refuses a rule, or the agent does not know a part of it. The last version that was valid there stays in force, or none. Or it is a NodePort policy, which matches nothing beside the Service proxy of that node (phase NotEnforced).',
    look: [
      STATUS,
      [
        'kubectl get clusternetworkpolicies.nodewall.io POLICY -o yaml',
        '`failingNodes`, with the rule and the reason',
      ],
      VIEW,
    ],
    act: 'The reason names the rule: correct it, or upgrade the agent. Without a version before, the policy is **not enforced** on that node.',
  },
  {
    name: 'PolicyRolledBack',
    severity: 'critical',
    expr: 'max by (node) (nodewall_node_policies_rolled_back) > 0',
    for: '0m',
    summary: 'Node {{ $labels.node }} rolled back the change of a policy.',
    means:
      'After the change a connection failed that must work (guarded apply): the node has the version before, and does not try this one again. Other nodes may have the change.',
    look: [
      STATUS,
      ['kubectl nodewall log --node NODE', 'the record `rolledBack`: probe, policy and rule'],
      ['kubectl get events -A --field-selector reason=RolledBack', 'since when'],
    ],
    act: 'Correct the rule that the reason names. If the failure had another cause: `kubectl nodewall retry POLICY` ([guarded-apply.md](guarded-apply.md#by-hand)).',
  },
  {
    name: 'DriftRepeated',
    severity: 'warning',
    expr: 'max by (node) (increase(nodewall_node_drifts_total[1h])) > 3',
    for: '0m',
    summary: 'Something changes the rules of nodewall on node {{ $labels.node }} again and again.',
    means:
      'Another program, or somebody, deletes or changes objects of nodewall in the kernel; the agent repairs them each time. Between change and repair packets may pass that a policy denies.',
    look: [AGENT, ['nft monitor', 'on the node: which process changes what']],
    act: 'Mostly a service that flushes all tables (`nftables.service`, firewalld, a script with `flush ruleset`): take that out ([operations.md](operations.md#foreign-changes)).',
  },
  {
    name: 'RecordsLost',
    severity: 'warning',
    expr: 'max by (node) (increase(nodewall_node_records_lost_total[15m])) > 0',
    for: '0m',
    summary: 'Node {{ $labels.node }} loses records of connections.',
    means:
      'More connections are recorded than the disk or the socket takes. Verdicts are not affected; the record has gaps, and says how large they are.',
    look: [
      ['kubectl nodewall top --node NODE', 'which rule is hit so often'],
      ['kubectl nodewall log --node NODE', 'the records, with the number lost'],
    ],
    act: 'Switch off `enableLogging` of that rule, or look at the disk ([logging-and-audit.md](logging-and-audit.md#what-is-bounded)).',
  },
  {
    name: 'DropsRose',
    severity: 'warning',
    expr: `${deniedRate('')} > 5 * ${deniedRate(' offset 1d')} and ${deniedRate('')} > 1`,
    for: '15m',
    summary: 'Rule {{ $labels.policy }}/{{ $labels.rule }} denies five times as much as a day ago.',
    means:
      'A new version of a policy or of an application, an attack, or a scan. More than one packet a second over all nodes.',
    look: [
      ['kubectl nodewall top --all-nodes --policy POLICY', 'which rules deny now, and on which nodes'],
      ['kubectl nodewall log --all-nodes --policy POLICY', 'who is denied, if the rule has logging'],
    ],
    act: 'If legitimate: `kubectl nodewall explain --node NODE --flow …` says why the connection is denied; add a rule that allows it, or take back the change.',
  },
];

const LOG = [
  'kubectl logs -n nodewall-system deployment/nodewall-controller --all-pods=true --since=15m',
  "the controllers' logs, with the reason",
] as const;
const PODS = [
  'kubectl get pods -n nodewall-system -o wide',
  'whether the controllers run, and where',
] as const;

/** Alerts about the controllers and the objects of the cluster. */
export const CONTROLLER_ALERTS: readonly Alert[] = [
  {
    name: 'ControllersAbsent',
    severity: 'critical',
    expr: 'absent(nodewall_controller_leader)',
    for: '5m',
    summary: 'Prometheus gets metrics of no controller of nodewall.',
    means:
      'No controller runs, or Prometheus cannot scrape them. Without controllers the rules in force stay, also over restarts of agents and nodes; changes of policies, nodes and pods reach nobody. No other alert about nodewall can fire.',
    look: [
      PODS,
      LOG,
      [
        'kubectl auth can-i get /metrics --as=system:serviceaccount:monitoring:prometheus',
        'whether the scraper may',
      ],
    ],
    act: 'Where pods run and the target answers 401 or 403, or its certificate is not trusted: [Scraped by Prometheus](cluster.md#scraped-by-prometheus); after a new CA the copy of ConfigMap `nodewall-ca` must be made again. Where no pod runs: [When the controller is away](cluster.md#when-the-controller-is-away).',
  },
  {
    name: 'NoLeader',
    severity: 'critical',
    expr: 'max(nodewall_controller_leader) == 0',
    for: '2m',
    summary: 'No controller of nodewall leads.',
    means:
      'Controllers run and serve agents, but none holds the Lease, or the one that does is not proven to see the present state of the cluster. Statuses and Events are not written, rollouts and floating addresses stand still.',
    look: [
      ['kubectl get lease -n nodewall-system nodewall-controller -o yaml', 'who holds it, and since when'],
      LOG,
    ],
    act: 'The log of the holder says what it waits for, mostly a watch of the API server that is behind. Restart that pod if it says nothing new for minutes.',
  },
  {
    name: 'TwoLeaders',
    severity: 'critical',
    expr: 'sum(nodewall_controller_leader) > 1',
    for: '2m',
    summary: 'More than one controller of nodewall leads.',
    means:
      'Two processes believe that they hold the Lease: the clock or the process of one of them stood still for long, or two installations share one Prometheus without a label that tells them apart. Statuses may be written twice.',
    look: [
      ['kubectl get lease -n nodewall-system nodewall-controller -o yaml', 'the one that holds it'],
      LOG,
    ],
    act: 'Restart the controller that is not the holder. Where one Prometheus has several clusters, add `by (cluster)` to the expression.',
  },
  {
    name: 'WatchFailing',
    severity: 'critical',
    expr: 'sum by (instance, resource) (increase(nodewall_controller_watch_failures_total{reason!~"expired|missing"}[10m])) > 5',
    for: '5m',
    summary: 'Controller {{ $labels.instance }} cannot watch {{ $labels.resource }}.',
    means:
      'Lists or watches of this resource at the API server fail again and again. The controller goes on with what it knew: changes of these objects reach no node.',
    look: [
      LOG,
      [
        'kubectl auth can-i watch pods --as=system:serviceaccount:nodewall-system:nodewall-controller',
        'whether its rights are there',
      ],
    ],
    act: 'Reason `forbidden`, or `nodewall_controller_watch_forbidden` is 1: apply `deploy/rbac.yaml` of this version; the controller needs no restart. One that has not started to serve says at `/readyz` which right it lacks, and which role gives it. `unreachable`, `silent`, `serverError`, `throttled`: the API server, or the way to it. Other reasons: report them, with the log.',
  },
  {
    name: 'InternalErrors',
    severity: 'warning',
    expr: 'sum by (instance) (increase(nodewall_controller_internal_errors_total[15m])) > 0',
    for: '0m',
    summary: 'Controller {{ $labels.instance }} had an internal error.',
    means: 'The compiler failed on objects of the cluster. Agents keep what was published last.',
    look: [LOG],
    act: 'Report the message `internal error; agents keep the published rules`, with its stack and the objects that were changed last. Taking back the change that caused it brings publishing back.',
  },
  {
    name: 'StatusWritesFailing',
    severity: 'warning',
    expr: 'sum(increase(nodewall_controller_status_failures_total[15m])) > 5',
    for: '10m',
    summary: 'Statuses of policies cannot be written.',
    means: 'Policies are published and enforced as always; what their statuses say is old.',
    look: [LOG, ['kubectl get clusternetworkpolicies.nodewall.io', 'the statuses as they are']],
    act: 'The log has the reason of the API server: rights (apply `deploy/rbac.yaml`), a CRD of another version (apply `deploy/crds`), or its load.',
  },
  {
    name: 'CertificateExpires',
    severity: 'critical',
    expr: 'min(nodewall_controller_certificate_expiry_timestamp_seconds) - time() < 14 * 86400',
    for: '1h',
    summary: 'The certificate of a controller of nodewall expires within two weeks.',
    means:
      "The controllers' own certificates are renewed 30 days before they expire, those of cert-manager before that. When it expires, agents and the API server trust no controller: no change reaches a node.",
    look: [
      LOG,
      ['kubectl get secret,configmap -n nodewall-system nodewall-ca', 'the CA, unless cert-manager has it'],
    ],
    act: '[Certificates](cluster.md#certificates): the log names why the Secret or the files cannot be renewed. With cert-manager look at its Certificate objects.',
  },
  {
    name: 'ApiAbsent',
    severity: 'critical',
    expr: 'max(aggregator_unavailable_apiservice{name="v1alpha1.controlplane.nodewall.io"}) == 1',
    for: '5m',
    summary: 'The API server does not reach the aggregated API of nodewall.',
    means:
      'Seen by the API server itself, whose metrics Prometheus must have. `kubectl nodewall` and node views do not answer, and **no namespace of the cluster can be deleted** until the API is back.',
    look: [
      [
        'kubectl get apiservice v1alpha1.controlplane.nodewall.io -o yaml',
        'the reason, in the condition Available',
      ],
      PODS,
    ],
    act: 'Bring a controller back. If there is none left on purpose: `kubectl delete apiservice v1alpha1.controlplane.nodewall.io`; a controller makes it again.',
  },
  {
    name: 'InvalidObjects',
    severity: 'warning',
    expr: 'max(nodewall_controller_problems) > 0',
    for: '15m',
    summary: 'Policies, groups or tiers of nodewall are not valid, or wait for what does not exist.',
    means:
      'They came past the webhook, or name a Tier or ClusterGroup that does not exist, and wait for it. Of each the last valid version stays in force; one that never was valid is not enforced.',
    look: [
      STATUS,
      [
        'kubectl get clusternetworkpolicies.nodewall.io -o jsonpath=\'{range .items[?(@.status.problems)]}{.metadata.name}: {.status.problems}{"\\n"}{end}\'',
        'which, and why',
      ],
    ],
    act: 'Correct or delete them, or create what they wait for. `nodewall validate` finds the same problems in files.',
  },
  {
    name: 'RolloutPaused',
    severity: 'warning',
    expr: 'max(nodewall_controller_rollouts{state="Paused"}) > 0',
    for: '10m',
    summary: 'A rollout of a policy is paused.',
    means:
      'By failures, or by somebody. Some nodes have the new version, the others the one before; that stays so until somebody decides.',
    look: [
      STATUS,
      ['kubectl get events -A --field-selector reason=RolloutPaused', 'when, and after which failures'],
    ],
    act: '`kubectl nodewall rollout resume POLICY` after the cause is repaired, or `kubectl nodewall rollout undo POLICY` ([rollout.md](rollout.md)).',
  },
  {
    name: 'GuardrailBroken',
    severity: 'critical',
    expr: 'max(nodewall_controller_guardrails_broken) > 0',
    for: '1m',
    summary: 'A Guardrail of nodewall does not hold.',
    means:
      'Policies as they are close a connection that must stay, or open one that must not be. The change that did it was not one of policies alone (admission refuses those), but of labels, addresses or groups.',
    look: [['kubectl get guardrails', 'which one, and the first connection'], STATUS],
    act: 'Take back the change of Nodes, labels or groups, or correct the policy that the status names ([guardrails.md](guardrails.md)).',
  },
  {
    name: 'GateUnset',
    severity: 'critical',
    expr: 'max by (gate) (nodewall_controller_unset_gate_nodes) > 0',
    for: '1m',
    summary: 'The feature gate {{ $labels.gate }} has no value; {{ $value }} nodes go on without one.',
    means:
      'ConfigMap `nodewall-config` does not say it, and the Lease that had its last value is gone too: somebody deleted namespace `nodewall-system`, or both objects. Nodes keep what they have; new nodes, and nodes that lose their disk, enforce nothing. With EgressGateway nodes steer as before, follow no change, and floating addresses are given to none.',
    look: [
      ['kubectl get configmap -n nodewall-system nodewall-config -o yaml', 'what it says'],
      ['kubectl get events -n default --field-selector reason=FeatureGateUnset', 'since when'],
      ['kubectl nodewall check', 'which gate, and how many nodes'],
    ],
    act: '`kubectl apply -f deploy/gate/on.yaml`; with egress gateways the ConfigMap of [egress-operations.md](egress-operations.md#in-a-cluster).',
  },
  {
    name: 'EgressNodesNotReady',
    severity: 'warning',
    expr: 'max(nodewall_controller_egress_nodes_not_ready) > 0',
    for: '5m',
    summary: 'Nodes of egress gateways are not ready.',
    means:
      'Candidates of a gateway are left out: silent, not reached by probes, or refused by their kernel. Their connections leave by the others; with none left, they are dropped.',
    look: [['kubectl get egressgateways -o yaml', 'which nodes, and why'], STATUS],
    act: '[Health and fail-over](egress-operations.md#health-and-fail-over).',
  },
];
