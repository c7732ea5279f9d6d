import type { NodeData } from '../../apis/node-question.ts';
import { CONFIG_FIELDS } from '../../apis/shown-fields.ts';
import type { KnownFields } from '../../lib/sharing/safe-text.ts';

const COUNT: KnownFields = { packets: 'plain', bytes: 'plain', lastHit: 'plain' };

// FailsafeEntry (apis/config.ts).
const FAILSAFE_ENTRY: KnownFields = { each: 'plain' };
// Flow and Answer (apis/flow.ts).
const FLOW: KnownFields = {
  direction: 'plain',
  src: 'plain',
  dst: 'plain',
  protocol: 'plain',
  srcPort: 'plain',
  dstPort: 'plain',
  originalDst: 'plain',
  originalDstPort: 'plain',
  icmpType: 'plain',
  icmpCode: 'plain',
  igmpType: 'plain',
  interfaceGroup: 'plain',
  traffic: 'plain',
};
const ANSWER: KnownFields = {
  verdict: 'plain',
  policy: 'plain',
  rule: 'plain',
  ruleIndex: 'plain',
  tier: 'plain',
  reason: 'plain',
  exemption: 'plain',
  skipped: [{ policy: 'plain', rule: 'plain' }],
  audited: [{ policy: 'plain', rule: 'plain', action: 'plain' }],
};

/**
 * Fields of a controller's answer (apis/controller-state.ts). Metrics are filtered by metricsText.
 */
export const CONTROLLER_STATE: KnownFields = {
  name: 'plain',
  version: 'plain',
  nodejs: 'plain',
  time: 'plain',
  uptime: 'plain',
  memory: { rss: 'plain', heapUsed: 'plain' },
  isLeading: 'plain',
  isStopping: 'plain',
  missingRights: ['text'],
  leftOutServices: ['plain'],
  gates: { NodeNetworkPolicy: 'plain', EgressGateway: 'plain' },
  revision: 'plain',
  streams: 'plain',
  others: ['plain'],
  certificateExpires: 'plain',
  statusesWaiting: 'plain',
  watches: [
    {
      resource: 'plain',
      state: 'plain',
      objects: 'plain',
      lists: 'plain',
      watches: 'plain',
      events: 'plain',
      corrections: 'plain',
      failures: { each: 'plain' },
      lastEvent: 'plain',
    },
  ],
};

/**
 * The fields that are taken of a node's answers, whatever it answers. Metrics are filtered by
 * metricsText.
 */
export const NODE_FIELDS: Readonly<Record<Exclude<NodeData, 'explanation'>, KnownFields>> = {
  machine: {
    time: 'plain',
    version: 'plain',
    nodejs: 'plain',
    kernel: 'plain',
    architecture: 'plain',
    uptime: 'plain',
    memory: { each: 'plain' },
    configuration: CONFIG_FIELDS,
    otherChains: {
      chains: [{ each: 'plain' }],
      problem: 'text',
    },
    legacyTables: ['plain'],
  },
  counters: {
    node: 'plain',
    rules: [
      {
        id: 'plain',
        direction: 'plain',
        tier: 'plain',
        policy: 'plain',
        apiGroup: 'plain',
        rule: 'plain',
        ruleIndex: 'plain',
        action: 'plain',
        mode: 'plain',
        traffic: 'plain',
        since: 'plain',
        ...COUNT,
      },
    ],
    spoofed: COUNT,
    remark: 'text',
    platform: [{ entry: 'plain', addresses: 'plain', reason: 'text' }],
  },
  names: {
    saved: 'plain',
    names: [
      {
        name: 'plain',
        failing: 'text',
        addresses: [{ address: 'plain', source: 'plain', seen: 'plain', expires: 'plain', state: 'plain' }],
      },
    ],
  },
  interfaces: [
    {
      name: 'plain',
      index: 'plain',
      kind: 'plain',
      group: 'plain',
      groupName: 'plain',
      reason: 'text',
      wanted: 'plain',
    },
  ],
  // NodeFlows (apis/node-flows.ts).
  flows: {
    node: 'plain',
    since: 'plain',
    liveAt: 'plain',
    kinds: 'plain',
    isCut: 'plain',
    missed: { each: 'plain' },
    controlPlane: [FAILSAFE_ENTRY],
    // Its `reason` may have names of links, which are text.
    platform: [{ protocol: 'plain', ports: ['plain'], peers: 'plain', direction: 'plain', reason: 'text' }],
    flows: [
      {
        direction: 'plain',
        traffic: 'plain',
        peer: 'plain',
        protocol: 'plain',
        port: 'plain',
        icmpType: 'plain',
        icmpCode: 'plain',
        allPorts: 'plain',
        interfaceGroup: 'plain',
        verdict: 'plain',
        connections: 'plain',
        live: 'plain',
        firstSeen: 'plain',
        lastSeen: 'plain',
        flow: FLOW,
        decision: ANSWER,
      },
    ],
  },
  // LogRecord (agent/record/record.ts).
  records: {
    records: [
      {
        time: 'plain',
        node: 'plain',
        src: 'plain',
        dst: 'plain',
        protocol: 'plain',
        srcPort: 'plain',
        dstPort: 'plain',
        icmpType: 'plain',
        icmpCode: 'plain',
        igmpType: 'plain',
        originalDst: 'plain',
        originalDstPort: 'plain',
        interface: 'plain',
        interfaceGroup: 'plain',
        length: 'plain',
        policy: 'plain',
        apiGroup: 'plain',
        tier: 'plain',
        rule: 'plain',
        ruleIndex: 'plain',
        label: 'plain',
        direction: 'plain',
        traffic: 'plain',
        verdict: 'plain',
        audit: 'plain',
        after: 'plain',
        event: 'plain',
        reason: 'text',
        suppressed: 'plain',
        lost: 'plain',
        policies: ['plain'],
        probe: 'plain',
      },
    ],
    isCut: 'plain',
    time: 'plain',
  },
};

const OWN_METRIC = /^(?:# (?:HELP|TYPE) )?(?:nodewall|nodejs|process)_/;

/** The metrics of nodewall and of Node.js, of Prometheus' text format. */
export function metricsText(text: string): string {
  const lines = text.split('\n').filter((line) => OWN_METRIC.test(line));
  return lines.map((line) => `${line}\n`).join('');
}
