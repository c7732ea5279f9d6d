import type { NodeReport } from '../../apis/node-report.ts';

/** The report of a node that has its view in force, but for what is said. */
export function nodeReport(
  node: string,
  revision: string | null,
  said: Partial<NodeReport> = {},
): NodeReport {
  return {
    node,
    revision,
    enforced: revision,
    enabled: true,
    failing: [],
    policies: 1,
    hostAddresses: [],
    version: '0.1.0',
    dataplane: 'nftables',
    time: '1970-01-01T00:00:00.000Z',
    ...said,
  };
}
