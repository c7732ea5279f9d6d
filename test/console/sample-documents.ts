/** The other documents of a console, of the same cluster as in sample-cluster.ts. */
import type {
  AskedNodes,
  Audit,
  DeniedPeers,
  DropCount,
  Drops,
  FlowOnNodes,
  Lint,
  Preview,
} from '../../apis/console-documents.ts';
import type { Explanation } from '../../apis/flow.ts';
import { before, SAMPLE_TIME } from './sample-cluster.ts';

const STEP = 300;
const STEPS = 288;

const ASKED: AskedNodes = {
  nodes: ['cp-01', 'worker-02', 'worker-05'],
  failed: [{ node: 'worker-05', error: 'no answer within 4 s' }],
  notAsked: 21,
};

/** A day with a scan in the night, scaled. */
function count(share: number, shift: number): DropCount {
  const scale = 40 * share;
  const series = Array.from({ length: STEPS }, (_, i) => {
    const wave = 20 + 14 * Math.sin((i + shift) / 22) + ((i * 7919 + shift) % 11);
    const scan = i > 96 && i < 118 ? 260 - 9 * Math.abs(107 - i) : 0;
    return Math.round(scale * (wave + scan));
  });
  const packets = series.reduce((sum, value) => sum + value, 0);
  return { packetsPerSecond: (series.at(-2) ?? 0) / STEP, packets, series };
}

const DROP_RULES = [
  ['worker-rest', 'rest', 'Drop', 0.62],
  ['protect-ssh', 'drop-ssh', 'Drop', 0.21],
  ['protect-api', 'drop-rest', 'Drop', 0.1],
  ['close-telnet', 'drop-telnet', 'Reject', 0.05],
  ['egress-metadata', 'no-metadata', 'Drop', 0.02],
] as const;

export function sampleDrops(): Drops {
  return {
    time: SAMPLE_TIME,
    since: before(STEP * (STEPS - 1) + 120),
    remark: null,
    step: STEP,
    lastStep: before(120),
    total: count(1, 0),
    rules: DROP_RULES.map(([policy, rule, action, share], i) => ({
      ...count(share, i * 13),
      apiGroup: 'nodewall.io',
      policy,
      rule,
      action,
      ruleIndex: 1,
      direction: policy.startsWith('egress') ? 'egress' : 'ingress',
    })),
    nodes: ['worker-02', 'cp-01', 'worker-09', 'cp-02', 'worker-14'].map((node, i) => ({
      ...count(0.5 / (i + 1), i * 5),
      node,
    })),
    rulesLeftOut: 0,
    nodesLeftOut: 12,
  };
}

function sampleFlow(
  peer: string,
  port: number,
  connections: number,
  [policy, rule]: readonly [policy: string | null, rule: string | null],
): FlowOnNodes {
  return {
    direction: 'ingress',
    traffic: 'Host',
    peer,
    protocol: 'tcp',
    port,
    verdict: 'Drop',
    connections,
    live: null,
    firstSeen: before(80_000),
    lastSeen: before(port),
    decision: { verdict: 'Drop', policy, rule },
    nodes: ['cp-01', 'worker-02'],
  };
}

export function samplePeers(): DeniedPeers {
  const monitoring = { verdict: 'Allow', policy: 'node-exporter', rule: 'monitoring' } as const;
  return {
    time: SAMPLE_TIME,
    asked: ASKED,
    flows: [
      sampleFlow('203.0.113.0/24', 22, 18_204, ['protect-ssh', 'drop-ssh']),
      sampleFlow('198.51.100.7', 23, 2_310, ['close-telnet', 'drop-telnet']),
      { ...sampleFlow('10.0.0.9', 9100, 96, [null, null]), decision: monitoring },
      sampleFlow('2001:db8::9', 5432, 12, ['worker-rest', 'rest']),
    ],
    isCut: false,
  };
}

export function sampleAudit(): Audit {
  const rule = {
    id: 'storage-replication',
    tier: 'platform',
    apiGroup: 'nodewall.io',
    policy: 'storage-replication',
    direction: 'ingress',
    mode: 'Audit',
    traffic: 'Host',
  } as const;
  const peer = { policy: rule.policy, direction: 'ingress', protocol: 'tcp' } as const;
  return {
    time: SAMPLE_TIME,
    asked: ASKED,
    rules: [
      {
        ...rule,
        rule: 'peers',
        ruleIndex: 0,
        action: 'Allow',
        packets: 48_213,
        bytes: 2_892_780,
        lastHit: before(2),
        nodes: ['cp-01', 'worker-02'],
      },
      {
        ...rule,
        rule: 'rest',
        ruleIndex: 1,
        action: 'Drop',
        packets: 214,
        bytes: 12_840,
        lastHit: before(420),
        nodes: ['worker-02'],
      },
      {
        ...rule,
        rule: 'legacy',
        ruleIndex: 2,
        action: 'Drop',
        packets: 0,
        bytes: 0,
        lastHit: null,
        nodes: [],
      },
    ],
    peers: [
      {
        ...peer,
        rule: 'rest',
        verdict: 'Drop',
        peer: '10.0.0.9',
        port: 9100,
        records: 208,
        lastSeen: before(420),
        nodes: ['worker-02'],
      },
      {
        ...peer,
        rule: 'peers',
        verdict: 'Allow',
        peer: '10.0.3.21',
        port: 3300,
        records: 96,
        lastSeen: before(2),
        nodes: ['cp-01', 'worker-02'],
      },
    ],
    isCut: false,
  };
}

export function sampleLint(): Lint {
  const nodes = ['cp-01', 'cp-02', 'cp-03'];
  return {
    time: SAMPLE_TIME,
    findings: [
      {
        kind: 'unreachable',
        direction: 'ingress',
        policy: 'backup-pull',
        rule: 'allow-rsync',
        ruleIndex: 0,
        rules: [{ policy: 'worker-rest', rule: 'rest', ruleIndex: 0 }],
        left: null,
        flow: { direction: 'ingress', src: '10.0.8.2', protocol: 'tcp', dstPort: 873 },
        nodes: ['worker-01', 'worker-02', 'worker-03'],
        nodeCount: 21,
        ruleCount: 7,
      },
      {
        kind: 'selects-nothing',
        direction: 'ingress',
        policy: 'registry-mirror',
        rule: 'mirrors',
        ruleIndex: 0,
        rules: [],
        left: null,
        flow: null,
        nodes,
      },
      {
        kind: 'failsafe',
        direction: 'ingress',
        policy: 'protect-api',
        rule: 'drop-rest',
        ruleIndex: 1,
        rules: [],
        left: null,
        flow: { direction: 'ingress', src: '10.0.0.12', protocol: 'tcp', dstPort: 10_250 },
        nodes,
      },
    ],
    leftOut: 0,
  };
}

export function samplePreview(): Preview {
  return {
    time: SAMPLE_TIME,
    problems: [
      {
        severity: 'warning',
        line: 14,
        file: 'preview.yaml',
        kind: 'ClusterNetworkPolicy',
        name: 'protect-ssh',
        path: 'spec.ingress[1]',
        message: 'drops SSH from every other network; make sure that you are in 10.20.0.0/16',
      },
    ],
    objects: [{ kind: 'ClusterNetworkPolicy', name: 'protect-ssh', change: 'replaced' }],
    brokenGuardrail: null,
    groups: [
      {
        nodes: ['cp-01', 'cp-02', 'cp-03'],
        nodeCount: 24,
        changes: [
          {
            direction: 'ingress',
            traffic: 'Host',
            flowsText: 'tcp port 22',
            peersText: '10.0.0.0-10.19.255.255',
            before: 'Allow',
            after: 'Drop',
            ruleBefore: { policy: 'protect-ssh', rule: 'office', ruleIndex: 0 },
            ruleAfter: { policy: 'protect-ssh', rule: 'drop-ssh', ruleIndex: 1 },
          },
          {
            direction: 'ingress',
            traffic: 'Host',
            flowsText: 'tcp port 2222',
            peersText: '10.20.0.0-10.20.255.255',
            before: 'Drop',
            after: 'Allow',
            ruleBefore: { policy: 'worker-rest', rule: 'rest', ruleIndex: 0 },
            ruleAfter: { policy: 'protect-ssh', rule: 'office', ruleIndex: 0 },
          },
        ],
      },
    ],
    leftOut: 0,
    noDifference: null,
    impact: {
      asked: ASKED,
      flows: [
        {
          ...sampleFlow('10.0.0.7', 22, 41, ['protect-ssh', 'drop-ssh']),
          live: 2,
          firstSeen: before(400_000),
          lastSeen: before(640),
        },
      ],
      isCut: false,
    },
  };
}

export function sampleExplanation(): Explanation {
  const tested = (policy: string, rule: string, ruleIndex: number, tier: string) => ({
    policy,
    rule,
    ruleIndex,
    tier,
  });
  return {
    verdict: 'Drop',
    policy: 'protect-ssh',
    rule: 'drop-ssh',
    ruleIndex: 1,
    tier: 'securityops',
    reason: 'rule',
    skipped: [],
    audited: [{ policy: 'storage-replication', rule: 'rest', action: 'Drop' }],
    considered: [
      {
        ...tested('protect-api', 'allow-api', 0, 'securityops'),
        action: 'Allow',
        mismatch: 'service',
        outcome: 'no match',
      },
      {
        ...tested('protect-ssh', 'office', 0, 'securityops'),
        action: 'Allow',
        mismatch: 'address',
        outcome: 'no match',
      },
      {
        ...tested('storage-replication', 'rest', 1, 'securityops'),
        action: 'Drop',
        mismatch: null,
        outcome: 'audited',
      },
      {
        ...tested('protect-ssh', 'drop-ssh', 1, 'securityops'),
        action: 'Drop',
        mismatch: null,
        outcome: 'decided',
      },
    ],
  };
}
