import { Document, isCollection, isMap, isPair, isScalar, isSeq, type YAMLMap } from 'yaml';
import type { Advice, AdvisedRole } from '../controller/advise/advise.ts';
import type { Gap } from '../controller/advise/gaps.ts';
import { counted, listed } from '../controller/advise/listed.ts';
import type { Reason } from '../controller/advise/odd-source.ts';
import type { ReviewItem } from '../controller/advise/review-list.ts';
import type { AdvisedPolicy } from '../controller/advise/role-policies.ts';
import type { AdvisedRule, RuleEvidence } from '../controller/advise/to-rule.ts';
import { word } from './record-text.ts';
import { oneLine } from './status-text.ts';

const WIDTH = 110;

const WHY: Readonly<Record<Reason, string>> = {
  scanner: 'one peer on many ports: a scanner?',
  denied: 'denied when it was last seen',
  'denied-now': 'denied by a rule that is in force',
  few: 'seen once or twice',
  'client-port': 'ports that clients use: perhaps the other end of a connection from here',
  'many-ports': 'so many ports of one peer that they are one kind',
  'no-port': 'no port is known',
  'pod-gone': 'addresses of pods that are gone',
  'unnamed-protocol': 'no rule can name the protocol, but by allowing all traffic',
  'too-many': 'beyond the number of services that fit into few rules',
};

/**
 * The policies as YAML, with the evidence of each rule, the review list and what was not seen as
 * comments. `lines`: what to do next.
 */
export function adviceYaml(advice: Advice, lines: readonly string[]): string {
  const policies = advice.roles.flatMap((role) =>
    role.policies.map((policy, i) => policyText(policy, i === 0 ? role : null)),
  );
  const bare = advice.roles
    .filter((role) => role.policies.length === 0)
    .map((role) => comment(roleLines(role)));
  return [
    comment(headLines(advice, lines)),
    ...policies.map((text) => `---\n${text}`),
    ...bare.map((text) => `---\n${text}`),
    `---\n${comment(reviewLines(advice))}`,
  ].join('');
}

/** A Kubernetes object. */
export function toManifest({ name, spec }: AdvisedPolicy): object {
  return { apiVersion: 'nodewall.io/v1alpha1', kind: 'ClusterNetworkPolicy', metadata: { name }, spec };
}

function headLines({ roles, gaps }: Advice, next: readonly string[]): string[] {
  const nodes = roles.reduce((sum, role) => sum + role.nodes.length, 0);
  const text = `Policies of least privilege for ${counted(nodes, 'node')} in ${counted(roles.length, 'role')}, from the flows that were seen.`;
  return [
    ...wrapped(
      `${text} They are audits: nothing is dropped until their mode is Enforce. Read the review list at the end first.`,
    ),
    '',
    ...next,
    '',
    'Not seen:',
    ...gaps.flatMap((gap) => wrapped(gapText(gap), '- ')),
  ];
}

function gapText({ message, nodes }: Gap): string {
  const where = nodes.length === 0 ? '' : `${listed(nodes.map(word))}: `;
  return `${where}${oneLine(message, 400)}`;
}

function roleLines(role: AdvisedRole): string[] {
  const { name, nodes, serves, guaranteed, remarks } = role;
  const by = guaranteed.map(({ by: what, kinds, connections }) => {
    const who = what === 'failsafe' ? 'the failsafe list' : `exemption ${word(what)}`;
    return `${who} (${counted(connections, 'connection')} of ${counted(kinds, 'kind')})`;
  });
  return [
    ...wrapped(
      `Role ${name}: ${counted(nodes.length, 'node')} (${listed(nodes.map(word))}); serves ${servesText(serves)}.`,
    ),
    ...(by.length === 0 ? [] : wrapped(`Allowed without a rule: by ${by.join(', ')}.`)),
    ...remarks.flatMap((text) => wrapped(oneLine(text, 400), '- ')),
  ];
}

const MOST_SERVICES = 8;

function servesText(serves: readonly string[]): string {
  return serves.length === 0 ? 'nothing that was seen' : listed(serves, MOST_SERVICES);
}

function policyText(policy: AdvisedPolicy, role: AdvisedRole | null): string {
  const document = new Document(toManifest(policy), { aliasDuplicateObjects: false });
  for (const direction of ['ingress', 'egress'] as const) {
    const list = document.getIn(['spec', direction]);
    if (!isSeq(list)) continue;
    for (const [i, item] of list.items.entries()) {
      const advised = policy[direction][i];
      if (!isMap(item) || advised === undefined) continue;
      styleRule(item);
      item.commentBefore = ruleComment(advised, policy.spec.traffic === 'NodePort');
    }
  }
  const appliedTo = document.getIn(['spec', 'appliedTo']);
  if (isSeq(appliedTo)) appliedTo.items.forEach(short);
  short(document.getIn(['metadata']));
  const text = document.toString({ lineWidth: WIDTH, flowCollectionPadding: false });
  return role === null ? text : `${comment(roleLines(role))}${text}`;
}

/** Peers one on a line. */
function styleRule(rule: YAMLMap): void {
  for (const { key, value } of rule.items) {
    const isPeers = isScalar(key) && (key.value === 'from' || key.value === 'to');
    if (!isPeers) short(value);
    else if (isSeq(value)) value.items.forEach(short);
  }
  if (!rule.has('from') && !rule.has('to')) short(rule);
}

/** Longer ones are not written on one line. */
const SHORT = 90;

/** On one line what fits there. */
function short(node: unknown): void {
  if (!isCollection(node)) return;
  node.flow = JSON.stringify(node.toJSON()).length <= SHORT;
  if (node.flow) return;
  for (const item of node.items) short(isPair(item) ? item.value : item);
}

function ruleComment({ evidence }: AdvisedRule, isNodePort: boolean): string {
  if (evidence === null)
    return isNodePort
      ? ' all other connections to NodePorts'
      : ' all other traffic; the failsafe list and the exemptions are not closed by it';
  return [evidenceText(evidence), ...evidence.remarks.flatMap((text) => wrapped(oneLine(text, 400)))]
    .map((line) => ` ${line}`)
    .join('\n');
}

function evidenceText({ connections, live, peers, isMore, lastSeen }: RuleEvidence): string {
  const from = `${number(peers)}${isMore ? ' or more peers' : peers === 1 ? ' peer' : ' peers'}`;
  const now = live === 0 ? '' : `, ${number(live)} live`;
  return `${counted(connections, 'connection')} of ${from}${now}, last seen ${lastSeen}`;
}

function reviewLines({ review, reviewLeftOut }: Advice): string[] {
  if (review.length === 0) return ['Review list: nothing. All that was seen is in a rule, or needs none.'];
  const lines = wrapped(
    `Review list: ${counted(review.length, 'item')} whose flows are in no rule. Enforced, these policies drop them.`,
  );
  for (const [reason, items] of Map.groupBy(review, (item) => item.reason)) {
    lines.push('', `${WHY[reason]}`);
    lines.push(...items.slice(0, MOST_ITEMS).flatMap((item) => wrapped(itemText(item), '- ')));
    if (items.length > MOST_ITEMS) lines.push(`- ${items.length - MOST_ITEMS} more: -o json has all`);
  }
  if (reviewLeftOut > 0) lines.push('', `${number(reviewLeftOut)} more flows were too many to be kept.`);
  return lines;
}

const MOST_ITEMS = 20;

function itemText(item: ReviewItem): string {
  const {
    direction,
    traffic,
    peer,
    services,
    moreServices,
    connections,
    live,
    nodes,
    nodeCount,
    lastSeen,
    rule,
  } = item;
  const what = `${services.join(', ')}${moreServices > 0 ? ` and ${moreServices} more` : ''}`;
  const way = traffic === 'NodePort' ? `${direction} NodePort` : direction;
  const more = nodeCount > nodes.length ? ` and ${nodeCount - nodes.length} more` : '';
  const count = `${counted(connections, 'connection')}${live > 0 ? `, ${live} live` : ''}`;
  const by = rule === undefined ? '' : ` (by ${word(rule)})`;
  return `${way} ${words(peer)}: ${what} on ${nodes.map(word).join(', ')}${more}; ${count}, last seen ${lastSeen}${by}`;
}

/** Each word as it is safe on a terminal. */
function words(text: string): string {
  return text.split(' ').map(word).join(' ');
}

function number(value: number): string {
  return value.toLocaleString('en');
}

/** Lines of a comment, none longer than WIDTH unless one word is. */
function wrapped(text: string, bullet = ''): string[] {
  const lines: string[] = [];
  let line = bullet;
  for (const one of text.split(' ')) {
    if (line.length + one.length + 1 > WIDTH - 10 && line.trim() !== '' && line !== bullet) {
      lines.push(line);
      line = ' '.repeat(bullet.length);
    }
    line = line.trim() === '' || line === bullet ? `${line}${one}` : `${line} ${one}`;
  }
  return [...lines, line];
}

function comment(lines: readonly string[]): string {
  return lines.map((line) => `${`# ${line}`.trimEnd()}\n`).join('');
}
