import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { NodeFlow, NodeFlows } from '../../apis/node-flows.ts';
import { hosted } from './command-host.ts';
import { createFolder, type Folder } from './folder.ts';

const EXAMPLES = join(import.meta.dirname, '../../docs/examples');
const FLOWS = join(EXAMPLES, 'flows.json');
const CLUSTER = join(EXAMPLES, 'advise');

describe('nodewall advise', function () {
  this.timeout(60_000);
  let folder: Folder;
  before(async () => {
    folder = await createFolder();
  });
  after(() => folder.close());

  const advise = (...args: readonly string[]) => hosted('advise', '--manifests', CLUSTER, ...args);

  it('prints policies that are valid, and the same as JSON', async () => {
    const { status, stdout, stderr } = await advise('--flows', FLOWS);
    assert.deepEqual([status, stderr], [0, '']);
    const file = await folder.write('advised.yaml', stdout);
    const checked = await hosted('validate', '--manifests', file, '--manifests', CLUSTER);
    assert.deepEqual([checked.status, checked.stdout], [0, '']);
    const printed = await advise('--flows', FLOWS, '-o', 'json');
    const { policies, roles, review, gaps } = JSON.parse(printed.stdout);
    assert.deepEqual(
      policies.map(({ metadata }: { metadata: { name: string } }) => metadata.name),
      ['advised-control-plane', 'advised-worker', 'advised-worker-nodeports'],
    );
    assert.deepEqual(
      roles.map(({ nodes }: { nodes: string[] }) => nodes),
      [['cp-1'], ['worker-1', 'worker-2']],
    );
    assert.deepEqual(
      review.map(({ reason, peer }: { reason: string; peer: string }) => [reason, peer]),
      [
        ['scanner', '10.10.0.66'],
        ['few', '203.0.113.9'],
      ],
    );
    assert.deepEqual(
      gaps[0].message,
      'the window is 2 days: jobs that run weekly are not in it, unless they ran by chance',
    );
    assert.deepEqual(gaps[1].nodes, ['worker-3']);
  });

  it('leaves out the other direction, and takes the place that it is given', async () => {
    const options = ['--direction', 'egress', '--tier', 'platform', '--priority', '7'];
    const { stdout } = await advise('--flows', FLOWS, ...options, '-o', 'json');
    for (const { spec } of JSON.parse(stdout).policies) {
      assert.deepEqual([spec.tier, spec.priority, spec.mode], ['platform', 7, 'Audit']);
      assert.deepEqual(Object.keys(spec).includes('ingress'), false);
      assert.equal(spec.egress.at(-1).name, 'out-rest');
    }
  });

  it('prints what nodes say without control sequences, and leaves out what is no kind', async () => {
    const [first, ...others]: NodeFlows[] = JSON.parse(await readFile(FLOWS, 'utf8'));
    const [kind] = first?.flows ?? [];
    assert.ok(first !== undefined && kind !== undefined);
    const evil = (more: object): NodeFlow => ({ ...kind, ...more });
    const flows = [
      evil({ peer: '10.0.0.1\nspec: {}' }),
      evil({ port: '22, evil: true' }),
      evil({ lastSeen: '\u001b[31m' }),
      evil({ protocol: 'tcp\u001b[2J' }),
      evil({ flow: { direction: 'ingress', interfaceGroup: 'none' } }),
      evil({
        decision: {
          verdict: 'Drop',
          policy: 'a\u001b[31m\nb: c',
          rule: 'r',
          ruleIndex: 0,
          tier: null,
          reason: 'rule',
          skipped: [],
        },
      }),
    ];
    const text = JSON.stringify([{ ...first, flows: [...first.flows, ...flows] }, ...others]);
    const { status, stdout, stderr } = await advise('--flows', await folder.writeBeside('evil.json', text));
    assert.deepEqual([status, stderr], [0, '']);
    assert.doesNotMatch(stdout, /[^\n\P{Cc}]|^b: c|^spec: \{\}/mu);
    assert.match(stdout, /cp-1: 5 kinds that the agents sent, not valid and left out/);
    assert.match(stdout, /"a\\u001b\[31m\\nb:\s/);
  });

  it('names what is wrong with its options and files', async () => {
    const wrong: readonly (readonly [number, RegExp, readonly string[]])[] = [
      [2, /--max-cidrs: "0": must be a whole number from 1 to 1000/, ['--flows', FLOWS, '--max-cidrs', '0']],
      [
        2,
        /--priority: "1.5": must be a whole number from 1 to 10000/,
        ['--flows', FLOWS, '--priority', '1.5'],
      ],
      [2, /--tier: there is no tier "top"/, ['--flows', FLOWS, '--tier', 'top']],
      [2, /give either --machine, or --kubeconfig, --node and --selector/, ['--machine', '--node', 'a']],
      [1, /--flows: .*cluster\.yaml: /, ['--flows', join(CLUSTER, 'cluster.yaml')]],
      [
        1,
        /is not what nodewall flows -o json prints/,
        ['--flows', await folder.writeBeside('other.json', '[{}]')],
      ],
      [1, /contains no flow inventory/, ['--machine', '--state-dir', folder.path]],
    ];
    for (const [wanted, message, args] of wrong) {
      const { status, stdout, stderr } = await advise(...args);
      assert.deepEqual([status, stdout], [wanted, ''], stderr);
      assert.match(stderr, message);
    }
    const { status, stderr } = await hosted('advise', '--flows', FLOWS);
    assert.equal(status, 1);
    assert.match(stderr, /the flows are of Node "cp-1", which is not declared: give the manifests/);
  });
});
