/**
 * Nodes that a third party has taken over, among others: what they answer breaks no command about
 * all nodes, and no terminal.
 */
import assert from 'node:assert/strict';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { type FakeApi, fakeApi } from '../fake/fake-api.ts';
import type { Ended } from './command.ts';
import { hosted } from './command-host.ts';
import { createFolder, type Folder } from './folder.ts';

const LOUD = '\u001b]0;owned\u0007\u001b[2J\u009b31m\u202e';
const TIME = '2026-01-08T00:00:00Z';
const COUNTER = { packets: 0, bytes: 0, lastHit: null };

function rule(text: string): object {
  return {
    id: 'r',
    direction: 'ingress',
    tier: `t${text}`,
    policy: `web${text}`,
    apiGroup: 'nodewall.io',
    rule: `in${text}`,
    ruleIndex: 0,
    action: 'Drop',
    mode: 'Enforce',
    traffic: 'Host',
    ...COUNTER,
    since: '2025-01-01T00:00:00Z',
  };
}

function kind(text: string): object {
  const skipped = [{ policy: `web${text}`, rule: 'rest' }];
  const decision = {
    verdict: 'Allow',
    policy: `web${text}`,
    rule: `in${text}`,
    ruleIndex: 0,
    tier: 't',
    reason: 'failsafe',
    skipped,
  };
  return {
    direction: 'ingress',
    traffic: 'Host',
    peer: '10.0.0.1',
    protocol: 'tcp',
    port: 22,
    interfaceGroup: `g${text}`,
    verdict: 'Allow',
    connections: 1,
    live: 0,
    firstSeen: TIME,
    lastSeen: new Date().toISOString(),
    flow: { direction: 'ingress' },
    decision,
  };
}

function answers(node: string, text: string): Readonly<Record<string, object>> {
  const missed = { leftOut: 0, overruns: 0, busySeconds: 0 };
  const address = { address: `10.0.0.1${text}`, source: 'own', seen: TIME, expires: TIME, state: 'used' };
  const record = { time: `${TIME}${text}`, node, policy: `web${text}`, rule: 'in', label: text };
  const link = { name: `eth0${text}`, index: 1, kind: null, group: 0, groupName: text, wanted: null };
  const answer = { verdict: 'Drop', policy: `web${text}`, rule: 'in', ruleIndex: 0, tier: `t${text}` };
  return {
    counters: { node, rules: [rule(text)], spoofed: COUNTER, remark: text === '' ? null : text },
    flows: { node, since: TIME, liveAt: null, flows: [kind(text)], isCut: false, kinds: 1, missed },
    records: Object({ records: [{ ...record, verdict: 'Drop', src: text }], isCut: false, time: TIME }),
    names: { saved: TIME, names: [{ name: `a.example${text}`, failing: text, addresses: [address] }] },
    interfaces: [{ ...link, reason: `is${text}` }],
    explanation: { node, explanation: { ...answer, reason: 'rule', skipped: [], considered: [] } },
  };
}

/** By node and what is asked; a text is the message of a failure. */
const NODES: Readonly<Record<string, (about: string) => unknown>> = {
  loud: (about) => answers('loud', LOUD)[about],
  good: (about) => answers('good', '')[about],
  failing: () => `no answer${LOUD}\nnodewall: all is well`,
  nothing: () => null,
  empty: () => ({}),
  odd: (about) => ({ ...answers('odd', '')[about], flows: [null], rules: [{}], records: [null] }),
};

describe('a node that a third party has taken over', function () {
  this.timeout(60_000);
  let folder: Folder;
  let api: FakeApi;
  let kubeconfig: string;
  before(async () => {
    folder = await createFolder();
    api = await fakeApi();
    api.answers = ({ url = '' }, response) => {
      const { pathname } = new URL(url, 'http://localhost');
      if (!pathname.startsWith(NODE_VIEWS_PATH)) return false;
      const [node = '', about = ''] = pathname.slice(NODE_VIEWS_PATH.length + 1).split('/');
      const items = Object.keys(NODES).map((name) => ({ metadata: { name } }));
      const answer = node === '' ? { items } : NODES[node]?.(about);
      const status = { kind: 'Status', status: 'Failure', reason: 'ServiceUnavailable', message: answer };
      response.writeHead(typeof answer === 'string' ? 503 : 200, { 'content-type': 'application/json' });
      response.end(JSON.stringify(typeof answer === 'string' ? status : answer));
      return true;
    };
    kubeconfig = await folder.writeBeside(
      'kubeconfig',
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'Config',
        'current-context': 'c',
        clusters: [{ name: 'c', cluster: { server: api.server, 'insecure-skip-tls-verify': true } }],
        users: [{ name: 'u', user: { token: 't' } }],
        contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      }),
    );
  });
  after(async () => {
    await api.close();
    await folder.close();
  });

  const ask = (...args: readonly string[]): Promise<Ended> => hosted(...args, '--kubeconfig', kubeconfig);

  function assertHarmless({ stdout, stderr }: Ended): void {
    assert.doesNotMatch(stdout + stderr, /[^\n\P{Cc}]|\p{Cf}/u);
    assert.doesNotMatch(stderr, /\n {4}at /);
  }

  for (const [args, shown, silent] of [
    [['flows', '--all-nodes'], /^good +ingress +10\.0\.0\.1/m, ['failing', 'nothing', 'empty', 'odd']],
    [['rules', '--all-nodes', '--unused'], / web\/in /, ['failing', 'nothing', 'empty', 'odd']],
    [['top', '--all-nodes', '--interval', '1'], /^No rule/, ['failing', 'nothing', 'empty', 'odd']],
    [['lint', '--all-nodes', '--window', '1m'], /: web\/rest /, ['failing', 'nothing', 'empty', 'odd']],
    [['log', '--all-nodes'], /^good /m, ['failing', 'nothing', 'empty', 'odd']],
  ] as const)
    it(`does not keep the others from ${args[0]}, and is named`, async () => {
      const ended = await ask(...args);
      assertHarmless(ended);
      assert.match(ended.stdout, shown, ended.stderr);
      for (const node of silent) assert.match(ended.stderr, new RegExp(`^nodewall: ${node}: `, 'm'));
      assert.doesNotMatch(ended.stderr, /^nodewall: (good: |loud: |all is well)/m);
    });

  for (const args of [
    ...(['flows', 'rules', 'names', 'interfaces', 'log'] as const).map((command) => [command]),
    ['explain', '--flow', '{"direction":"ingress"}'],
  ])
    it(`sends nothing to the terminal by ${args[0]}`, async () => {
      const ended = await ask(...args, '--node', 'loud');
      assertHarmless(ended);
      assert.match(ended.stdout, /\\u001b/, ended.stderr);
      assertHarmless(await ask(...args, '--node', 'failing'));
    });
});
