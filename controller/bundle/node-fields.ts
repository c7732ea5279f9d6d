import { CONFIG_FIELDS } from '../../apis/config-fields.ts';
import type { NodeData } from '../../apis/node-question.ts';
import type { Fields } from '../../lib/sharing/known-fields.ts';

const COUNT: Fields = { packets: 'plain', bytes: 'plain', lastHit: 'plain' };

/** What is taken of a node's answers, whatever it answers. Metrics are filtered by metricsText. */
export const NODE_FIELDS: Readonly<Record<Exclude<NodeData, 'explanation' | 'flows'>, Fields>> = {
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
        ...{ id: 'plain', direction: 'plain', tier: 'plain', policy: 'plain', apiGroup: 'plain' },
        ...{ rule: 'plain', ruleIndex: 'plain', action: 'plain', mode: 'plain', traffic: 'plain' },
        since: 'plain',
        ...COUNT,
      },
    ],
    spoofed: COUNT,
    remark: 'text',
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
      ...{ name: 'plain', index: 'plain', kind: 'plain', group: 'plain', groupName: 'plain' },
      ...{ reason: 'text', wanted: 'plain' },
    },
  ],
  // LogRecord (agent/record/record.ts).
  records: {
    records: [
      {
        ...{ time: 'plain', node: 'plain', src: 'plain', dst: 'plain', protocol: 'plain' },
        ...{ srcPort: 'plain', dstPort: 'plain', icmpType: 'plain', icmpCode: 'plain', igmpType: 'plain' },
        ...{ originalDst: 'plain', originalDstPort: 'plain', interface: 'plain', interfaceGroup: 'plain' },
        ...{ length: 'plain', policy: 'plain', apiGroup: 'plain', tier: 'plain', rule: 'plain' },
        ...{ ruleIndex: 'plain', label: 'plain', direction: 'plain', traffic: 'plain', verdict: 'plain' },
        ...{ audit: 'plain', after: 'plain', event: 'plain', reason: 'text', suppressed: 'plain' },
        ...{ lost: 'plain', policies: ['plain'], probe: 'plain' },
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
