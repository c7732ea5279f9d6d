import type { FlowAnswer } from '../apis/flow.ts';
import {
  auditDenial,
  type ChangedFlow,
  type FoundImpact,
  type NodeImpact,
} from '../controller/impact/flow-impact.ts';
import { answerText, kindServiceText } from './flow-text.ts';
import { table } from './output.ts';
import { fieldText } from './record-text.ts';

/** Rows of a table: -o json has all. */
const MOST_ROWS = 100;

const HEADER = ['node', 'direction', 'peer', 'service', 'per hour', 'live', 'last seen', 'before', 'after'];

/** For people: what is newly denied and allowed, then what is known about each node. */
export function impactText(found: FoundImpact): string {
  const { nodes, failed, untouched } = found;
  const isOne = nodes.length + failed.length <= 1;
  const parts = [
    section('Newly denied', nodes, ({ denied }) => denied, isOne),
    section('Newly allowed', nodes, ({ allowed }) => allowed, isOne),
    section('Allowed, but rules in mode Audit would deny them', nodes, ({ audited }) => audited, isOne),
    ...nodes.map(summary),
    ...failed.map(({ node }) => `${fieldText(node)}: did not answer: nothing is known of its flows\n`),
    untouched === 0
      ? ''
      : `${untouched} ${untouched === 1 ? 'node has' : 'nodes have'} the same rules before and after.\n`,
    ...remarks(nodes),
  ];
  return parts.join('');
}

function section(
  title: string,
  nodes: readonly NodeImpact[],
  flowsOf: (node: NodeImpact) => readonly ChangedFlow[],
  isOne: boolean,
): string {
  const rows = nodes.flatMap((one) => flowsOf(one).map((flow) => [fieldText(one.node), ...toRow(flow)]));
  if (rows.length === 0) return '';
  const cut = (row: readonly string[]): readonly string[] => (isOne ? row.slice(1) : row);
  const left = rows.length - MOST_ROWS;
  const more = left > 0 ? `and ${left} more: -o json has all\n` : '';
  return `${title}:\n${table(cut(HEADER), rows.slice(0, MOST_ROWS).map(cut))}${more}\n`;
}

function toRow(flow: ChangedFlow): string[] {
  const { direction, traffic, peer, peerName, live, lastSeen, before, after, perHour, isPartly } = flow;
  const ends = flow.endsLive && live !== null && live > 0 ? ' (ended)' : '';
  return [
    traffic === 'NodePort' ? `${fieldText(direction)} NodePort` : fieldText(direction),
    peerName === undefined ? fieldText(peer) : `${fieldText(peer)} (${peerName})`,
    `${kindServiceText(flow)}${isPartly ? ' (may be partly)' : ''}`,
    rateText(perHour),
    live === null ? '?' : `${fieldText(live)}${ends}`,
    fieldText(lastSeen),
    answerText(before),
    `${answerText(after)}${auditText(after)}`,
  ];
}

/** The rule in mode Audit that would deny what is allowed. */
function auditText(after: FlowAnswer): string {
  const rule = after.verdict === 'Allow' ? auditDenial(after) : undefined;
  return rule === undefined
    ? ''
    : `, audit: ${fieldText(rule.action)} ${fieldText(rule.policy)}/${fieldText(rule.rule)}`;
}

function rateText(perHour: number): string {
  if (perHour === 0) return '0';
  if (perHour < 0.1) return '<0.1';
  return perHour < 10 ? perHour.toFixed(1) : perHour.toFixed(0);
}

/** The changes on a node, and the gaps of its inventory. */
function summary(one: NodeImpact): string {
  const { node, since, liveAt, denied, allowed, kinds, folded, otherwise, unknownNames, missed } = one;
  const { leftOut, overruns, busySeconds } = missed;
  const notes = [
    folded > 0 ? `${folded} kinds stand for many flows, of which one example was judged` : '',
    leftOut > 0 ? `${fieldText(leftOut)} kinds were left out of the inventory` : '',
    busySeconds > 0 ? `not all connections of ${fieldText(busySeconds)} seconds were seen` : '',
    overruns > 0 ? `the kernel discarded events ${fieldText(overruns)} times` : '',
    liveAt === null ? 'live connections are not known' : '',
    otherwise.length > 0
      ? `about ${otherwise.length} kinds the node decides otherwise today than these objects: it has another configuration or version, or addresses that only it knows`
      : '',
    unknownNames.length > 0
      ? `no address is known for ${unknownNames.map(fieldText).join(', ')}: rules for these names match nothing here`
      : '',
  ].filter((note) => note !== '');
  const what = `${fieldText(node)}: of ${fieldText(kinds)} kinds of flows since ${fieldText(since)}, ${denied.length} newly denied, ${allowed.length} newly allowed`;
  return `${[what, ...notes].join('; ')}\n`;
}

function remarks(nodes: readonly NodeImpact[]): string[] {
  if (nodes.length === 0) return [];
  const isLive = nodes.some(({ denied }) => denied.some(({ live, endsLive }) => !endsLive && live !== 0));
  const live =
    'Live connections go on until they end by themselves; after that they are denied. A policy with established: Recheck, or nodewall flush, ends them.\n';
  const never =
    'Not in it: what happens less often than since then, forwarded traffic, and what rules without enableLogging deny.\n';
  return [isLive ? live : '', never];
}
