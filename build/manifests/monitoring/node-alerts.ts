import type { Alert } from './alert.ts';

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
      'The kernel refuses a rule, or the agent does not know a part of it. The last version that was valid there stays in force, or none.',
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
