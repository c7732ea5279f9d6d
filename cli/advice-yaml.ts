import { Document, isCollection, isMap, isScalar, isSeq, type Node, type YAMLMap } from 'yaml';
import type { Advice, AdvisedRole } from '../controller/advise/advise.ts';
import type { Gap } from '../controller/advise/gaps.ts';
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
  const of = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`;
  return [
    `Policies of least privilege for ${of(nodes, 'node')} in ${of(roles.length, 'role')}, from the flows that were seen. They are`,
    'audits: nothing is dropped until their mode is Enforce. Read the end of this file first.',
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
  const count = `${nodes.length} node${nodes.length === 1 ? '' : 's'}`;
  const by = guaranteed.map(({ by: what, kinds, connections }) => {
    const who = what === 'failsafe' ? 'the failsafe list' : `exemption ${word(what)}`;
    return `${who} (${number(connections)} connections of ${number(kinds)} kinds)`;
  });
  return [
    ...wrapped(
      `Role ${name}: ${count} (${listed(nodes.map(word))}); serves ${serves.length === 0 ? 'nothing that was seen' : serves.join(', ')}.`,
    ),
    ...(by.length === 0 ? [] : wrapped(`Allowed without a rule: by ${by.join(', ')}.`)),
    ...remarks.flatMap((text) => wrapped(oneLine(text, 400), '- ')),
  ];
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
      item.commentBefore = ruleComment(advised);
    }
  }
  const appliedTo = document.getIn(['spec', 'appliedTo']);
  if (isSeq(appliedTo)) for (const item of appliedTo.items) flow(item as Node);
  flow(document.getIn(['metadata']) as Node);
  const text = document.toString({ lineWidth: WIDTH, flowCollectionPadding: false });
  return role === null ? text : `${comment(roleLines(role))}${text}`;
}

/** Peers one on a line, the rest in short. */
function styleRule(rule: YAMLMap): void {
  for (const { key, value } of rule.items) {
    const name = isScalar(key) ? key.value : null;
    if ((name === 'from' || name === 'to') && isSeq(value))
      for (const item of value.items) flow(item as Node);
    else if (isCollection(value)) value.flow = true;
  }
  if (!rule.has('from') && !rule.has('to')) rule.flow = true;
}

function flow(node: Node): void {
  if (isCollection(node)) node.flow = true;
}

function ruleComment({ evidence }: AdvisedRule): string {
  if (evidence === null)
    return ' all other traffic; the failsafe list and the exemptions are not closed by it';
  return [evidenceText(evidence), ...evidence.remarks.flatMap((text) => wrapped(oneLine(text, 400)))]
    .map((line) => ` ${line}`)
    .join('\n');
}

function evidenceText({ connections, live, peers, isMore, lastSeen }: RuleEvidence): string {
  const from = `${number(peers)}${isMore ? ' or more' : ''} peer${peers === 1 && !isMore ? '' : 's'}`;
  const now = live === 0 ? '' : `, ${number(live)} live`;
  return `${number(connections)} connection${connections === 1 ? '' : 's'} of ${from}${now}, last seen ${lastSeen}`;
}

function reviewLines({ review, reviewLeftOut }: Advice): string[] {
  if (review.length === 0) return ['Review list: nothing. All that was seen is in a rule, or needs none.'];
  const lines = [
    `Review list: ${review.length} peers whose flows are in no rule. Enforced, these policies drop them.`,
  ];
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
  const count = `${number(connections)} connection${connections === 1 ? '' : 's'}${live > 0 ? `, ${live} live` : ''}`;
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

const MOST_NAMED = 3;

function listed(names: readonly string[]): string {
  const rest = names.length - MOST_NAMED;
  return `${names.slice(0, MOST_NAMED).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
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
