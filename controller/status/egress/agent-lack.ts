import { EGRESS_FEATURE, type NodeReport } from '../../../apis/stream.ts';

/**
 * Why the agent steers nothing as its view says, or drops what a gateway needs; null: nothing is
 * known. A word, and what the agent says.
 */
export function agentLack(report: NodeReport): string | null {
  const { features, egress, off, enabled, viewError } = report;
  if (off !== undefined || !enabled) return 'AgentOff';
  if (features?.includes(EGRESS_FEATURE) !== true) return withText('AgentWithoutEgress', egress?.refused);
  return viewError === undefined ? null : withText('AgentNotFollowing', viewError);
}

/** The lack in the node's network configuration, whose connections are dropped; null: none. */
export function networkLack({ egress }: NodeReport): string | null {
  const [first, ...more] = egress?.problems ?? [];
  if (first === undefined) return null;
  return withText('NetworkIncomplete', `${first}${more.length === 0 ? '' : ` (and ${more.length} more)`}`);
}

function withText(word: string, text: string | undefined): string {
  return text === undefined ? word : `${word}: ${text.slice(0, LONGEST)}`;
}

/** A status names up to a hundred nodes. */
const LONGEST = 200;
