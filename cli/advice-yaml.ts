import { Document, isMap, isPair, isSeq, visit } from 'yaml';
import type { Advice, AdvisedRole } from '../controller/advise/advise.ts';
import { REASONS } from '../controller/advise/node-class.ts';
import { counted, listed, type ReviewItem } from '../controller/advise/review-list.ts';
import type { AdvisedPolicy } from '../controller/advise/role-policies.ts';
import type { AdvisedRule } from '../controller/advise/rule-draft.ts';
import { fieldText, oneLine } from './record-text.ts';

/** Columns of the policies, and of comments. */
const WIDTH = 110;
const COLUMNS = 100;

/**
 * The policies as YAML, with the evidence of each rule, the review list and what was not seen as
 * comments. `lines`: what to do next.
 */
export function adviceYaml(advice: Advice, lines: readonly string[]): string {
  const roles = advice.roles.flatMap((role) => {
    const [first = '', ...others] = role.policies.map(policyText);
    return [`${comment(roleLines(role))}${first}`, ...others];
  });
  return [comment(headLines(advice, lines)), ...roles, comment(reviewLines(advice))].join('---\n');
}

/** A Kubernetes object. */
export function adviceManifest({ name, spec }: AdvisedPolicy): object {
  return { apiVersion: 'nodewall.io/v1alpha1', kind: 'ClusterNetworkPolicy', metadata: { name }, spec };
}

function headLines({ roles, gaps }: Advice, next: readonly string[]): string[] {
  const nodes = roles.reduce((sum, role) => sum + role.nodes.length, 0);
  return [
    ...wrapped(
      `Policies of least privilege for ${counted(nodes, 'node')} in ${counted(roles.length, 'role')}, from the flows that were seen. They are audits: nothing is dropped until their mode is Enforce. Read the review list at the end first.`,
    ),
    '',
    ...next,
    '',
    'Not seen:',
    ...gaps.flatMap(({ message, nodes: of }) => {
      const where = of.length === 0 ? '' : `${listed(of.map(fieldText))}: `;
      return wrapped(`${where}${oneLine(message, 400)}`, '- ');
    }),
  ];
}

function roleLines({ name, nodes, serves, guaranteed, remarks }: AdvisedRole): string[] {
  const services = serves.length === 0 ? 'nothing that was seen' : listed(serves, 8);
  const by = guaranteed.map((one) => {
    const who = one.by === 'failsafe' ? 'the failsafe list' : `exemption ${fieldText(one.by)}`;
    return `${who} (${counted(one.connections, 'connection')} of ${counted(one.kinds, 'kind')})`;
  });
  return [
    ...wrapped(
      `Role ${name}: ${counted(nodes.length, 'node')} (${listed(nodes.map(fieldText))}); serves ${services}.`,
    ),
    ...(by.length === 0 ? [] : wrapped(`Allowed without a rule: by ${by.join(', ')}.`)),
    ...remarks.flatMap((text) => wrapped(oneLine(text, 400), '- ')),
  ];
}

/** Fields whose items are one on a line. */
const LISTS = ['spec', 'appliedTo', 'ingress', 'egress', 'from', 'to'];
/** Longer ones are not written on one line. */
const SHORT = 90;

function policyText(policy: AdvisedPolicy): string {
  const document = new Document(adviceManifest(policy), { aliasDuplicateObjects: false });
  visit(document, {
    Collection(_, node, path) {
      const parent = path.at(-1);
      const isList = isPair(parent) && LISTS.includes(String(parent.key));
      if (path.length === 1 || isList || JSON.stringify(node.toJSON()).length > SHORT) return;
      node.flow = true;
      return visit.SKIP;
    },
  });
  for (const direction of ['ingress', 'egress'] as const) {
    const list = document.getIn(['spec', direction]);
    for (const [i, item] of (isSeq(list) ? list.items : []).entries()) {
      const advised = policy[direction][i];
      if (isMap(item) && advised !== undefined)
        item.commentBefore = ruleComment(advised, policy.spec.traffic === 'NodePort');
    }
  }
  return document.toString({ lineWidth: WIDTH, flowCollectionPadding: false });
}

function ruleComment({ evidence }: AdvisedRule, isNodePort: boolean): string {
  if (evidence === null)
    return isNodePort
      ? ' all other connections to NodePorts'
      : ' all other traffic; the failsafe list and the exemptions are not closed by it';
  const { connections, live, peers, isMore, lastSeen, remarks } = evidence;
  const from = isMore ? `${peers.toLocaleString('en')} or more peers` : counted(peers, 'peer');
  const now = live === 0 ? '' : `, ${live.toLocaleString('en')} live`;
  const text = `${counted(connections, 'connection')} of ${from}${now}, last seen ${lastSeen}`;
  const lines = [text, ...remarks.flatMap((one) => wrapped(oneLine(one, 400)))];
  return lines.map((line) => ` ${line}`).join('\n');
}

function reviewLines({ review, reviewLeftOut }: Advice): string[] {
  if (review.length === 0) return ['Review list: nothing. All that was seen is in a rule, or needs none.'];
  const lines = wrapped(
    `Review list: ${counted(review.length, 'item')} whose flows are in no rule. Enforced, these policies drop them.`,
  );
  for (const [reason, items] of Map.groupBy(review, (item) => item.reason)) {
    lines.push('', REASONS[reason]);
    lines.push(...items.slice(0, MOST_ITEMS).flatMap((item) => wrapped(itemText(item), '- ')));
    if (items.length > MOST_ITEMS) lines.push(`- ${items.length - MOST_ITEMS} more: -o json has all`);
  }
  if (reviewLeftOut > 0)
    lines.push('', `${reviewLeftOut.toLocaleString('en')} more flows were too many to be kept.`);
  return lines;
}

const MOST_ITEMS = 20;

function itemText(item: ReviewItem): string {
  const { direction, traffic, peer, services, moreServices, live, nodes, rule } = item;
  const of = `${services.join(', ')}${moreServices > 0 ? ` and ${moreServices} more` : ''}`;
  const way = traffic === 'NodePort' ? `${direction} NodePort` : direction;
  const others = item.nodeCount - nodes.length;
  const where = `${nodes.map(fieldText).join(', ')}${others > 0 ? ` and ${others} more` : ''}`;
  const count = `${counted(item.connections, 'connection')}${live > 0 ? `, ${live} live` : ''}`;
  const by = rule === undefined ? '' : ` (by ${fieldText(rule)})`;
  // Each word as it is safe on a terminal.
  const safe = peer.split(' ').map(fieldText).join(' ');
  return `${way} ${safe}: ${of} on ${where}; ${count}, last seen ${item.lastSeen}${by}`;
}

/** Lines of a comment, none longer than 100 columns unless one word is. */
function wrapped(text: string, bullet = ''): string[] {
  const lines: string[] = [];
  let line = '';
  for (const one of text.split(' ')) {
    const isFull = line !== '' && bullet.length + line.length + 1 + one.length > COLUMNS;
    if (isFull) lines.push(line);
    line = isFull || line === '' ? one : `${line} ${one}`;
  }
  return [...lines, line].map((one, i) => `${i === 0 ? bullet : ' '.repeat(bullet.length)}${one}`);
}

function comment(lines: readonly string[]): string {
  return lines.map((line) => `${`# ${line}`.trimEnd()}\n`).join('');
}
