/**
 * A day's traffic of random clusters, with a scanner and a weekly job: the advised policies,
 * enforced, deny nothing of it but what is on the review list.
 */

import assert from 'node:assert/strict';
import fc from 'fast-check';
import { parseAllDocuments } from 'yaml';
import { flowOfKind } from '../../agent/flows/flow-kind.ts';
import { explainMany } from '../../agent/observe/indexed-rules.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import type { ClusterNetworkPolicy } from '../../apis/objects.ts';
import { adviceYaml } from '../../cli/advice-yaml.ts';
import { guarantees } from '../../cli/advise.ts';
import { AdviceCollector } from '../../controller/advise/advice-collector.ts';
import { type Advice, advise } from '../../controller/advise/advise.ts';
import { compile } from '../../controller/compile/compile.ts';
import { nodeView } from '../../controller/publish/node-view.ts';
import { type Connection, type Day, day, NOW } from './advise-day.ts';
import { count, type Seen } from './agree.ts';
import { toClusterObjects } from './pipeline.ts';
import { checkAsync, missingOf } from './runs.ts';

const OPTIONS = {
  directions: ['ingress', 'egress'],
  maxCidrs: 4,
  tier: 'application',
  priority: 1000,
  unheard: { silent: [], notAsked: [] },
  now: NOW,
} as const;

describe('advised policies', function () {
  this.timeout(0);

  it('deny nothing of the day but the odd, have few rules, and say what is absent', async function () {
    const seen: Seen = new Map();
    await checkAsync(
      this,
      25,
      fc.nat(100_000),
      async (seed) => judge(await day(seed), seen),
      missingOf(seen, EXPECTED, 1),
    );
  });
});

const EXPECTED = [
  ...[
    'nodeSelector',
    'podSelector',
    'toServices',
    'ipBlock',
    'except',
    'NodePort',
    'icmp',
    'by name',
    'joined',
  ],
  ...['Drop scanner', 'Drop stranger', 'Allow usual', 'guaranteed failsafe', 'guaranteed localPods'],
];

function judge(of: Day, seen: Seen): void {
  const { cluster, inventories } = of;
  const collector = new AdviceCollector(cluster.objects, DEFAULT_CONFIG.interfaceGroups.pods);
  const guarantee = guarantees(cluster.objects, DEFAULT_CONFIG);
  for (const one of inventories) collector.add(one.node, one, guarantee(one.node));
  const advice = advise(collector, cluster.objects, OPTIONS);
  const text = adviceYaml(advice, []);
  const documents = parseAllDocuments(text).flatMap((document) => document.toJS() ?? []);
  // Throws if one is not valid.
  const { policies } = toClusterObjects([...cluster.manifests, ...documents]);
  assert.equal(policies.length, documents.length);
  note(advice, text, seen);
  for (const policy of policies) assert.equal(policy.spec.mode, 'Audit');
  for (const { name, policies: own } of advice.roles) {
    const rules = own.flatMap(({ ingress, egress }) => [...ingress, ...egress]);
    assert.ok(rules.length <= 12, `${rules.length} rules of ${name}`);
  }
  const nodes = advice.roles.flatMap((role) => role.nodes).sort();
  assert.deepEqual(nodes, cluster.nodes.map(({ name }) => name).sort(), 'every node has one role');
  replay(of, policies, { advice, text, seen });
  assert.match(text, /# - the window is 1 day: jobs that run weekly are not in it/);
  for (const peer of [of.scanner, of.stranger])
    assert.ok(
      advice.review.some((item) => item.peer === peer),
      `${peer} is on the review list`,
    );
  assert.ok(advice.review.some(({ reason, peer }) => reason === 'scanner' && peer === of.scanner));
  assert.doesNotMatch(text, /pod-template-hash|kubernetes\.io\/version/);
}

interface Judged {
  readonly advice: Advice;
  readonly text: string;
  readonly seen: Seen;
}

/** Every connection of the day against the policies as they are, but enforced. */
function replay(of: Day, policies: readonly ClusterNetworkPolicy[], { text, seen }: Judged): void {
  const enforced = policies.map((one) => ({ ...one, spec: { ...one.spec, mode: 'Enforce' as const } }));
  const compiled = compile({ ...of.cluster.objects, policies: enforced });
  const explainers = new Map(
    of.cluster.nodes.map(({ name }) => [name, explainMany(nodeView(compiled, name), DEFAULT_CONFIG)]),
  );
  const verdictOf = ({ node, flow }: Connection): string =>
    explainers.get(node)?.(flowOfKind({ last: flow })).verdict ?? 'no such node';
  for (const connection of new Set(of.connections)) {
    const { oddity, flow } = connection;
    const verdict = verdictOf(connection);
    count(seen, `${verdict} ${oddity ?? 'usual'}`);
    const wanted = oddity === null ? 'Allow' : 'Drop';
    assert.equal(verdict, wanted, `${JSON.stringify({ ...flow, oddity, node: connection.node })}\n${text}`);
  }
  assert.equal(verdictOf(of.weekly), 'Drop');
}

function note({ roles }: Advice, text: string, seen: Seen): void {
  for (const word of ['nodeSelector', 'podSelector', 'toServices', 'ipBlock', 'except', 'NodePort', 'icmp'])
    if (text.includes(word)) count(seen, word);
  if (text.includes('joined, to have few rules')) count(seen, 'joined');
  for (const { isByName, guaranteed } of roles) {
    if (isByName) count(seen, 'by name');
    for (const { by } of guaranteed) count(seen, `guaranteed ${by}`);
  }
}
