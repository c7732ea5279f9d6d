/**
 * A cluster as the console is sent it: the same values for the same numbers of nodes and policies.
 * Most is as wanted; one of each state that a page shows is there.
 */
import {
  type ExceptionState,
  type Overview,
  type OverviewNode,
  type OverviewPolicy,
  toRanges,
} from '../../apis/console.ts';
import type { NodePhase } from '../../apis/node-report.ts';
import type { RolloutProgress } from '../../apis/rollout.ts';

/** Of all documents: 2026-11-26T14:20:00Z. */
export const SAMPLE_TIME = '2026-11-26T14:20:00Z';

/** A time before it. */
export function before(seconds: number): string {
  return new Date(Date.parse(SAMPLE_TIME) - seconds * 1000).toISOString();
}

const POLICY_NAMES = [
  ...['protect-api', 'protect-etcd', 'protect-kubelet', 'protect-ssh', 'node-exporter', 'ingress-http'],
  ...[
    'storage-replication',
    'registry-mirror',
    'close-telnet',
    'egress-metadata',
    'backup-pull',
    'worker-rest',
  ],
];
const TIERS = ['securityops', 'networkops', 'platform', 'application'];

/** By index: what is not as wanted. */
const NODE_PHASES: Readonly<Record<number, readonly [NodePhase, string]>> = {
  3: ['Off', 'nodewall off: disk swap; nothing is enforced'],
  7: ['Silent', `no report since ${before(1260)}; the last rules are in force`],
  11: ['Failing', '1 rules fail; the first: nft: No buffer space available'],
};
/** By index of the policy: a state, on some nodes. */
const EXCEPTIONS: Readonly<Record<number, readonly [ExceptionState, readonly number[], string]>> = {
  1: ['Trying', [0, 1], 'guarded apply confirms it in 6 s'],
  3: ['OtherVersion', [2, 4, 5, 6, 8, 9, 10], ''],
  5: ['RolledBack', [5], 'probe api-server failed: 10.0.0.1:6443 did not answer; rule ingress-http/rest'],
  8: ['Failed', [11], 'nft: No buffer space available'],
  9: ['Pending', [12, 13], ''],
};

interface SampleSize {
  readonly nodes: number;
  readonly policies: number;
}

export function sampleOverview(size: SampleSize): Overview {
  const nodes = Array.from({ length: size.nodes }, (_, i) => sampleNode(i));
  const policies = Array.from({ length: size.policies }, (_, i) => samplePolicy(i, size.nodes));
  return {
    time: SAMPLE_TIME,
    revision: '8123',
    isEnabled: true,
    remark: null,
    nodes,
    policies,
    rollouts: sampleRollouts(),
    problems: [
      ...policies.flatMap(({ name, phase, message }) =>
        ['Realized', 'NoNodes', 'Realizing'].includes(phase)
          ? []
          : [{ object: `ClusterNetworkPolicy/${name}`, phase, message }],
      ),
      ...nodes.flatMap(({ name, phase, message }) =>
        phase === 'Enforced' ? [] : [{ object: `Node/${name}`, phase, message }],
      ),
    ],
  };
}

function sampleNode(index: number): OverviewNode {
  const [phase, message] = NODE_PHASES[index] ?? (['Enforced', ''] as const);
  const role = index < 3 ? 'cp' : 'worker';
  return {
    name: `${role}-${String(index < 3 ? index + 1 : index - 2).padStart(2, '0')}`,
    phase,
    message,
    reported: before(phase === 'Silent' ? 1260 : 5 + ((index * 7) % 60)),
    version: index === 14 ? '0.0.9' : '0.1.0',
    dataplane: index % 9 === 8 ? 'iptables' : 'nftables',
  };
}

const PHASES: Readonly<Record<number, OverviewPolicy['phase']>> = {
  1: 'Realizing',
  3: 'Realizing',
  5: 'RolledBack',
  8: 'Failed',
  9: 'Realizing',
  4: 'Invalid',
  11: 'NoNodes',
};

export function samplePolicy(index: number, nodeCount: number): OverviewPolicy {
  const applies = Array.from({ length: nodeCount }, (_, i) => i).filter(
    (node) => index % 3 === 0 || (index % 3 === 1 ? node < 3 || node % 2 === 0 : node >= 3),
  );
  const exception = EXCEPTIONS[index];
  const phase = PHASES[index] ?? 'Realized';
  const isInvalid = phase === 'Invalid';
  const nodes = phase === 'NoNodes' ? [] : applies;
  const generation = 1 + (index % 5);
  const excepted = exception?.[1].filter((node) => nodes.includes(node)) ?? [];
  return {
    apiGroup: index === 10 ? 'crd.antrea.io' : 'nodewall.io',
    name: POLICY_NAMES[index] ?? `${POLICY_NAMES[index % POLICY_NAMES.length]}-${index}`,
    tier:
      TIERS[Math.floor((index * TIERS.length) / Math.max(12, POLICY_NAMES.length, index + 1))] ??
      'application',
    priority: 10 + index,
    mode: index === 6 ? 'Audit' : 'Enforce',
    traffic: index === 7 ? 'NodePort' : 'Host',
    phase,
    message: messageOf(phase, nodes.length, excepted.length),
    generation,
    enforcedGeneration: isInvalid ? generation - 1 || null : generation,
    since: exception === undefined && index % 4 !== 2 ? before(3600 * (3 + index * 5)) : null,
    sinceAtLeast: exception === undefined && index % 4 === 2 ? before(86_400) : null,
    changed: {
      time: before(3600 * (3 + index * 5) + 20),
      by: index % 2 === 0 ? 'argocd' : 'kubectl-client-side-apply',
    },
    nodes: toRanges(nodes),
    exceptions:
      exception === undefined || excepted.length === 0
        ? []
        : [
            {
              nodes: toRanges(excepted),
              state: exception[0],
              reason: exception[2],
              rule: exception[0] === 'Failed' ? 'drop-telnet' : null,
              generation: exception[0] === 'Trying' ? generation : generation > 1 ? generation - 1 : null,
              since: before(90),
            },
          ],
  };
}

function messageOf(phase: OverviewPolicy['phase'], desired: number, excepted: number): string {
  if (phase === 'NoNodes') return 'The policy selects no existing node.';
  if (phase === 'Invalid')
    return 'spec.ingress[0].ports[0].port: 70000 is not a port; version before is enforced.';
  if (phase === 'Failed') return 'worker-09: drop-telnet: nft: No buffer space available';
  if (phase === 'RolledBack') return 'worker-03: probe api-server failed; the version before is in force.';
  return `${desired - excepted} of ${desired} nodes enforce the policy.`;
}

function sampleRollouts(): RolloutProgress[] {
  return [
    {
      policy: 'ingress-http',
      group: null,
      state: 'Paused',
      pausedBy: 'Failures',
      step: 1,
      progress: 'Paused at step 1 of 4',
      message:
        'Too many nodes failed: resume or undo it, or change the policy. 1 of 24 nodes have the new version, 0 confirmed it, 1 failed.',
      from: 0,
      to: 1,
      generation: 1,
      nodes: 24,
      updated: 1,
      confirmed: 0,
      failed: [{ node: 'worker-03', reason: 'probe api-server failed: 10.0.0.1:6443 did not answer' }],
      silent: [],
      waiting: [],
    },
    {
      policy: 'protect-ssh',
      group: null,
      state: 'Progressing',
      pausedBy: null,
      step: 3,
      progress: 'Step 3 of 4',
      message: 'The next step begins at 2026-11-26T14:20:42Z.',
      from: 3,
      to: 4,
      generation: 4,
      nodes: 24,
      updated: 17,
      confirmed: 14,
      failed: [],
      silent: [{ node: 'worker-05', reason: `no report since ${before(1260)}` }],
      waiting: ['worker-11', 'worker-12'],
    },
  ];
}
